local check = {
  summary = "Filesystems of Btrfs: missing devices, errors of devices, room for metadata",
  needs = { "kernel" },
  timeout = "20s",
  args = {
    errors_warn = { type = "range", default = "0", help = "errors of a device since they were last reset (btrfs device stats --reset)" },
    errors_crit = { type = "range", help = "errors of a device since they were last reset" },
    metadata_warn = { type = "range", default = "90", help = "metadata in percent of the room that it has; Btrfs gives it more as long as there is some" },
    metadata_crit = { type = "range", help = "metadata in percent of the room that it has" },
  },
}

-- Judges one filesystem. Returns the status, and a sentence on what is not in order.
local function judge(args, host, one, name)
  local worse, worst, parts = require("status").worse, "ok", {}
  if #(one.devices or {}) == 0 then worst, parts[1] = "unknown", "nothing is told of its devices" end
  for _, device in ipairs(one.devices or {}) do
    local label = { filesystem = name, device = tostring(device.id) }
    if device.missing then worst, parts[#parts + 1] = "critical", string.format("device %s is missing", label.device) end
    local errors, told = 0, false
    for _, count in pairs(device.errors or {}) do errors, told = errors + count, true end
    if told then
      local status = host.metric("errors", errors, { unit = "errors", warn = args.errors_warn, crit = args.errors_crit, min = 0, labels = label })
      worst = worse(worst, status)
      if status ~= "ok" then parts[#parts + 1] = string.format("%.0f errors of device %s", errors, label.device) end
    end
  end
  for _, kind in ipairs { "data", "metadata", "system" } do
    local room = one[kind]
    if room and room.total_bytes and room.used_bytes and room.total_bytes > 0 then
      local judged = kind == "metadata"
      local share = room.used_bytes * 100 / room.total_bytes
      local status = host.metric(kind .. "_used", share, {
        unit = "%", warn = judged and args.metadata_warn or nil, crit = judged and args.metadata_crit or nil, min = 0, max = 100, labels = { filesystem = name },
      })
      worst = worse(worst, status)
      if status ~= "ok" then parts[#parts + 1] = string.format("metadata takes %.0f %% of its room: see btrfs filesystem usage", share) end
    end
  end
  return worst, #parts > 0 and string.format("%s: %s", name, table.concat(parts, ", ")) or nil
end

function check.run(args, host)
  local worse, words = require("status").worse, require "words"
  local list, _, text = host.kernel.btrfs()
  if not list then return "unknown", text end
  if #list == 0 then return "unknown", "no filesystem of Btrfs is mounted" end
  local worst, bad = "ok", {}
  for _, one in ipairs(list) do
    local name = one.label and one.label ~= "" and one.label or one.uuid
    local status, sentence = judge(args, host, one, name)
    worst, bad[#bad + 1] = worse(worst, status), sentence
  end
  if #bad > 0 then return worst, words.list(bad, 5) end
  return worst, words.count(#list, "filesystem", "filesystems") .. " without a fault"
end

return check
