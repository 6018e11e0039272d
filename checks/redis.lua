local check = {
  summary = "A Redis or Valkey server: memory, clients, replication, commands",
  needs = { "tcp" },
  timeout = "20s",
  args = {
    host = { type = "string", default = "localhost", help = "name or address" },
    port = { type = "integer", default = 6379, min = 1, max = 65535, help = "the port" },
    user = { type = "string", help = "the user to log in with, if it is not the default user" },
    password = { type = "string", help = "a secret: { secret = \"NAME\" }" },
    tls = { type = "string", default = "off", choices = { "off", "on", "verify" }, help = "on accepts any certificate, verify a valid one" },
    ca = { type = "string", help = "PEM text of the authorities to trust with tls = \"verify\" instead of the system's" },
    plain = { type = "boolean", default = false, help = "send the password to another host unencrypted" },
    warn = { type = "range", help = "memory in percent of maxmemory, where one is set" },
    crit = { type = "range", help = "memory in percent of maxmemory, where one is set" },
    clients_warn = { type = "range", help = "connected clients" },
    clients_crit = { type = "range", help = "connected clients" },
  },
}

local COUNTERS = {
  commands = "total_commands_processed", connections = "total_connections_received", hits = "keyspace_hits",
  misses = "keyspace_misses", evicted = "evicted_keys", expired = "expired_keys",
}

local function info_of(text)
  local info = {}
  for name, value in text:gmatch("([%w_]+):([^\r\n]*)\r?\n") do info[name] = value end
  return info
end

-- Redis has no login by proof: the password itself is sent.
local function login_of(args)
  if not args.password then return "" end
  local parts = { "AUTH", args.password }
  if args.user then table.insert(parts, 2, args.user) end
  local sent = "*" .. #parts .. "\r\n"
  for _, part in ipairs(parts) do sent = sent .. "$" .. #part .. "\r\n" .. part .. "\r\n" end
  return sent
end

function check.run(args, host)
  local words, worse = require "words", require("status").worse
  if args.password and not (args.plain or args.tls == "verify" or require("private").is_here(args.host)) then
    return "unknown", 'the password would go to another host unencrypted: use tls = "verify", or plain = true to send it anyway'
  end
  -- QUIT makes the server close, so that the end of the connection is the end of the answer.
  local answer, code, text = host.tcp {
    host = args.host, port = args.port, send = login_of(args) .. "INFO\r\nQUIT\r\n", expect = "\r\n+OK\r\n", limit = 65536, timeout = 8,
    tls = args.tls ~= "off", verify = args.tls == "verify", ca = args.tls == "verify" and args.ca or nil,
  }
  if not answer then
    if code == "denied" or code == "bad-arguments" then return "unknown", text end
    return "critical", text
  end
  local refusal = answer.received:match("^%-([^\r\n]*)") or answer.received:match("^%+OK\r\n%-([^\r\n]*)")
  if refusal then return "critical", "the server refuses: " .. refusal end
  local info = info_of(answer.received)
  if not info.redis_version then return "critical", string.format("port %d is no Redis server", args.port) end
  local lacking = {}
  for _, name in ipairs { "used_memory", "maxmemory", "connected_clients" } do
    if not tonumber(info[name]) then lacking[#lacking + 1] = name end
  end
  local worst, memory, limit = "ok", tonumber(info.used_memory) or 0, tonumber(info.maxmemory) or 0
  host.metric("memory", memory, { unit = "B", min = 0 })
  if limit > 0 then
    worst = host.metric("memory_used", memory * 100 / limit, { unit = "%", warn = args.warn, crit = args.crit, min = 0 })
  end
  local clients = tonumber(info.connected_clients) or 0
  worst = worse(worst, host.metric("clients", clients, { unit = "clients", warn = args.clients_warn, crit = args.clients_crit, min = 0 }))
  for name, field in pairs(COUNTERS) do
    local value = tonumber(info[field])
    if value then host.metric(name, value, { unit = "c", kind = "counter" }) end
  end
  host.metric("time", answer.seconds, { unit = "s", min = 0 })
  local summary = string.format("version %s, %s, %s in use, %s", info.redis_version, info.role or "no role", words.bytes(memory),
    words.count(clients, "client", "clients"))
  if info.role == "slave" and info.master_link_status ~= "up" then return "critical", summary .. ", the link to its master is down" end
  if info.loading == "1" then return worse(worst, "warning"), summary .. ", still loading its data" end
  return require("lacking").verdict(worst, lacking, summary)
end

return check
