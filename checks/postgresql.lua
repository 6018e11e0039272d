local check = {
  summary = "A PostgreSQL server: it answers queries; connections, transactions, locks, replication",
  needs = { "tcp", "unix", "crypto" },
  timeout = "30s",
  args = {
    host = { type = "string", default = "localhost", help = "name or address" },
    port = { type = "integer", default = 5432, min = 1, max = 65535, help = "the port" },
    socket = { type = "string", help = "path of its socket, such as /run/postgresql/.s.PGSQL.5432, instead of host and port" },
    user = { type = "string", default = "monitoring", help = "the account to log in with; a member of pg_monitor sees all" },
    password = { type = "string", help = "a secret: { secret = \"NAME\" }" },
    database = { type = "string", default = "postgres", help = "the database to log in to" },
    tls = { type = "string", default = "off", choices = { "off", "on", "verify" }, help = "on accepts any certificate, verify a valid one" },
    ca = { type = "string", help = "PEM text of the authorities to trust with tls = \"verify\" instead of the system's" },
    warn = { type = "range", default = "80", help = "connections in percent of what the server takes" },
    crit = { type = "range", default = "95", help = "connections in percent of what the server takes" },
    oldest_warn = { type = "range", help = "seconds that the oldest transaction is open" },
    oldest_crit = { type = "range", help = "seconds that the oldest transaction is open" },
    age_warn = { type = "range", default = "1000000000", help = "transactions since the oldest unfrozen one; the server stops at 2^31" },
    age_crit = { type = "range", default = "1800000000", help = "transactions since the oldest unfrozen one" },
    replica = { type = "boolean", default = false, help = "it must be a standby" },
    lag_warn = { type = "range", default = "30", help = "seconds that a standby is behind" },
    lag_crit = { type = "range", default = "300", help = "seconds that a standby is behind" },
  },
}

-- Reads what every account may read. Without pg_monitor an account does not see the transactions of others.
-- A standby that has replayed all that it received is 0 s behind as long as it receives. Without a receiver nothing tells
-- what it lacks: then `cut` is true, and the age of the last transaction that it has replayed is the most that it can be behind.
local QUERY = [[
SELECT current_setting('server_version') AS version,
  current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int AS places,
  (SELECT max(extract(epoch FROM clock_timestamp() - xact_start)) FROM pg_stat_activity
    WHERE datid IS NOT NULL AND pid <> pg_backend_pid()) AS oldest,
  (SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock') AS waiting,
  (SELECT max(age(datfrozenxid)) FROM pg_database) AS age,
  pg_is_in_recovery() AS standby,
  CASE WHEN NOT pg_is_in_recovery() THEN NULL
    WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() AND EXISTS (SELECT FROM pg_stat_wal_receiver) THEN 0
    ELSE extract(epoch FROM now() - pg_last_xact_replay_timestamp()) END AS lag,
  pg_is_in_recovery() AND pg_last_wal_receive_lsn() IS NOT NULL AND NOT EXISTS (SELECT FROM pg_stat_wal_receiver) AS cut,
  extract(epoch FROM now() - pg_postmaster_start_time()) AS uptime,
  pg_database_size(current_database()) AS size,
  sum(numbackends) AS backends, sum(xact_commit) AS commits, sum(xact_rollback) AS rollbacks, sum(blks_read) AS blocks_read,
  sum(blks_hit) AS blocks_hit, sum(deadlocks) AS deadlocks, sum(temp_bytes) AS temp
FROM pg_stat_database]]

local COUNTERS = { commits = "c", rollbacks = "c", blocks_read = "c", blocks_hit = "c", deadlocks = "c", temp = "B" }

local function asked(args, host)
  local postgres = require "postgres"
  local connection = postgres.connect(host, args, args, 8)
  local row = postgres.query(connection, QUERY)[1]
  if not row then require("stream").fail("protocol", "the server answers the query without a row") end
  postgres.close(connection)
  return row, connection.took
end

-- Adds the metrics, and returns the worst status of their thresholds.
local function measure(args, host, row, took)
  local worse, number = require("status").worse, require("words").number
  local used, places = number(row.backends) or 0, number(row.places) or 0
  local worst = host.metric("connections_used", places > 0 and used * 100 / places or 100, { unit = "%", warn = args.warn, crit = args.crit, min = 0 })
  local function judged(name, value, unit, warn, crit)
    if value then worst = worse(worst, host.metric(name, value, { unit = unit, warn = warn, crit = crit, min = 0 })) end
  end
  judged("oldest_transaction", number(row.oldest), "s", args.oldest_warn, args.oldest_crit)
  judged("transaction_age", number(row.age), "transactions", args.age_warn, args.age_crit)
  judged("lag", number(row.lag), "s", args.lag_warn, args.lag_crit)
  host.metric("connections", used, { unit = "connections", min = 0, max = places })
  host.metric("waiting", number(row.waiting) or 0, { unit = "connections", min = 0 })
  host.metric("size", number(row.size) or 0, { unit = "B", min = 0, labels = { database = args.database } })
  host.metric("uptime", number(row.uptime) or 0, { unit = "s", min = 0 })
  for name, unit in pairs(COUNTERS) do
    local value = number(row[name])
    if value then host.metric(name, value, { unit = unit, kind = "counter" }) end
  end
  host.metric("time", took, { unit = "s", min = 0 })
  return worst, used, places
end

function check.run(args, host)
  local words, stream = require "words", require "stream"
  local row, took, text = stream.guarded(asked, args, host)
  if not row then
    if took == "denied" or took == "bad-arguments" or took == "unsupported" then return "unknown", text end
    return "critical", text
  end
  local worst, used, places = measure(args, host, row, took)
  local standby = row.standby == "t"
  local summary = string.format("version %s, %s, %d of %d connections", (row.version or "?"):match("^%S+"), standby and "standby" or "primary", used, places)
  local lag = standby and words.number(row.lag)
  if row.cut == "t" then
    worst = require("status").worse(worst, "warning")
    summary = summary .. ", cut off from its primary"
  end
  if lag then summary = summary .. string.format(row.cut == "t" and ", up to %s behind" or ", %s behind", words.duration(lag)) end
  local lacking = not words.number(row.backends) and { "its connections" } or {}
  if standby and not lag and require("lacking").is_judged(args.lag_warn, args.lag_crit) then lacking[#lacking + 1] = "how far it is behind" end
  worst, summary = require("lacking").verdict(worst, lacking, summary)
  if args.replica and not standby then return "critical", summary .. ": it should be a standby" end
  return worst, summary
end

return check
