local check = {
  summary = "Logical volumes of LVM: thin pools and snapshots that fill up, volumes with faults",
  needs = { "program" },
  timeout = "60s",
  args = {
    program = { type = "string", default = "lvs", help = "its name in the host's policy" },
    ignore = { type = "list", default = {}, help = "volumes that are not judged, as group/volume; * and ? are wildcards" },
    warn = { type = "range", default = "80", help = "data and metadata of thin pools, and snapshots, in percent" },
    crit = { type = "range", default = "95", help = "data and metadata of thin pools, and snapshots, in percent" },
  },
}

-- Health of a volume that goes on without loss.
local LIGHT = { ["refresh needed"] = true, ["mismatches exist"] = true }

-- The columns that tell how full a volume is, by the letter of its kind: thin pool, snapshot, snapshot that is merged.
local FULL = { t = { "data_percent", "metadata_percent" }, s = { "data_percent" }, S = { "data_percent" } }

-- Returns the name of a column that the report lacks of a volume, or nil.
local function lacks(one)
  if one.lv_health_status == nil then return "lv_health_status" end
  for _, column in ipairs(FULL[one.lv_attr:sub(1, 1)] or {}) do
    if one[column] == nil then return column end
  end
end

-- Judges one volume. Returns the status, and a sentence if it is not in order.
local function judge(args, host, one, name)
  local fields, worse, words = require "fields", require("status").worse, require "words"
  local attributes, worst, parts = fields.text(one, "lv_attr") or "", "ok", {}
  for _, field in ipairs(FULL[attributes:sub(1, 1)] or {}) do
    local value, said = fields.number(one, field), field:gsub("_percent", "")
    if value then
      local status = host.metric(said .. "_used", value, { unit = "%", warn = args.warn, crit = args.crit, min = 0, max = 100, labels = { volume = name } })
      worst = worse(worst, status)
      if status ~= "ok" then parts[#parts + 1] = string.format("%s %s %%", said, words.short(value)) end
    elseif attributes:sub(5, 5) == "a" then -- one that is not active has none
      worst, parts[#parts + 1] = worse(worst, "unknown"), "how full it is isn't told (" .. field .. ")"
    end
  end
  local state = attributes:sub(5, 5)
  if state == "I" or state == "S" or state == "M" then worst, parts[#parts + 1] = "critical", "the snapshot is no longer valid" end
  local health = fields.text(one, "lv_health_status")
  if health then worst, parts[#parts + 1] = worse(worst, LIGHT[health] and "warning" or "critical"), health end
  return worst, #parts > 0 and string.format("%s: %s", name, table.concat(parts, ", ")) or nil
end

function check.run(args, host)
  local fields, worse, words = require "fields", require("status").worse, require "words"
  local document, exit = require("program").json(host, args.program, nil, 40)
  if not document then return "unknown", exit end
  local volumes = fields.at(document, "report", 1, "lv")
  if exit ~= 0 or type(volumes) ~= "table" then return "unknown", string.format("the program %s writes no report of lvs (exit status %d)", args.program, exit) end
  local worst, bad, count = "ok", {}, 0
  for _, one in ipairs(volumes) do
    local group, volume = fields.text(one, "vg_name"), fields.text(one, "lv_name")
    if not (group and volume and fields.text(one, "lv_attr")) then return "unknown", "the report lacks vg_name, lv_name or lv_attr: see docs/checks.rst for the command" end
    local name, lacking = group .. "/" .. volume, lacks(one)
    count = count + 1
    if lacking then return "unknown", string.format("the report lacks %s: see docs/checks.rst for the command", lacking) end
    if not require("patterns").any(name, args.ignore) then
      local status, sentence = judge(args, host, one, name)
      worst, bad[#bad + 1] = worse(worst, status), sentence
    end
  end
  if count == 0 then return "unknown", "this host has no logical volume" end
  if #bad > 0 then return worst, words.list(bad, 5) end
  return worst, words.count(count, "volume", "volumes") .. " in order"
end

return check
