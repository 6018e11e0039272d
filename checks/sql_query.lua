local check = {
  summary = "The figures or the number of rows that a query of your own finds in PostgreSQL, MySQL or MariaDB",
  needs = { "tcp", "unix", "crypto" },
  timeout = "60s",
  args = {
    server = { type = "string", default = "postgresql", choices = { "postgresql", "mysql" }, help = "the protocol; mysql is that of MariaDB, too" },
    host = { type = "string", default = "localhost", help = "name or address" },
    port = { type = "integer", min = 1, max = 65535, help = "the port; 5432 or 3306 if it is not given" },
    socket = { type = "string", help = "path of its socket, instead of host and port" },
    user = { type = "string", default = "monitoring", help = "the account to log in with; give it nothing but SELECT on what it asks for" },
    password = { type = "string", help = "a secret: { secret = \"NAME\" }" },
    database = { type = "string", help = "the database to log in to; postgres if it is not given" },
    tls = { type = "string", default = "off", choices = { "off", "on", "verify" }, help = "on accepts any certificate, verify a valid one" },
    ca = { type = "string", help = "PEM text of the authorities to trust with tls = \"verify\" instead of the system's" },
    query = { type = "string", required = true, help = "one SELECT; it runs in a transaction that only reads" },
    column = { type = "string", default = "value", help = "the column with the figure; that of a single column may have any name" },
    label = { type = "string", help = "the column that names each row, where there are several" },
    equals = { type = "string", help = "what the figure must be, compared as text" },
    unit = { type = "string", default = "", help = "the unit of the figure: s, B, % or a word" },
    warn = { type = "range", help = "for each figure" },
    crit = { type = "range", help = "for each figure" },
    rows_warn = { type = "range", help = "number of rows; 0 finds any row at all" },
    rows_crit = { type = "range", help = "number of rows" },
    limit = { type = "duration", default = "20s", max = 50, help = "time that the server may take for each answer" },
  },
}

-- Rows with a metric of their own.
local MOST_ROWS = 100

local ASK = {
  postgresql = function(args, host, where, login)
    local postgres = require "postgres"
    local connection = postgres.connect(host, where, login, args.limit)
    postgres.query(connection, string.format("SET default_transaction_read_only = on; SET statement_timeout = %d", math.max(1, math.floor(args.limit * 1000))))
    local before = connection.took
    local rows, names = postgres.query(connection, args.query)
    local seconds = connection.took - before
    postgres.close(connection)
    return { rows = rows, names = names }, seconds
  end,
  mysql = function(args, host, where, login)
    local mysql = require "mysql"
    local connection = mysql.connect(host, where, login, args.limit)
    mysql.command(connection, "SET SESSION TRANSACTION READ ONLY")
    local before = connection.took
    local rows, names = mysql.query(connection, args.query)
    local seconds = connection.took - before
    mysql.close(connection)
    return { rows = rows, names = names }, seconds
  end,
}

-- Returns { rows (as tables of texts), names (of all columns) }, and the seconds that the query took.
local function asked(args, host)
  local port = args.port or (args.server == "mysql" and 3306 or 5432)
  local where = { host = args.host, port = port, socket = args.socket }
  local login = { user = args.user, password = args.password, database = args.database or (args.server == "postgresql" and "postgres" or nil), tls = args.tls, ca = args.ca }
  return ASK[args.server](args, host, where, login)
end

local function has(names, wanted)
  for _, name in ipairs(names) do
    if name == wanted then return true end
  end
  return false
end

-- Returns the name of the column with the figure: the wanted one, or the only one that there is beside the label; or nil. A column
-- counts in which this row is NULL: else another one would be taken for it.
local function column_of(args, names)
  local others = {}
  if has(names, args.column) then return args.column end
  for _, name in ipairs(names) do
    if name ~= args.label then others[#others + 1] = name end
  end
  return #others == 1 and others[1] or nil
end

-- Judges one row, by the text of its figure (nil if that is NULL). Returns the status and its sentence.
local function judge(args, host, row, text)
  local label = args.label and (row[args.label] or "NULL")
  local shown = label and label:sub(1, 60) .. " " or ""
  if not text then return "unknown", string.format("%sthere is no figure %s (it is NULL, or another column)", shown, args.column) end
  local value = require("words").number(text)
  shown = shown .. (value and require("words").short(value) .. (args.unit ~= "" and " " .. args.unit or "") or string.format("%q", text:sub(1, 60)))
  local status = "ok"
  if value then
    status = host.metric("value", value, { unit = args.unit, warn = args.warn, crit = args.crit, labels = label and { [args.label] = label } or nil })
  elseif args.warn or args.crit then
    return "unknown", shown .. " is no number"
  end
  if args.equals and text ~= args.equals then return "critical", string.format("%s, not %s", shown, args.equals) end
  return status, shown
end

function check.run(args, host)
  local faults, words, worse = require "faults", require "words", require("status").worse
  if args.label and not args.label:find("^[%a_][%w_.-]*$") then return "unknown", "label: it is the name of a column of letters, digits and _" end
  if args.unit:find("[%s%c]") or #args.unit > 32 then return "unknown", "unit: it is one short word" end
  local found, seconds, text = faults.guarded(asked, args, host)
  if not found then
    if seconds == "denied" or seconds == "bad-arguments" or seconds == "unsupported" or seconds == "too-large" or seconds == "budget" then return "unknown", text end
    return "critical", text
  end
  local rows, column = found.rows, column_of(args, found.names)
  local worst = host.metric("rows", #rows, { unit = "rows", warn = args.rows_warn, crit = args.rows_crit, min = 0 })
  host.metric("time", seconds, { unit = "s", min = 0 })
  local by_rows = args.rows_warn or args.rows_crit
  if by_rows and not (args.warn or args.crit or args.equals) then return worst, string.format("%s in %s", words.count(#rows, "row", "rows"), words.duration(seconds)) end
  if #rows == 0 then return worse(worst, "unknown"), "the query finds no row" end
  if #rows > 1 and not args.label then return worse(worst, "unknown"), string.format("the query finds %d rows: name them by a column (label)", #rows) end
  if #rows > MOST_ROWS then return worse(worst, "unknown"), string.format("the query finds %d rows, more than %d", #rows, MOST_ROWS) end
  if args.label and not has(found.names, args.label) then return worse(worst, "unknown"), "the query has no column " .. args.label end
  local bad, good = {}, {}
  for _, row in ipairs(rows) do
    local status, sentence = judge(args, host, row, column and row[column])
    worst = worse(worst, status)
    local list = status == "ok" and good or bad
    list[#list + 1] = sentence
  end
  return worst, string.format("%s, in %s", words.list(#bad > 0 and bad or good, 5), words.duration(seconds))
end

return check
