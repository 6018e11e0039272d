local check = {
  summary = "A Ceph cluster: its health and why, storage daemons, monitors, space",
  needs = { "program" },
  timeout = "60s",
  args = {
    program = { type = "string", default = "ceph", help = "its name in the host's policy: ceph status --format json" },
    ignore = { type = "list", default = {}, help = "health checks that are not judged, such as POOL_NO_REDUNDANCY; * and ? are wildcards" },
    warn = { type = "range", default = "75", help = "used space in percent" },
    crit = { type = "range", default = "85", help = "used space in percent" },
  },
}

local HEALTH = { HEALTH_OK = "ok", HEALTH_WARN = "warning", HEALTH_ERR = "critical" }

-- Judges the health checks. Returns the status and sentences; nil if the health cannot be read.
local function judge(args, status)
  local fields, worse, patterns = require "fields", require("status").worse, require "patterns"
  local whole = HEALTH[fields.text(status, "health", "status") or ""]
  if not whole then return nil end
  local worst, parts, count, ignored = "ok", {}, 0, 0
  for name, one in pairs(fields.list(status, "health", "checks")) do
    count = count + 1
    if patterns.any(tostring(name), args.ignore) or fields.at(one, "muted") == true then
      ignored = ignored + 1
    else
      worst = worse(worst, HEALTH[fields.text(one, "severity") or ""] or "unknown")
      parts[#parts + 1] = string.format("%s (%s)", fields.text(one, "summary", "message") or "no message", tostring(name))
    end
  end
  table.sort(parts)
  -- The whole is never better than its parts; without parts that explain it, it counts by itself.
  if ignored == 0 or ignored < count then worst = worse(worst, ignored == 0 and whole or "ok") end
  return worst, parts
end

-- Adds the metrics, and returns the status of the used space.
local function measure(args, host, status)
  local number = require("fields").number
  -- Before Octopus the map of the storage daemons had another one around it.
  local osds = require("fields").at(status, "osdmap", "osdmap") or require("fields").at(status, "osdmap")
  for metric, field in pairs { osds = "num_osds", osds_up = "num_up_osds", osds_in = "num_in_osds" } do
    if number(osds, field) then host.metric(metric, number(osds, field), { unit = "daemons", min = 0 }) end
  end
  host.metric("monitors_in_quorum", #require("fields").list(status, "quorum_names"), { unit = "daemons", min = 0 })
  for metric, field in pairs { degraded = "degraded_ratio", misplaced = "misplaced_ratio" } do
    host.metric(metric, (number(status, "pgmap", field) or 0) * 100, { unit = "%", min = 0, max = 100 })
  end
  for metric, field in pairs { read = "read_bytes_sec", written = "write_bytes_sec" } do
    host.metric(metric, number(status, "pgmap", field) or 0, { unit = "B/s", min = 0 })
  end
  local used, total = number(status, "pgmap", "bytes_used"), number(status, "pgmap", "bytes_total")
  if not (used and total and number(osds, "num_osds") and number(osds, "num_up_osds")) then return "unknown", ", it tells nothing of its storage daemons or its space" end
  if total <= 0 then return "ok", "" end
  host.metric("free", total - used, { unit = "B", min = 0 })
  local words = require "words"
  return host.metric("used", used * 100 / total, { unit = "%", warn = args.warn, crit = args.crit, min = 0, max = 100 }),
    string.format(", %s of %s used", words.bytes(used), words.bytes(total))
end

function check.run(args, host)
  local worse, words, fields = require("status").worse, require "words", require "fields"
  local answer, code, text = host.program { name = args.program, json = true, limit = 1048576, timeout = 40 }
  if not answer then return code == "timeout" and "critical" or "unknown", text end
  local status = answer.json
  local worst, parts = judge(args, status)
  if not worst then return "unknown", string.format("the program %s writes no status of Ceph", args.program) end
  local full, space = measure(args, host, status)
  worst = worse(worst, full)
  local osds = fields.at(status, "osdmap", "osdmap") or fields.at(status, "osdmap")
  parts = { #parts > 0 and words.list(parts, 5) or nil }
  parts[#parts + 1] = string.format("%s, %.0f of %.0f storage daemons up%s", status.health.status, fields.number(osds, "num_up_osds") or 0,
    fields.number(osds, "num_osds") or 0, space)
  return worst, table.concat(parts, ", ")
end

return check
