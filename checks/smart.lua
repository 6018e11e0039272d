local check = {
  summary = "Disks by their own word (SMART, NVMe): failing, bad sectors, wear, temperature",
  needs = { "program" },
  timeout = "120s",
  args = {
    devices = { type = "list", required = true, help = "the disks, such as /dev/sda and /dev/nvme0" },
    program = { type = "string", default = "smartctl", help = "its name in the host's policy: smartctl --json --all {device}" },
    warn = { type = "range", default = "60", help = "temperature in degrees Celsius" },
    crit = { type = "range", default = "70", help = "temperature in degrees Celsius" },
    sectors_warn = { type = "range", default = "0", help = "sectors that cannot be read (pending and uncorrectable ones); media errors of an NVMe" },
    sectors_crit = { type = "range", help = "sectors that cannot be read" },
    reallocated_warn = { type = "range", default = "10", help = "sectors that were replaced" },
    reallocated_crit = { type = "range", help = "sectors that were replaced" },
    wear_warn = { type = "range", default = "90", help = "used part of the life that a flash disk is made for, in percent" },
    wear_crit = { type = "range", default = "100", help = "used part of its life in percent" },
  },
}

local SECONDS, MOST_DEVICES = 25, 64
-- Bits of the exit status: the device could not be opened; an attribute is below its limit now; the self-test log has errors.
local NOT_OPEN, FAILING, BELOW, SELF_TEST = 2, 8, 16, 128
-- Bits of the critical warning of an NVMe.
local WARNINGS = { "few spare blocks are left", "is too hot or too cold", "has lost its reliability", "takes no writes any more", "the backup of its cache has failed", "its persistent memory is read-only" }

-- Returns the raw value of an attribute of an ATA disk, or nil.
local function attribute(document, id)
  local fields = require "fields"
  for _, one in ipairs(fields.list(document, "ata_smart_attributes", "table")) do
    if fields.number(one, "id") == id then return fields.number(one, "raw", "value") end
  end
end

-- Returns the used part of the life in percent, or nil. Attributes of flash disks count down from 100.
local function wear_of(document)
  local fields = require "fields"
  local used = fields.number(document, "nvme_smart_health_information_log", "percentage_used") or fields.number(document, "scsi_percentage_used_endurance_indicator")
    or fields.number(document, "endurance_used", "current_percent")
  if used then return used end
  for _, one in ipairs(fields.list(document, "ata_smart_attributes", "table")) do
    local name, value = fields.text(one, "name"), fields.number(one, "value")
    local counts = name == "Wear_Leveling_Count" or name == "Media_Wearout_Indicator" or name == "SSD_Life_Left" or name == "Percent_Lifetime_Remain"
    if counts and value and value <= 100 then return 100 - value end
  end
end

-- Adds the metrics of a disk. Returns the worst status of their thresholds, and sentences on what is over its limit.
local function measure(args, host, document, device)
  local fields, worse, short = require "fields", require("status").worse, require("words").short
  local labels, worst, parts = { device = device }, "ok", {}
  local function add(name, value, unit, warn, crit, said)
    if not value then return end
    local status = host.metric(name, value, { unit = unit, warn = warn, crit = crit, min = name ~= "temperature" and 0 or nil, labels = labels })
    worst = worse(worst, status)
    if status ~= "ok" then parts[#parts + 1] = string.format(said, short(value)) end
  end
  local nvme = fields.at(document, "nvme_smart_health_information_log")
  add("temperature", fields.number(document, "temperature", "current"), "Cel", args.warn, args.crit, "%s °C")
  add("reallocated", attribute(document, 5) or fields.number(document, "scsi_grown_defect_list"), "sectors", args.reallocated_warn, args.reallocated_crit, "%s sectors replaced")
  add("pending", attribute(document, 197), "sectors", args.sectors_warn, args.sectors_crit, "%s sectors cannot be read")
  add("uncorrectable", attribute(document, 198), "sectors", args.sectors_warn, args.sectors_crit, "%s sectors are lost")
  add("media_errors", fields.number(nvme, "media_errors"), "errors", args.sectors_warn, args.sectors_crit, "%s media errors")
  add("wear", wear_of(document), "%", args.wear_warn, args.wear_crit, "%s %% of its life used")
  add("spare", fields.number(nvme, "available_spare"), "%")
  add("unsafe_shutdowns", fields.number(nvme, "unsafe_shutdowns"), "shutdowns")
  local hours = fields.number(document, "power_on_time", "hours")
  if hours then host.metric("age", hours * 3600, { unit = "s", min = 0, labels = labels }) end
  return worst, parts
end

-- Returns the name of what a disk of its kind has and the document lacks, or nil.
local function lacking_of(document)
  local fields = require "fields"
  local protocol, log = fields.text(document, "device", "protocol"), "nvme_smart_health_information_log"
  if protocol == "ATA" and #fields.list(document, "ata_smart_attributes", "table") == 0 then return "ata_smart_attributes" end
  if protocol ~= "NVMe" and not fields.at(document, log) then return nil end
  for _, field in ipairs { "critical_warning", "media_errors", "percentage_used" } do
    if not fields.number(document, log, field) then return log .. "." .. field end
  end
end

-- Judges one disk. Returns the status and its sentence.
local function judge(args, host, device)
  local fields, worse = require "fields", require("status").worse
  local document, exit = require("program").json(host, args.program, { device = device }, SECONDS)
  if not document then return "unknown", device .. ": " .. exit end
  local name = device .. (fields.text(document, "model_name") and string.format(" (%s)", document.model_name:sub(1, 40)) or "")
  local passed = fields.at(document, "smart_status", "passed")
  if type(passed) ~= "boolean" then
    local message = fields.text(document, "smartctl", "messages", 1, "string")
    local why = exit & NOT_OPEN ~= 0 and "cannot be opened" or "does not tell its health"
    return "unknown", string.format("%s %s%s", name, why, message and ": " .. message:sub(1, 120) or "")
  end
  local worst, parts = measure(args, host, document, device)
  local lacking = lacking_of(document)
  if lacking then worst, parts[#parts + 1] = worse(worst, "unknown"), string.format("its figures are not told (%s): see docs/checks.rst for the command", lacking) end
  if not passed or exit & FAILING ~= 0 then worst, parts[#parts + 1] = "critical", "is failing: replace it" end
  if exit & BELOW ~= 0 then worst, parts[#parts + 1] = worse(worst, "warning"), "an attribute is below its limit" end
  if exit & SELF_TEST ~= 0 then worst, parts[#parts + 1] = worse(worst, "warning"), "a self-test has failed" end
  local bits = math.tointeger(fields.number(document, "nvme_smart_health_information_log", "critical_warning") or 0) or 0
  for index, sentence in ipairs(WARNINGS) do
    if bits & (1 << (index - 1)) ~= 0 then worst, parts[#parts + 1] = "critical", sentence end
  end
  return worst, string.format("%s: %s", name, #parts > 0 and table.concat(parts, ", ") or "good")
end

function check.run(args, host)
  local worse, words = require("status").worse, require "words"
  if #args.devices == 0 or #args.devices > MOST_DEVICES then return "unknown", string.format("devices: name 1 to %d disks", MOST_DEVICES) end
  local worst, bad, good = "ok", {}, {}
  for _, device in ipairs(args.devices) do
    local status, sentence = judge(args, host, device)
    worst = worse(worst, status)
    local list = status == "ok" and good or bad
    list[#list + 1] = sentence
  end
  return worst, words.list(#bad > 0 and bad or good, 5)
end

return check
