local check = {
  summary = "A power supply of APC by apcupsd: on battery, charge, remaining time, load, battery to replace",
  needs = { "tcp" },
  timeout = "20s",
  attempts = 1,
  args = {
    host = { type = "string", default = "localhost", help = "the host of apcupsd" },
    port = { type = "integer", default = 3551, min = 1, max = 65535, help = "the port of its network information server" },
    warn = { type = "range", default = "50:", help = "charge of the battery in percent" },
    crit = { type = "range", default = "20:", help = "charge of the battery in percent" },
    runtime_warn = { type = "range", default = "600:", help = "seconds that the battery lasts" },
    runtime_crit = { type = "range", default = "180:", help = "seconds that the battery lasts" },
    load_warn = { type = "range", default = "80", help = "load in percent" },
    load_crit = { type = "range", default = "95", help = "load in percent" },
  },
}

local MOST_LINES = 200
-- What the words of STATUS mean; ONLINE, CAL, TRIM, BOOST and SLAVE are in order.
local BAD = {
  { "LOWBATT", "critical", "its battery is low" }, { "COMMLOST", "critical", "does not answer apcupsd" }, { "OVERLOAD", "critical", "is overloaded" },
  { "SHUTTING", "critical", "shuts down" }, { "NOBATT", "critical", "has no battery" }, { "ONBATT", "warning", "runs on battery" },
  { "REPLACEBATT", "warning", "its battery has to be replaced" },
}
-- Metric, field, unit, factor to the unit, and the names of the thresholds.
local FIGURES = {
  { "charge", "BCHARGE", "%", 1, "warn", "crit" }, { "runtime", "TIMELEFT", "s", 60, "runtime_warn", "runtime_crit" },
  { "load", "LOADPCT", "%", 1, "load_warn", "load_crit" }, { "input_voltage", "LINEV", "V", 1 }, { "output_voltage", "OUTPUTV", "V", 1 },
  { "battery_voltage", "BATTV", "V", 1 }, { "temperature", "ITEMP", "Cel", 1 },
}

-- Returns the fields as texts by name, and the seconds that it took. A message is a length of two bytes and a line; 0 is the end.
local function asked(args, host)
  local stream, found = require "stream", {}
  local connection = stream.open(host.tcp, args, 8)
  connection:send(string.pack(">s2", "status"))
  for _ = 1, MOST_LINES do
    local length = string.unpack(">I2", connection:take(2))
    if length == 0 then
      local took = connection.took
      connection:close("")
      return found, took
    end
    if length > 512 then stream.fail("protocol", "that is no apcupsd") end
    local name, value = connection:take(length):match("^([%u%d ]+):%s*(.-)%s*$")
    if not name then stream.fail("protocol", "that is no apcupsd") end
    found[name:gsub("%s+$", "")] = value
  end
  stream.fail("protocol", "the answer of apcupsd has no end")
end

-- Adds the metrics. Returns the worst status of their thresholds.
local function measure(args, host, found)
  local number, worse, worst = require("words").number, require("status").worse, "ok"
  for _, figure in ipairs(FIGURES) do
    local value = number((found[figure[2]] or ""):match("^%S+"))
    if value then
      local options = { unit = figure[3], warn = args[figure[5] or ""], crit = args[figure[6] or ""] }
      worst = worse(worst, host.metric(figure[1], value * figure[4], options))
    end
  end
  return worst
end

function check.run(args, host)
  local stream, words, worse = require "stream", require "words", require("status").worse
  local found, took, text = stream.guarded(asked, args, host)
  if not found then
    if took == "denied" or took == "bad-arguments" or took == "budget" then return "unknown", text end
    return "critical", text
  end
  local line = found.STATUS
  if not line or line == "" then return "unknown", "apcupsd tells no status" end
  local flags, parts = {}, {}
  for word in line:gmatch("%S+") do flags[word] = true end
  if flags.CAL then flags.ONBATT = nil end -- it is emptied on purpose
  local worst = measure(args, host, found)
  for _, bad in ipairs(BAD) do
    if flags[bad[1]] then worst, parts[#parts + 1] = worse(worst, bad[2]), bad[3] end
  end
  if #parts == 0 and not (flags.ONLINE or flags.CAL) then worst, parts[1] = worse(worst, "unknown"), "does not tell if it is on line" end
  local charge, left = words.number((found.BCHARGE or ""):match("^%S+")), words.number((found.TIMELEFT or ""):match("^%S+"))
  if charge then parts[#parts + 1] = string.format("charge %.0f %%", charge) end
  if not charge and worst == "ok" and require("lacking").is_judged(args.warn, args.crit) then
    worst, parts[#parts + 1] = worse(worst, "unknown"), "does not tell its charge (BCHARGE; warn and crit of ~: don't ask for it)"
  end
  if left then parts[#parts + 1] = words.duration(left * 60) .. " left" end
  host.metric("time", took, { unit = "s", min = 0 })
  return worst, string.format("%s (%s)%s%s", found.UPSNAME or found.MODEL or "the supply", line:sub(1, 40), #parts > 0 and ": " or "", table.concat(parts, ", "))
end

return check
