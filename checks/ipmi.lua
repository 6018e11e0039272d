local check = {
  summary = "Sensors of a management controller by IPMI: temperatures, fans, voltages, supplies; room in its log of events",
  needs = { "program" },
  timeout = "90s",
  args = {
    program = { type = "string", default = "ipmi-sdr", help = "its name in the host's policy: ipmitool -c sdr list" },
    log = { type = "string", default = "", help = "the name in the host's policy of: ipmitool sel info; empty: the log of events is not judged" },
    ignore = { type = "list", default = {}, help = "names of sensors that are not judged; * and ? are wildcards" },
    log_warn = { type = "range", default = "90", help = "the log of events in percent: a full one takes no further events" },
    log_crit = { type = "range", help = "the log of events in percent" },
    events_warn = { type = "range", help = "events that were added to the log in the last minutes" },
    events_crit = { type = "range", help = "events that were added to the log in the last minutes" },
  },
}

local KINDS = {
  ["degrees C"] = { "temperature", "Cel" }, RPM = { "fan", "rpm" }, Volts = { "voltage", "V" }, Watts = { "power", "W" }, Amps = { "current", "A" }, percent = { "share", "%" },
}
-- States as ipmitool writes them: nc is beyond a non-critical limit, cr beyond a critical one, nr beyond what can be mended; l and
-- u stand for the lower and the upper limit. ns has no reading.
local STATES = { ok = "ok", ns = "ok", nc = "warning", lnc = "warning", unc = "warning", cr = "critical", lcr = "critical", ucr = "critical", nr = "critical", lnr = "critical", unr = "critical" }
local MOST_SENSORS = 300

-- Judges one line of the list. Returns the status and a sentence if it is not in order, or "ignored", or "ns" of a sensor without a
-- reading; nil if it is no line of a sensor.
local function judge(args, host, line)
  local name, value, unit, state = line:match("^([^,]*),([^,]*),([^,]*),(%l+)")
  local status = STATES[state or ""]
  if not status then return nil end
  local number, kind = require("words").number(value), KINDS[unit]
  if number and kind then host.metric(kind[1], number, { unit = kind[2], labels = { sensor = name } }) end
  if require("patterns").any(name, args.ignore) then return "ignored" end
  if status == "ok" then return state end
  return status, string.format("%s has %s%s (%s)", name, value, unit ~= "" and " " .. unit:gsub("degrees C", "°C") or "", state)
end

-- Judges the log of events. Returns the status, and a sentence if it is not in order.
local function judge_log(args, host)
  local text, fault = require("program").text(host, args.log, nil, 40)
  if not text then return "unknown", fault end
  local number, worse = require("words").number, require("status").worse
  local entries, used = number(text:match("Entries%s*:%s*(%d+)")), number(text:match("Percent Used%s*:%s*(%d+)"))
  if not entries then return "unknown", string.format("the program %s writes nothing of a log of events", args.log) end
  local lately = require("recent").growth(host, "events", entries)
  local worst, parts = host.metric("events_lately", lately, { unit = "events", warn = args.events_warn, crit = args.events_crit, min = 0 }), {}
  if worst ~= "ok" then parts[1] = require("words").count(lately, "new event", "new events") .. " in its log" end
  host.metric("events", entries, { unit = "events", min = 0 })
  if used then
    local full = host.metric("log_used", used, { unit = "%", warn = args.log_warn, crit = args.log_crit, min = 0, max = 100 })
    if full ~= "ok" then parts[#parts + 1] = string.format("its log is %.0f %% full: save and clear it", used) end
    worst = worse(worst, full)
  elseif require("lacking").is_judged(args.log_warn, args.log_crit) then
    worst, parts[#parts + 1] = worse(worst, "unknown"), "its log does not tell how full it is (log_warn and log_crit of ~: don't ask for it)"
  end
  return worst, #parts > 0 and table.concat(parts, ", ") or nil
end

function check.run(args, host)
  local worse, words = require("status").worse, require "words"
  local text, fault = require("program").text(host, args.program, nil, 60)
  if not text then return "unknown", fault end
  local worst, bad, count, silent, ignored = "ok", {}, 0, 0, 0
  for line in text:gmatch("[^\r\n]+") do
    local status, sentence = judge(args, host, line)
    count = count + 1
    if not status then return "unknown", string.format("%s writes %q, which is no sensor of ipmitool -c sdr list", args.program, line:sub(1, 60)) end
    if count > MOST_SENSORS then return "unknown", string.format("there are more than %d sensors", MOST_SENSORS) end
    if status == "ns" then silent, status = silent + 1, "ok" end
    if status == "ignored" then ignored, status = ignored + 1, "ok" end
    worst, bad[#bad + 1] = worse(worst, status), sentence
  end
  if count == 0 then return "unknown", "the controller has no sensor" end
  if silent > 0 and silent + ignored == count then worst, bad[#bad + 1] = worse(worst, "unknown"), "no sensor has a reading" end
  if args.log ~= "" then
    local status, sentence = judge_log(args, host)
    worst, bad[#bad + 1] = worse(worst, status), sentence
  end
  if #bad > 0 then return worst, words.list(bad, 5) end
  return worst, words.count(count, "sensor", "sensors") .. " in order"
end

return check
