local check = {
  summary = "A Microsoft SQL Server by its sqlcmd: it answers; databases online, sessions, blocked requests, logs, age of backups",
  needs = { "program" },
  timeout = "60s",
  args = {
    program = { type = "string", default = "mssql", help = "its name in the host's policy: sqlcmd with the queries of the documentation" },
    databases = { type = "list", default = {}, help = "names of databases that have to be online; of a name with *, all that fit it" },
    ignore = { type = "list", default = {}, help = "names of databases that are not judged, such as copies that are always restored; * and ? are wildcards" },
    warn = { type = "range", help = "sessions of users" },
    crit = { type = "range", help = "sessions of users" },
    blocked_warn = { type = "range", default = "10", help = "requests that wait for a lock of another session" },
    blocked_crit = { type = "range", help = "requests that wait for a lock of another session" },
    log_warn = { type = "range", default = "80", help = "use of a transaction log in percent" },
    log_crit = { type = "range", default = "95", help = "use of a transaction log in percent" },
    backup_warn = { type = "range", help = "seconds since the last full backup of a database" },
    backup_crit = { type = "range", help = "seconds since the last full backup of a database" },
  },
}

local STATES = {
  ONLINE = "ok", OFFLINE = "off", RESTORING = "warning", RECOVERING = "warning", COPYING = "warning", OFFLINE_SECONDARY = "warning",
  RECOVERY_PENDING = "critical", SUSPECT = "critical", EMERGENCY = "critical",
}
local NOT_BACKED_UP = "tempdb" -- it is made anew at each start
local FIGURES = { uptime = true, sessions = true, blocked = true }

-- Returns { version, uptime, sessions, blocked, databases = { { name, state, backup } }, logs = { [name] = percent } }; nil and a sentence if
-- that is no answer to the queries, or not all of it. Ages are 0 at least: a clock that was put back is no fault of the answer.
local function read(text)
  local number, found, is_over = require("words").number, { databases = {}, logs = {} }, false
  for line in text:gmatch("[^\r\n]+") do
    local kind, rest = line:match("^(%l+)|(.*)$")
    local name, state, backup = (rest or ""):match("^(.+)|([%u_]+)|([%-%dNUL.]+)$")
    local logged, percent = (rest or ""):match("^(.+)|(%d+)$")
    if line == "end" and not is_over then
      is_over = true
    elseif is_over then
      return nil, "writes more behind the end of the queries"
    elseif kind == "version" then
      found.version = rest
    elseif FIGURES[kind] and number(rest) then
      found[kind] = number(rest)
    elseif kind == "database" and name and (backup == "NULL" or number(backup)) then
      table.insert(found.databases, { name = name, state = state, backup = backup ~= "NULL" and math.max(0, number(backup)) or nil })
    elseif kind == "log" and logged then
      found.logs[logged] = number(percent)
    else
      return nil, string.format("writes a line that the queries do not have: %s", line:sub(1, 80))
    end
  end
  if not is_over then return nil, "breaks off before the end of the queries" end
  found.uptime = found.uptime and math.max(0, found.uptime)
  return found
end

-- Judges the state of a database. Returns a status and a sentence, or nil if it is well.
local function state_of(one, is_wanted)
  local status = STATES[one.state]
  if status == "ok" or (status == "off" and not is_wanted) then return nil end
  return is_wanted and "critical" or status or "unknown", string.format("%s is %s", one.name, one.state:lower():gsub("_", " "))
end

-- Judges the log and the backup of a database that is online. Returns its status and what is bad. Each one is judged: the host keeps as
-- many metrics as a result may have, and judges the others as well.
local function measure(args, host, found, one)
  local worse, words, worst, bad = require("status").worse, require "words", "ok", {}
  local function judged(name, value, unit, kind, said)
    local range = { unit = unit, warn = args[kind .. "_warn"], crit = args[kind .. "_crit"], min = 0, labels = { database = one.name } }
    local status = host.metric(name, value, range)
    worst = worse(worst, status)
    if status ~= "ok" then bad[#bad + 1] = said end
  end
  local used = found.logs[one.name]
  if used then judged("log_used", used, "%", "log", string.format("the log of %s is full to %d %%", one.name, used)) end
  if one.name == NOT_BACKED_UP then return worst, bad end
  if one.backup then
    judged("backup_age", one.backup, "s", "backup", string.format("the backup of %s is %s old", one.name, words.duration(one.backup)))
  elseif require("lacking").is_judged(args.backup_warn, args.backup_crit) then
    worst = worse(worst, args.backup_crit and "critical" or "warning")
    bad[#bad + 1] = one.name .. " has no full backup"
  end
  return worst, bad
end

-- Judges the figures of the whole server. Returns the worst status, and what is bad.
local function judge_server(args, host, found, online)
  local worse, words, worst, bad = require("status").worse, require "words", "ok", {}
  local function judged(name, unit, kind, one, many)
    if not found[name] then return end
    local status = host.metric(name, found[name], { unit = unit, warn = args[kind .. "warn"], crit = args[kind .. "crit"], min = 0 })
    worst = worse(worst, status)
    if status ~= "ok" then bad[#bad + 1] = words.count(found[name], one, many) end
  end
  judged("sessions", "sessions", "", "session of a user", "sessions of users")
  judged("blocked", "requests", "blocked_", "request is blocked", "requests are blocked")
  if found.uptime then host.metric("uptime", found.uptime, { unit = "s", min = 0 }) end
  host.metric("online", online, { unit = "databases", min = 0 })
  return worst, bad
end

-- Judges all databases, and adds what is bad to `bad`. Returns the worst status.
local function judge_databases(args, host, found, bad)
  local worse, any, worst = require("status").worse, require("patterns").any, "ok"
  for _, one in ipairs(found.databases) do
    if not any(one.name, args.ignore) then
      local status, said = state_of(one, any(one.name, args.databases))
      if status then worst, bad[#bad + 1] = worse(worst, status), said end
      if one.state == "ONLINE" then
        local measured, told = measure(args, host, found, one)
        worst = worse(worst, measured)
        table.move(told, 1, #told, #bad + 1, bad)
      end
    end
  end
  for _, wanted in ipairs(args.databases) do
    local seen = false
    for _, one in ipairs(found.databases) do seen = seen or require("patterns").fits(one.name, wanted) end
    if not seen then worst, bad[#bad + 1] = "critical", "there is no database " .. wanted end
  end
  return worst
end

-- Returns what sqlcmd says of its failure. Rows may stand in front of an error, and its numbers stand in a line before the sentence.
local function sentence(answer)
  local told = "Msg %d+,[^\n]*\n%s*([^\r\n]+)"
  return answer.errors:match(told) or answer.text:match(told) or (answer.errors .. "\n" .. answer.text):match("[^\r\n]+") or "it says nothing"
end

function check.run(args, host)
  local worse, words = require("status").worse, require "words"
  local answer, code, text = host.program { name = args.program, timeout = 40, limit = 1048576 }
  if not answer then return code == "timeout" and "critical" or "unknown", text end
  if answer.exit_status ~= 0 then
    return "critical", string.format("%s fails (exit status %d): %s", args.program, answer.exit_status, sentence(answer))
  end
  local found, why = read(answer.text)
  if not found then return "unknown", string.format("the program %s %s", args.program, why) end
  local online, lacking = 0, {}
  for _, one in ipairs(found.databases) do online = online + (one.state == "ONLINE" and 1 or 0) end
  for _, name in ipairs { "version", "sessions", "blocked" } do
    if not found[name] then lacking[#lacking + 1] = name end
  end
  if #found.databases == 0 then lacking[#lacking + 1] = "databases" end
  local worst, bad = judge_server(args, host, found, online) -- first, so that its metrics are kept however many databases there are
  worst = worse(worst, judge_databases(args, host, found, bad))
  bad[#bad + 1] = string.format("version %s, %s online", found.version or "unknown", words.count(online, "database", "databases"))
  return require("lacking").verdict(worst, lacking, words.list(bad, 6))
end

return check
