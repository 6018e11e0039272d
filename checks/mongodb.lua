local check = {
  summary = "A MongoDB server: it answers; connections, operations, its replica set and how far it is behind",
  needs = { "tcp", "crypto" },
  timeout = "40s",
  args = {
    host = { type = "string", default = "localhost", help = "name or address" },
    port = { type = "integer", default = 27017, min = 1, max = 65535, help = "the port" },
    tls = { type = "string", default = "off", choices = { "off", "on", "verify" }, help = "on accepts any certificate, verify a valid one" },
    ca = { type = "string", help = "PEM text of the authorities to trust with tls = \"verify\" instead of the system's" },
    user = { type = "string", help = "the account to log in with; it needs the role clusterMonitor" },
    password = { type = "string", help = "a secret: { secret = \"NAME\" }" },
    database = { type = "string", default = "admin", help = "the database in which the account lies" },
    set = { type = "string", help = "the replica set that it has to be in" },
    warn = { type = "range", default = "80", help = "connections in percent of what the server takes" },
    crit = { type = "range", default = "95", help = "connections in percent of what the server takes" },
    lag_warn = { type = "range", default = "30", help = "seconds that a secondary is behind its primary" },
    lag_crit = { type = "range", default = "300", help = "seconds that a secondary is behind its primary" },
    queue_warn = { type = "range", help = "operations that wait for a lock" },
    queue_crit = { type = "range", help = "operations that wait for a lock" },
  },
}

-- Parts of the status that are long, and of which nothing is read.
local WITHOUT = { "metrics", "wiredTiger", "tcmalloc", "transactions", "logicalSessionRecordCache", "locks", "indexStats", "sharding", "mirroredReads", "repl" }
local GOOD_STATES = { PRIMARY = true, SECONDARY = true, ARBITER = true }

-- Asks for everything. Returns { hello, status, set }; `set` is missing for a server that is in none.
local function asked(args, host)
  local mongo, stream = require "mongo", require "stream"
  local connection = mongo.connect(host, args, args, 8)
  local hello = { { "hello", 1 } }
  if args.user then hello[2] = { "saslSupportedMechs", args.database .. "." .. args.user } end
  local found = { hello = mongo.command(connection, "admin", hello) }
  if args.user then
    local mechanisms = found.hello.saslSupportedMechs
    mongo.log_in(connection, host, args, type(mechanisms) == "table" and mechanisms or nil)
  end
  local question = { { "serverStatus", 1 } }
  for _, part in ipairs(WITHOUT) do question[#question + 1] = { part, 0 } end
  found.status = mongo.command(connection, "admin", question)
  if found.hello.setName then found.set = mongo.command(connection, "admin", { { "replSetGetStatus", 1 } }) end
  found.took = connection.took
  connection:close("")
  if type(found.status.version) ~= "string" then stream.fail("protocol", "the status of the server has no version") end
  return found
end

-- Judges the replica set. Returns the status, sentences, and the word for this member.
local function judge_set(args, host, set)
  local fields, worse = require "fields", require("status").worse
  local worst, parts, own, primary = "ok", {}, nil, nil
  for _, member in ipairs(fields.list(set, "members")) do
    local name, state = fields.text(member, "name") or "?", fields.text(member, "stateStr") or "unknown"
    if fields.at(member, "self") == true then own = member end
    if state == "PRIMARY" then primary = member end
    if fields.number(member, "health") ~= 1 then worst, parts[#parts + 1] = worse(worst, "warning"), name .. " is not reachable"
    elseif not GOOD_STATES[state] then worst, parts[#parts + 1] = worse(worst, "warning"), string.format("%s is %s", name, state:lower()) end
  end
  local word = fields.text(own, "stateStr") or "unknown"
  if not primary then worst, parts[#parts + 1] = "critical", "the set has no primary" end
  if not GOOD_STATES[word] then worst, parts[#parts + 1] = "critical", "this member is " .. word:lower() end
  host.metric("members", #fields.list(set, "members"), { unit = "members", min = 0 })
  local mine, theirs = fields.number(own, "optimeDate"), fields.number(primary, "optimeDate")
  if word == "SECONDARY" and primary and not (mine and theirs) then
    worst, parts[#parts + 1] = worse(worst, "unknown"), "how far it is behind isn't told"
  elseif word == "SECONDARY" and mine and theirs then
    local lag = math.max(0, theirs - mine)
    local late = host.metric("lag", lag, { unit = "s", warn = args.lag_warn, crit = args.lag_crit, min = 0 })
    worst = worse(worst, late)
    parts[#parts + 1] = require("words").duration(lag) .. " behind"
  end
  return worst, parts, word:lower()
end

-- Adds the metrics of the server. Returns the worst status of their thresholds, and the number of connections; nil without that.
local function measure(args, host, status)
  local number, worse = require("fields").number, require("status").worse
  local current, available = number(status, "connections", "current"), number(status, "connections", "available")
  if not (current and available and current + available > 0) then return nil end
  local worst = host.metric("connections_used", current * 100 / (current + available), { unit = "%", warn = args.warn, crit = args.crit, min = 0 })
  host.metric("connections", current, { unit = "connections", min = 0 })
  local waiting = number(status, "globalLock", "currentQueue", "total")
  if waiting then worst = worse(worst, host.metric("waiting", waiting, { unit = "operations", warn = args.queue_warn, crit = args.queue_crit, min = 0 })) end
  local resident, up = number(status, "mem", "resident"), number(status, "uptime")
  if resident then host.metric("memory", resident * 1048576, { unit = "B", min = 0 }) end
  if up then host.metric("uptime", up, { unit = "s", min = 0 }) end
  for _, name in ipairs { "insert", "query", "update", "delete", "getmore", "command" } do
    local value = number(status, "opcounters", name)
    if value then host.metric("operations", value, { unit = "c", kind = "counter", labels = { kind = name } }) end
  end
  for metric, field in pairs { received = "bytesIn", sent = "bytesOut" } do
    local value = number(status, "network", field)
    if value then host.metric(metric, value, { unit = "B", kind = "counter" }) end
  end
  return worst, current
end

function check.run(args, host)
  local stream, words, fields, worse = require "stream", require "words", require "fields", require("status").worse
  if (args.user == nil) ~= (args.password == nil) then return "unknown", "a login needs both user and password" end
  local found, code, text = stream.guarded(asked, args, host)
  if not found then
    if code == "denied" or code == "bad-arguments" or code == "unsupported" or code == "budget" then return "unknown", text end
    return "critical", text
  end
  local worst, current = measure(args, host, found.status)
  if not worst then return "unknown", "the status of the server has no connections" end
  host.metric("time", found.took, { unit = "s", min = 0 })
  local parts, role = {}, "alone"
  if found.set then
    local bad
    bad, parts, role = judge_set(args, host, found.set)
    worst = worse(worst, bad)
  end
  local name = fields.text(found.hello, "setName")
  if args.set and name ~= args.set then
    worst = "critical"
    table.insert(parts, 1, string.format("it is in %s, not in the set %s", name and "the set " .. name or "no set", args.set))
  end
  parts[#parts + 1] = string.format("version %s, %s, %s", found.status.version:sub(1, 30), role, words.count(current, "connection", "connections"))
  return worst, table.concat(parts, ", ")
end

return check
