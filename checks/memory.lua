local check = {
  summary = "Memory in use by programs; page cache does not count",
  needs = { "mem" },
  every = "1m",
  timeout = "10s",
  args = {
    warn = { type = "range", default = "90", help = "used memory in percent" },
    crit = { type = "range", default = "95", help = "used memory in percent" },
  },
}

function check.run(args, host)
  local words = require "words"
  local memory, _, text = host.mem()
  if not memory then return "unknown", text end
  local status = host.metric("used", memory.used_percent, { unit = "%", warn = args.warn, crit = args.crit, min = 0, max = 100 })
  host.metric("available", memory.available_bytes, { unit = "B", min = 0, max = memory.total_bytes })
  host.metric("total", memory.total_bytes, { unit = "B" })
  host.metric("cached", memory.cached_bytes, { unit = "B" })
  host.metric("buffers", memory.buffers_bytes, { unit = "B" })
  host.metric("slab", memory.slab_bytes, { unit = "B" })
  host.metric("dirty", memory.dirty_bytes, { unit = "B" })
  host.metric("committed", memory.committed_bytes, { unit = "B" })
  return status, string.format("used %.1f %%, %s of %s available", memory.used_percent,
    words.bytes(memory.available_bytes), words.bytes(memory.total_bytes))
end

return check
