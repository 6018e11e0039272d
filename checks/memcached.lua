local check = {
  summary = "A memcached server: memory, connections, hits and misses",
  needs = { "tcp" },
  timeout = "20s",
  args = {
    host = { type = "string", default = "localhost", help = "name or address" },
    port = { type = "integer", default = 11211, min = 1, max = 65535, help = "the port" },
    warn = { type = "range", help = "memory in percent of the limit" },
    crit = { type = "range", help = "memory in percent of the limit" },
  },
}

local COUNTERS = { hits = "get_hits", misses = "get_misses", evictions = "evictions", sets = "cmd_set" }

function check.run(args, host)
  local words = require "words"
  local answer, code, text = host.tcp {
    host = args.host, port = args.port, send = "stats\r\n", expect = "END\r\n", limit = 65536, timeout = 8,
  }
  if not answer then
    if code == "denied" or code == "bad-arguments" then return "unknown", text end
    return "critical", text
  end
  local stats = {}
  for name, value in answer.received:gmatch("STAT ([%w_]+) ([^\r\n]*)") do stats[name] = value end
  local used, limit = tonumber(stats.bytes), tonumber(stats.limit_maxbytes)
  if not (stats.version and used and limit and limit > 0) then
    return "critical", string.format("%s port %d is no memcached server", args.host, args.port)
  end
  local status = host.metric("memory_used", used * 100 / limit, { unit = "%", warn = args.warn, crit = args.crit, min = 0 })
  host.metric("memory", used, { unit = "B", min = 0, max = limit })
  host.metric("connections", tonumber(stats.curr_connections) or 0, { unit = "connections", min = 0 })
  host.metric("items", tonumber(stats.curr_items) or 0, { unit = "items", min = 0 })
  for name, field in pairs(COUNTERS) do
    local value = tonumber(stats[field])
    if value then host.metric(name, value, { unit = "c", kind = "counter" }) end
  end
  return status, string.format("version %s, %s of %s in use, %s items", stats.version, words.bytes(used), words.bytes(limit),
    stats.curr_items or "?")
end

return check
