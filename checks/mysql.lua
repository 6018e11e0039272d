local check = {
  summary = "A MySQL or MariaDB server: it answers queries; connections, queries, replication",
  needs = { "tcp", "unix", "crypto" },
  timeout = "30s",
  args = {
    host = { type = "string", default = "localhost", help = "name or address" },
    port = { type = "integer", default = 3306, min = 1, max = 65535, help = "the port" },
    socket = { type = "string", help = "path of its socket, such as /run/mysqld/mysqld.sock, instead of host and port" },
    user = { type = "string", default = "monitoring", help = "the account to log in with; it needs no privilege, or REPLICATION CLIENT for replica" },
    password = { type = "string", help = "a secret: { secret = \"NAME\" }" },
    tls = { type = "string", default = "off", choices = { "off", "on", "verify" }, help = "on accepts any certificate, verify a valid one" },
    ca = { type = "string", help = "PEM text of the authorities to trust with tls = \"verify\" instead of the system's" },
    warn = { type = "range", default = "80", help = "connections in percent of what the server takes" },
    crit = { type = "range", default = "95", help = "connections in percent of what the server takes" },
    running_warn = { type = "range", help = "threads that are at work" },
    running_crit = { type = "range", help = "threads that are at work" },
    replica = { type = "boolean", default = false, help = "it must be a replica that replicates" },
    lag_warn = { type = "range", default = "30", help = "seconds that a replica is behind" },
    lag_crit = { type = "range", default = "300", help = "seconds that a replica is behind" },
  },
}

local COUNTERS = {
  queries = "Questions", slow_queries = "Slow_queries", aborted_clients = "Aborted_clients", aborted_connects = "Aborted_connects",
  rows_read = "Innodb_rows_read", received = "Bytes_received", sent = "Bytes_sent", lock_waits = "Innodb_row_lock_waits",
}
local BYTES = { received = true, sent = true }

local function status_of(mysql, connection)
  local number = require("words").number
  local wanted = { "'Uptime'", "'Threads_connected'", "'Threads_running'" }
  for _, name in pairs(COUNTERS) do wanted[#wanted + 1] = "'" .. name .. "'" end
  local status = {}
  for _, row in ipairs(mysql.query(connection, "SHOW GLOBAL STATUS WHERE Variable_name IN (" .. table.concat(wanted, ", ") .. ")")) do
    if row.Variable_name then status[row.Variable_name] = number(row.Value) end
  end
  local row = mysql.query(connection, "SELECT @@global.max_connections AS places")[1]
  status.places = number(row and row.places)
  return status
end

-- Returns the replication status of a replica, by the old names of its fields or the new ones.
local function replication_of(mysql, connection)
  local rows, code, text = require("stream").guarded(mysql.query, connection, "SHOW REPLICA STATUS")
  if not rows and (text or ""):find("(1064)", 1, true) then
    rows, code, text = require("stream").guarded(mysql.query, connection, "SHOW SLAVE STATUS")
  end
  if not rows then require("stream").fail(code, text) end
  local row = rows[1] or {}
  local function either(new, old) return row[new] or row[old] end
  return {
    is_replica = rows[1] ~= nil,
    reads = either("Replica_IO_Running", "Slave_IO_Running"), applies = either("Replica_SQL_Running", "Slave_SQL_Running"),
    lag = require("words").number(either("Seconds_Behind_Source", "Seconds_Behind_Master")),
    fault = row.Last_Error ~= "" and row.Last_Error or (row.Last_IO_Error ~= "" and row.Last_IO_Error) or nil,
  }
end

local function asked(args, host)
  local mysql = require "mysql"
  local connection, version = mysql.connect(host, args, args, 8)
  local found = { version = version, status = status_of(mysql, connection) }
  if args.replica then found.replication = replication_of(mysql, connection) end
  mysql.close(connection)
  found.took = connection.took
  return found
end

local function measure(args, host, found)
  local worse, status = require("status").worse, found.status
  local used, places = status.Threads_connected or 0, status.places or 0
  local worst = host.metric("connections_used", places > 0 and used * 100 / places or 100, { unit = "%", warn = args.warn, crit = args.crit, min = 0 })
  worst = worse(worst, host.metric("running", status.Threads_running or 0, { unit = "threads", warn = args.running_warn, crit = args.running_crit, min = 0 }))
  host.metric("connections", used, { unit = "connections", min = 0, max = places })
  host.metric("uptime", status.Uptime or 0, { unit = "s", min = 0 })
  for name, field in pairs(COUNTERS) do
    if status[field] then host.metric(name, status[field], { unit = BYTES[name] and "B" or "c", kind = "counter" }) end
  end
  host.metric("time", found.took, { unit = "s", min = 0 })
  return worst, used, places
end

local function replica_status(args, host, replication)
  if not replication.is_replica then return "critical", "it is no replica" end
  local fault = replication.fault and ": " .. replication.fault:sub(1, 200) or ""
  if replication.reads ~= "Yes" then return "critical", "it does not read from its source" .. fault end
  if replication.applies ~= "Yes" then return "critical", "it does not apply what it reads" .. fault end
  if not replication.lag then return "critical", "it does not know how far it is behind" end
  local status = host.metric("lag", replication.lag, { unit = "s", warn = args.lag_warn, crit = args.lag_crit, min = 0 })
  return status, require("words").duration(replication.lag) .. " behind"
end

function check.run(args, host)
  local stream, worse = require "stream", require("status").worse
  local found, code, text = stream.guarded(asked, args, host)
  if not found then
    if code == "denied" or code == "bad-arguments" or code == "unsupported" then return "unknown", text end
    return "critical", text
  end
  local worst, used, places = measure(args, host, found)
  local lacking = {}
  for _, name in ipairs { "Threads_connected", "Threads_running" } do
    if not found.status[name] then lacking[#lacking + 1] = name end
  end
  local summary = string.format("version %s, %d of %d connections", found.version, used, places)
  worst, summary = require("lacking").verdict(worst, lacking, summary)
  if not found.replication then return worst, summary end
  local status, why = replica_status(args, host, found.replication)
  return worse(worst, status), summary .. ", " .. why
end

return check
