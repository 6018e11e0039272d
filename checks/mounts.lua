local check = {
  summary = "Filesystems that have to be mounted, such as NFS and CIFS: they are there, of the right type, and they answer",
  needs = { "disk" },
  timeout = "60s",
  args = {
    paths = { type = "list", default = {}, help = "mount points that have to be there; without any, all that are there are judged, and one that is gone is not missed" },
    types = { type = "list", default = { "nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "fuse.*", "9p", "afs" }, help = "what they may be; * and ? are wildcards" },
    exclude = { type = "list", default = { "/run/user/*" }, help = "mount points that are not judged" },
    writable = { type = "list", default = {}, help = "of the mount points, those that must not be read-only; * stands for all" },
    source = { type = "string", help = "what has to be mounted, such as nas:/srv; * and ? are wildcards" },
    warn = { type = "range", help = "used space in percent" },
    crit = { type = "range", help = "used space in percent" },
  },
}

-- Seconds after which no further mount is asked: one that hangs takes five.
local ASKING_SECONDS = 45

-- Returns the mounts to judge as { path, mount } in order; `mount` is missing where nothing is mounted.
local function chosen(args, mounts)
  local patterns, by_path, found = require "patterns", {}, {}
  for _, mount in ipairs(mounts) do by_path[mount.path] = mount end
  for _, path in ipairs(args.paths) do
    local bare = #path > 1 and path:gsub("/+$", "") or path
    found[#found + 1] = { path = bare, mount = by_path[bare] }
  end
  if #args.paths > 0 then return found end
  for _, mount in ipairs(mounts) do
    if patterns.any(mount.type, args.types) and not patterns.any(mount.path, args.exclude) then found[#found + 1] = { path = mount.path, mount = mount } end
  end
  return found
end

-- Judges one mount. Returns the status, and a sentence if it is not in order.
local function judge(args, host, one)
  local patterns = require "patterns"
  if not one.mount then return "critical", one.path .. " is not mounted" end
  local kind, device = one.mount.type, one.mount.device or ""
  if not patterns.any(kind, args.types) then return "critical", string.format("%s is %s, not %s", one.path, kind, table.concat(args.types, " or ")) end
  if args.source and not patterns.fits(device, args.source) then return "critical", string.format("%s is %s, not %s", one.path, device, args.source) end
  local before = host.now()
  local disk, code, text = host.disk(one.path)
  if not disk then
    local sentence = text:sub(1, #one.path) == one.path and text or one.path .. ": " .. text
    return (code == "denied" or code == "bad-arguments" or code == "budget") and "unknown" or "critical", sentence
  end
  local labels, status = { path = one.path }, "ok"
  if disk.total_bytes > 0 then
    status = host.metric("used", disk.used_percent, { unit = "%", warn = args.warn, crit = args.crit, min = 0, max = 100, labels = labels })
    host.metric("free", disk.available_bytes, { unit = "B", min = 0, labels = labels })
  end
  host.metric("time", math.max(0, host.now() - before), { unit = "s", min = 0, labels = labels })
  if disk.filesystem_read_only == nil then disk.filesystem_read_only = disk.read_only end
  if disk.filesystem_read_only and patterns.any(one.path, args.writable) then return "critical", one.path .. " is read-only" end
  return status, status ~= "ok" and string.format("%s is %.0f %% full", one.path, disk.used_percent) or nil
end

function check.run(args, host)
  local words, worse = require "words", require("status").worse
  local mounts, _, text = host.mounts()
  if not mounts then return "unknown", text end
  local list, worst, bad, begun, late = chosen(args, mounts), "ok", {}, host.now(), 0
  for _, one in ipairs(list) do
    if host.now() - begun < ASKING_SECONDS then
      local status, sentence = judge(args, host, one)
      worst, bad[#bad + 1] = worse(worst, status), sentence
    else
      late = late + 1
    end
  end
  host.metric("mounts", #list, { unit = "mounts", min = 0 })
  if late > 0 then worst, bad[#bad + 1] = worse(worst, "unknown"), words.count(late, "mount was", "mounts were") .. " not asked: others took all the time" end
  if #list == 0 then return "unknown", "no filesystem of these types is mounted: name those that have to be there (paths)" end
  if #bad > 0 then return worst, words.list(bad, 5) end
  return worst, string.format("%s in order", words.count(#list, "mount", "mounts"))
end

return check
