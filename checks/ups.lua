local check = {
  summary = "Uninterruptible power supplies of a NUT server: on battery, charge, remaining time, load, faults",
  needs = { "tcp" },
  timeout = "40s",
  attempts = 1,
  args = {
    host = { type = "string", default = "localhost", help = "the host of upsd" },
    port = { type = "integer", default = 3493, min = 1, max = 65535, help = "the port" },
    ups = { type = "string", help = "the name of one UPS; all, if it is not given" },
    warn = { type = "range", default = "50:", help = "charge of the battery in percent" },
    crit = { type = "range", default = "20:", help = "charge of the battery in percent" },
    runtime_warn = { type = "range", default = "600:", help = "seconds that the battery lasts" },
    runtime_crit = { type = "range", default = "180:", help = "seconds that the battery lasts" },
    load_warn = { type = "range", default = "80", help = "load in percent" },
    load_crit = { type = "range", default = "95", help = "load in percent" },
  },
}

-- A UPS has some fifty variables.
local MOST_UPS, MOST_LINES = 16, 400
-- What the words of ups.status mean; those that are not here (OL, CHRG, TRIM ...) are in order.
local BAD = {
  LB = { "critical", "its battery is low" }, OFF = { "critical", "is off" }, OVER = { "critical", "is overloaded" }, FSD = { "critical", "shuts down" },
  COMMBAD = { "critical", "does not answer its driver" }, NOCOMM = { "critical", "does not answer its driver" },
  OB = { "warning", "runs on battery" }, RB = { "warning", "its battery has to be replaced" }, BYPASS = { "warning", "is bypassed: its load is not protected" },
  ALARM = { "warning", "has an alarm" },
}
local ORDER = { "LB", "OFF", "OVER", "FSD", "COMMBAD", "NOCOMM", "OB", "RB", "BYPASS", "ALARM" }
-- Metric, variable, unit, and the names of its thresholds.
local FIGURES = {
  { "charge", "battery.charge", "%", "warn", "crit" }, { "runtime", "battery.runtime", "s", "runtime_warn", "runtime_crit" },
  { "load", "ups.load", "%", "load_warn", "load_crit" }, { "input_voltage", "input.voltage", "V" }, { "output_voltage", "output.voltage", "V" },
  { "battery_voltage", "battery.voltage", "V" }, { "temperature", "ups.temperature", "Cel" }, { "power", "ups.realpower", "W" },
}
local ERRORS = {
  ["ACCESS-DENIED"] = "it does not let this host in: see LISTEN and the firewall of upsd", ["UNKNOWN-UPS"] = "there is no such UPS",
  ["DATA-STALE"] = "its driver hears nothing of the UPS", ["DRIVER-NOT-CONNECTED"] = "its driver does not run",
}

-- Asks for a list. Returns its lines without their first word, or nil and the server's error.
local function list_of(connection, question, kind)
  local stream, found = require "stream", {}
  connection:send("LIST " .. question .. "\n")
  local first = connection:line()
  local fault = first:match("^ERR (%S+)")
  if fault then return nil, fault end
  if first ~= "BEGIN LIST " .. question then stream.fail("protocol", string.format("that is no NUT server: it sends %q", first:sub(1, 60))) end
  for _ = 1, MOST_LINES do
    local line = connection:line()
    if line == "END LIST " .. question then return found end
    local rest = line:match("^" .. kind .. " (.*)$")
    if not rest then stream.fail("protocol", string.format("the list of the server has %q", line:sub(1, 60))) end
    found[#found + 1] = rest
  end
  stream.fail("protocol", "the list of the server has no end")
end

local function told(fault)
  return ERRORS[fault] or "the server answers " .. fault
end

-- Returns a list of { name, fault } or { name, variables } for each UPS, and the seconds that it took.
local function asked(args, host)
  local stream, found, names = require "stream", {}, { args.ups }
  local connection = stream.open(host.tcp, args, 8)
  if not args.ups then
    local lines, fault = list_of(connection, "UPS", "UPS")
    if not lines then stream.fail("failed", told(fault)) end
    for index, line in ipairs(lines) do names[index] = line:match("^%S+") end
    if #names > MOST_UPS then stream.fail("bad-arguments", string.format("the server has more than %d supplies: name one (ups)", MOST_UPS)) end
  end
  for index = 1, #names do
    local one = { name = names[index], variables = {} }
    local lines, fault = list_of(connection, "VAR " .. one.name, "VAR")
    for _, line in ipairs(lines or {}) do
      local variable, value = line:match('^%S+ (%S+) "(.*)"$')
      if variable then one.variables[variable] = value end
    end
    one.fault = fault and told(fault)
    found[index] = one
  end
  local took = connection.took
  connection:close("LOGOUT\n")
  return found, took
end

-- Adds the metrics of one UPS. Returns its status and its sentence.
local function judge(args, host, one)
  local number, worse, words = require("words").number, require("status").worse, require "words"
  if one.fault then return "critical", one.name .. ": " .. one.fault end
  local line, parts, worst = one.variables["ups.status"], {}, "ok"
  if not line or line == "" then return "unknown", one.name .. " tells no status" end
  local flags = {}
  for word in line:gmatch("%S+") do flags[word] = true end
  -- A battery that is calibrated is emptied on purpose.
  if flags.CAL then flags.OB = nil end
  for _, flag in ipairs(ORDER) do
    if flags[flag] then worst, parts[#parts + 1] = worse(worst, BAD[flag][1]), BAD[flag][2] end
  end
  if worst == "ok" and not (flags.OL or flags.CAL) then worst, parts[1] = "unknown", "does not tell if it is on line" end
  for _, figure in ipairs(FIGURES) do
    local name, value = figure[1], number(one.variables[figure[2]])
    if value then
      local options = { unit = figure[3], warn = args[figure[4] or ""], crit = args[figure[5] or ""], labels = { ups = one.name } }
      worst = worse(worst, host.metric(name, value, options))
    end
  end
  local charge, runtime = number(one.variables["battery.charge"]), number(one.variables["battery.runtime"])
  if not charge and worst == "ok" and require("lacking").is_judged(args.warn, args.crit) then
    worst, parts[#parts + 1] = worse(worst, "unknown"), "does not tell its charge (battery.charge; warn and crit of ~: don't ask for it)"
  end
  if charge then parts[#parts + 1] = string.format("charge %.0f %%", charge) end
  if runtime then parts[#parts + 1] = words.duration(runtime) .. " left" end
  if flags.ALARM and one.variables["ups.alarm"] then parts[#parts + 1] = one.variables["ups.alarm"]:sub(1, 100) end
  return worst, string.format("%s (%s)%s%s", one.name, line:sub(1, 40), #parts > 0 and ": " or "", table.concat(parts, ", "))
end

function check.run(args, host)
  local stream, worse, words = require "stream", require("status").worse, require "words"
  if args.ups and args.ups:find("[%s\"]") then return "unknown", "ups: a name has no blanks and quotes" end
  local found, took, text = stream.guarded(asked, args, host)
  if not found then
    if took == "denied" or took == "bad-arguments" or took == "budget" then return "unknown", text end
    return "critical", text
  end
  if #found == 0 then return "unknown", string.format("the server of %s has no UPS: see its ups.conf", args.host) end
  local worst, parts = "ok", {}
  for _, one in ipairs(found) do
    local status, sentence = judge(args, host, one)
    worst, parts[#parts + 1] = worse(worst, status), sentence
  end
  host.metric("time", took, { unit = "s", min = 0 })
  return worst, words.list(parts, 8)
end

return check
