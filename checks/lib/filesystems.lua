-- Chooses the filesystems that a check measures: one path, or all real ones that its arguments do not exclude.
local filesystems = {}

local NETWORK = { "nfs*", "cifs", "smb*", "9p", "ceph", "glusterfs", "fuse.*", "afs" }
-- Types that nothing ever writes to.
local ALWAYS_READ_ONLY = { "iso9660", "squashfs", "erofs", "cramfs", "romfs", "efs", "qnx4", "qnx6", "fuse.squashfuse*", "fuse.snapfuse" }
-- Seconds after which no further filesystem is asked. A mount that hangs takes 5 s of the 20 that a run has.
local ASKING_SECONDS = 12

-- Makes one text of the filesystems without an answer, or nil.
local function told(faults)
  if #faults == 0 then return nil end
  local words = require "words"
  local first, paths = faults[1], {}
  for _, fault in ipairs(faults) do paths[#paths + 1] = fault.path end
  local why = first.text
  if why:sub(1, #first.path + 2) == first.path .. ": " then why = why:sub(#first.path + 3) end
  if #faults == 1 then return string.format("%s is not measured: %s", first.path, why) end
  return string.format("%d filesystems are not measured (%s): %s", #faults, words.list(paths, 5), why)
end

-- Returns the answers of host.disk in the order of the mounts, each with the `options` of its mount, and a text on
-- those without an answer, or nil. Only what the policy denies is left out without a word.
-- Returns nil, text if the path of the arguments has no answer, or no filesystem is left.
function filesystems.chosen(args, host)
  local patterns = require "patterns"
  if args.path then
    local disk, _, text = host.disk(args.path)
    if not disk then return nil, text end
    return { disk }
  end
  local mounts, _, text = host.mounts()
  if not mounts then return nil, text end
  local found, seen, faults, refusal, begun = {}, {}, {}, nil, host.now()
  for _, mount in ipairs(mounts) do
    local wanted = not mount.pseudo and not patterns.any(mount.path, args.exclude)
      and not patterns.any(mount.type, args.exclude_types)
      and (args.network or not patterns.any(mount.type, NETWORK))
    -- A device that is mounted in several places (bind mounts, containers) is reported once.
    if wanted and not seen[mount.device] then
      local disk, code, why
      if host.now() - begun < ASKING_SECONDS then
        disk, code, why = host.disk(mount.path)
      else
        code, why = "timeout", "other filesystems took all the time of this run"
      end
      if disk and disk.total_bytes > 0 then
        seen[mount.device] = true
        disk.type, disk.device, disk.options = mount.type, mount.device, mount.options
        found[#found + 1] = disk
      elseif code == "denied" then
        refusal = refusal or why
      elseif code then
        faults[#faults + 1] = { path = mount.path, device = mount.device, code = code, text = why }
      end
    end
  end
  local missing = {}
  for _, fault in ipairs(faults) do
    -- Another mount hides this mount point, and the device was measured at another one.
    local hidden = fault.code == "not-found" and seen[fault.device]
    if not hidden then missing[#missing + 1] = fault end
  end
  text = told(missing)
  if #found == 0 then return nil, text or refusal or "this host has no filesystem that the arguments do not exclude" end
  return found, text
end

-- True if nothing can write to a filesystem of `chosen` that is normally written to.
function filesystems.read_only(disk)
  local patterns = require "patterns"
  if patterns.any(disk.type or "", ALWAYS_READ_ONLY) then return false end
  if disk.type == "zfs" and (disk.device or ""):find("@", 1, true) then return false end  -- a snapshot
  local mounted = disk.read_only
  for _, option in ipairs(disk.options or {}) do
    if option == "emergency_ro" then return true end
    mounted = mounted or option == "ro"
  end
  -- The agent's own service may see a filesystem read-only to which all others write.
  if disk.filesystem_read_only ~= nil then return disk.filesystem_read_only end
  return mounted
end

return filesystems
