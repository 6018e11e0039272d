local check = {
  summary = "Pools of ZFS: degraded, faulted, suspended; how much of the read cache is hit",
  needs = { "kernel" },
  timeout = "20s",
  args = {
    pools = { type = "list", default = {}, help = "names of pools that have to be there" },
    degraded = { type = "string", default = "critical", choices = { "warning", "critical" }, help = "what a pool is that works without all of its disks" },
  },
}

function check.run(args, host)
  local worse, words = require("status").worse, require "words"
  local zfs, code, text = host.kernel.zfs()
  if code == "unsupported" and #args.pools > 0 then zfs = { pools = {} } end
  if not zfs then return "unknown", text end
  local worst, bad, good, seen = "ok", {}, {}, {}
  for _, pool in ipairs(zfs.pools) do
    seen[pool.name] = true
    local list = pool.state == "ONLINE" and good or bad
    list[#list + 1] = string.format("%s is %s", pool.name, pool.state:lower())
    if pool.state ~= "ONLINE" then worst = worse(worst, pool.state == "DEGRADED" and args.degraded or "critical") end
    host.metric("online", pool.state == "ONLINE" and 1 or 0, { unit = "", min = 0, max = 1, labels = { pool = pool.name } })
  end
  for _, name in ipairs(args.pools) do
    if not seen[name] then worst, bad[#bad + 1] = "critical", "there is no pool " .. name end
  end
  local cache = zfs.cache
  if cache and cache.bytes then
    host.metric("cache", cache.bytes, { unit = "B", min = 0, max = cache.most_bytes })
    for _, name in ipairs { "hits", "misses" } do
      if cache[name] then host.metric("cache_" .. name, cache[name], { unit = "c", kind = "counter" }) end
    end
  end
  if #bad > 0 then return worst, words.list(bad, 5) end
  if #good == 0 then return "unknown", "ZFS is loaded, and has no pool" end
  return worst, words.list(good, 5)
end

return check
