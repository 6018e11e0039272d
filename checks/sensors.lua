local check = {
  summary = "Sensors of the hardware: temperatures, fans and others, by the limits of their chips",
  needs = { "kernel" },
  timeout = "20s",
  args = {
    kinds = { type = "list", default = { "temperature", "fan", "power", "humidity" }, help = "temperature, fan, voltage, current, power, humidity" },
    ignore = { type = "list", default = {}, help = "sensors that are not judged, as chip/name; * and ? are wildcards" },
    warn = { type = "range", help = "temperature in degrees Celsius; without it, the chip's own high limit" },
    crit = { type = "range", help = "temperature in degrees Celsius; without it, the chip's own critical limit" },
    fan_crit = { type = "range", help = "revolutions of a fan in a minute, such as 500:" },
    alarms = { type = "boolean", default = true, help = "an alarm of a chip is a warning; many boards give alarms of inputs that nothing is connected to" },
  },
}

local UNITS = { temperature = "Cel", fan = "rpm", voltage = "V", current = "A", power = "W", humidity = "%" }
-- Limits beyond are the marks of registers that nobody has set.
local COLDEST, HOTTEST = 20, 150

-- Returns a range that alerts above a chip's limit, or nil if it is none that makes sense.
local function above(limit)
  if type(limit) == "number" and limit >= COLDEST and limit <= HOTTEST then return string.format("~:%.15g", limit) end
end

-- Returns the thresholds of a sensor.
local function limits_of(args, sensor)
  if sensor.kind == "temperature" then return args.warn or above(sensor.high), args.crit or above(sensor.critical) end
  if sensor.kind == "fan" then return nil, args.fan_crit end
end

-- Judges one sensor. Returns the status, and a sentence if it is not in order.
local function judge(args, host, sensor, name)
  local short = require("words").short
  local judged = not require("patterns").any(name, args.ignore)
  if sensor.fault then return judged and "unknown" or "ok", judged and name .. " has a fault" or nil end
  local warn, crit = limits_of(args, sensor)
  local unit = UNITS[sensor.kind]
  local status = host.metric(sensor.kind, sensor.value, { unit = unit, warn = judged and warn or nil, crit = judged and crit or nil, labels = { sensor = name } })
  local shown = string.format("%s has %s %s", name, short(sensor.value), unit == "Cel" and "°C" or unit)
  if status ~= "ok" then return status, shown end
  if sensor.alarm and judged and args.alarms then return "warning", shown .. " and gives an alarm" end
  return "ok"
end

function check.run(args, host)
  local worse, words = require("status").worse, require "words"
  for _, kind in ipairs(args.kinds) do
    if not UNITS[kind] then return "unknown", string.format("kinds: there is no %s; there are temperature, fan, voltage, current, power and humidity", kind) end
  end
  local sensors, _, text = host.kernel.sensors()
  if not sensors then return "unknown", text end
  local worst, bad, count, hottest, seen = "ok", {}, 0, nil, {}
  local wanted = {}
  for _, kind in ipairs(args.kinds) do wanted[kind] = true end
  for _, sensor in ipairs(sensors) do
    if wanted[sensor.kind] and (sensor.fault or sensor.value) then
      local name = string.format("%s/%s", sensor.chip, sensor.name)
      seen[name] = (seen[name] or 0) + 1
      if seen[name] > 1 then name = string.format("%s#%d", name, seen[name]) end -- two chips of one kind
      local status, sentence = judge(args, host, sensor, name)
      worst, bad[#bad + 1], count = worse(worst, status), sentence, count + 1
      if sensor.kind == "temperature" and sensor.value and (not hottest or sensor.value > hottest) then hottest = sensor.value end
    end
  end
  if count == 0 then return "unknown", "this host shows no such sensor: a virtual machine has none, and others may lack a driver" end
  if #bad > 0 then return worst, words.list(bad, 5) end
  return worst, words.count(count, "sensor", "sensors") .. " in order" .. (hottest and string.format(", at most %s °C", words.short(hottest)) or "")
end

return check
