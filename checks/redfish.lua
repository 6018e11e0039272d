local check = {
  summary = "A server's management controller by Redfish: health of systems, temperatures, fans, power supplies",
  needs = { "http" },
  timeout = "90s",
  args = {
    url = { type = "string", required = true, help = "the address of the controller (iDRAC, iLO, XCC, BMC): https://name, without a path" },
    user = { type = "string", help = "an account that may only read" },
    password = { type = "string", help = "a secret: { secret = \"NAME\" }" },
    verify = { type = "boolean", default = true, help = "the certificate must be valid; controllers come with one that is not" },
    ca = { type = "string", help = "PEM text of the authorities to trust, or the controller's own certificate, instead of the system's" },
    ignore = { type = "list", default = {}, help = "names of sensors, fans and supplies that are not judged; * and ? are wildcards" },
    power_off = { type = "string", default = "critical", choices = { "ok", "warning", "critical" }, help = "what a system is that is switched off" },
    power_warn = { type = "range", help = "watts that a chassis takes" },
    power_crit = { type = "range", help = "watts that a chassis takes" },
  },
}

-- Controllers are slow: seconds of one request, and of all of them.
local STEP, ALL = 20, 75
local MOST_MEMBERS, MOST_SENSORS = 24, 150
local HEALTH = { OK = "ok", Warning = "warning", Critical = "critical" }

-- Asks for a resource. Returns it, or nil and keeps the failure in `found`.
local function fetch(args, host, found, path)
  if host.now() - found.begun > ALL then
    found.code, found.text = "timeout", string.format("the controller took more than %d s", ALL)
    return nil
  end
  local document, code, text = require("api").get(host, args, path, { timeout = STEP })
  if not document then found.code, found.text = code, text end
  return document
end

-- Calls take(document) for each member of a collection that the service root names, up to one that cannot be read.
local function each_member(args, host, found, path, take)
  local fields = require "fields"
  local collection = path and fetch(args, host, found, path)
  if collection and type(collection.Members) ~= "table" then found.code, found.text = "protocol", path .. " names no members" end
  if fields.at(collection, "Members@odata.nextLink") then found.left[#found.left + 1] = path .. " goes on in a further part, which is not judged" end
  for index, member in ipairs(fields.list(collection, "Members")) do
    local where = fields.text(member, "@odata.id")
    if index > MOST_MEMBERS or not where then
      found.code, found.text = "too-large", string.format("%s names more than %d members, or one without an address", path, MOST_MEMBERS)
      return
    end
    local document = fetch(args, host, found, where)
    if not document then return end
    take(document)
  end
end

local function note(found, status, sentence)
  found.worst = require("status").worse(found.worst, status)
  if status ~= "ok" then found.ills[#found.ills + 1] = sentence end
end

-- Judges the health of a part. One that is absent or switched off has none.
local function judge_health(args, found, part, name)
  local fields = require "fields"
  local state = fields.text(part, "Status", "State")
  if state == "Absent" or state == "Disabled" or require("patterns").any(name, args.ignore) then return end
  local word = fields.text(part, "Status", "HealthRollup") or fields.text(part, "Status", "Health")
  if not word then return end
  found.judged = found.judged + 1
  note(found, HEALTH[word] or "unknown", string.format("%s is %s", name, word:lower()))
end

local function look_at_system(args, found, system)
  local fields = require "fields"
  local name = fields.text(system, "Name") or fields.text(system, "Id") or "the system"
  found.systems = found.systems + 1
  found.model = found.model or fields.text(system, "Model")
  judge_health(args, found, system, name)
  for _, part in ipairs { "ProcessorSummary", "MemorySummary" } do
    judge_health(args, found, fields.at(system, part), name .. ": " .. part:gsub("Summary", ""):lower())
  end
  if fields.text(system, "PowerState") == "Off" then note(found, args.power_off, name .. " is switched off") end
end

-- Adds a reading with the controller's own limits, where it tells any.
local function measure(args, host, found, metric, reading, unit, part, name)
  local fields = require "fields"
  if not reading or fields.text(part, "Status", "State") == "Absent" then return end
  if found.sensors >= MOST_SENSORS then
    found.further = found.further + 1
    return
  end
  found.sensors = found.sensors + 1
  local function limit(field)
    local value = metric == "temperature" and fields.number(part, field)
    return value and value > 0 and string.format("~:%.15g", value) or nil
  end
  local judged = not require("patterns").any(name, args.ignore)
  local status = host.metric(metric, reading, {
    unit = unit, warn = judged and limit("UpperThresholdNonCritical") or nil, crit = judged and limit("UpperThresholdCritical") or nil, labels = { sensor = name },
  })
  note(found, status, string.format("%s has %s %s", name, require("words").short(reading), unit == "Cel" and "°C" or unit))
end

local function look_at_thermal(args, host, found, thermal)
  local fields = require "fields"
  for _, sensor in ipairs(fields.list(thermal, "Temperatures")) do
    local name = fields.text(sensor, "Name") or fields.text(sensor, "MemberId") or "?"
    judge_health(args, found, sensor, name)
    measure(args, host, found, "temperature", fields.number(sensor, "ReadingCelsius"), "Cel", sensor, name)
  end
  for _, fan in ipairs(fields.list(thermal, "Fans")) do
    local name = fields.text(fan, "Name") or fields.text(fan, "FanName") or fields.text(fan, "MemberId") or "?"
    judge_health(args, found, fan, name)
    local percent = fields.text(fan, "ReadingUnits") == "Percent"
    measure(args, host, found, percent and "fan_speed" or "fan", fields.number(fan, "Reading"), percent and "%" or "rpm", fan, name)
  end
end

local function look_at_power(args, host, found, power, chassis)
  local fields = require "fields"
  for _, supply in ipairs(fields.list(power, "PowerSupplies")) do
    judge_health(args, found, supply, fields.text(supply, "Name") or fields.text(supply, "MemberId") or "a power supply")
  end
  local watts = fields.number(power, "PowerControl", 1, "PowerConsumedWatts")
  if not watts then return end
  local status = host.metric("power", watts, { unit = "W", warn = args.power_warn, crit = args.power_crit, min = 0, labels = { chassis = chassis } })
  note(found, status, string.format("%s takes %.0f W", chassis, watts))
end

local function look_at_chassis(args, host, found, chassis)
  local fields = require "fields"
  local name = fields.text(chassis, "Name") or fields.text(chassis, "Id") or "the chassis"
  judge_health(args, found, chassis, name)
  for _, part in ipairs { "Thermal", "Power" } do
    local path = fields.text(chassis, part, "@odata.id")
    local document = path and fetch(args, host, found, path)
    if document and part == "Thermal" then look_at_thermal(args, host, found, document) end
    if document and part == "Power" then look_at_power(args, host, found, document, name) end
    if path and not document then return end
  end
end

function check.run(args, host)
  local api, fields, words, worse = require "api", require "fields", require "words", require("status").worse
  local found = { begun = host.now(), worst = "ok", ills = {}, left = {}, judged = 0, systems = 0, sensors = 0, further = 0 }
  local root = fetch(args, host, found, "/redfish/v1/")
  if not root then return api.verdict(found.code, found.text) end
  if not fields.text(root, "RedfishVersion") then return "unknown", args.url .. " is no Redfish service" end
  if not fields.text(root, "Chassis", "@odata.id") then -- what manages power or enclosures has no systems, but these
    found.left[#found.left + 1] = "the controller tells of no chassis"
  end
  each_member(args, host, found, fields.text(root, "Systems", "@odata.id"), function(system) look_at_system(args, found, system) end)
  if not found.code then
    each_member(args, host, found, fields.text(root, "Chassis", "@odata.id"), function(chassis) look_at_chassis(args, host, found, chassis) end)
  end
  local parts = found.ills
  host.metric("time", host.now() - found.begun, { unit = "s", min = 0 })
  if found.code then -- a part of the whole is missing, so that it is no ok
    local status, sentence = api.verdict(found.code, found.text)
    found.worst, parts[#parts + 1] = worse(found.worst, status), sentence
  elseif found.judged == 0 then
    found.worst, parts[#parts + 1] = worse(found.worst, "unknown"), "the controller tells the health of nothing"
  end
  if found.further > 0 then found.left[#found.left + 1] = words.count(found.further, "further sensor is", "further sensors are") .. " not judged" end
  for _, sentence in ipairs(found.left) do
    found.worst, parts[#parts + 1] = worse(found.worst, "unknown"), sentence
  end
  local summary = string.format("%s, %s judged", found.model or words.count(found.systems, "system", "systems"), words.count(found.judged, "part", "parts"))
  if #parts == 0 then return found.worst, summary end
  return found.worst, words.list(parts, 5) .. ", " .. summary
end

return check
