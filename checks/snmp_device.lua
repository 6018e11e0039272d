local check = {
  summary = "A device by SNMP: restarts, processors, memory, storage, sensors of temperature and fans",
  needs = { "udp", "crypto" },
  timeout = "30s",
  args = {
    host = { type = "string", default = "localhost", help = "name or address" },
    port = { type = "integer", default = 161, min = 1, max = 65535, help = "the port" },
    version = { type = "string", default = "2c", choices = { "1", "2c", "3" }, help = "of SNMP; 3 proves and encrypts" },
    community = { type = "string", default = "public", help = "for 1 and 2c, a secret: { secret = \"NAME\" }" },
    user = { type = "string", default = "", help = "for 3" },
    auth = { type = "string", default = "sha", choices = { "md5", "sha", "sha224", "sha256", "sha384", "sha512" }, help = "for 3: proves by" },
    auth_password = { type = "string", help = "for 3, a secret; without it nothing is proved" },
    privacy = { type = "string", default = "aes", choices = { "des", "aes", "aes192", "aes256", "aes192c", "aes256c" }, help = "for 3: encrypts by; c: Cisco's keys" },
    privacy_password = { type = "string", help = "for 3, a secret; without it nothing is encrypted" },
    context = { type = "string", default = "", help = "for 3" },
    wait = { type = "duration", default = "2s", min = 0.1, max = 20, help = "for each answer" },
    retries = { type = "integer", default = 2, min = 0, max = 5, help = "of a datagram that is not answered" },
    parts = { type = "list", default = { "processors", "storage", "sensors" }, help = "what is looked at beside the uptime" },
    exclude = { type = "list", default = { "/dev*", "/proc*", "/run*", "/sys*" }, help = "storage and sensors to leave out, by name" },
    most = { type = "integer", default = 150, min = 1, max = 500, help = "rows that each table of the device may have" },
    uptime_warn = { type = "range", default = "600:", help = "seconds since the start; 600: warns for ten minutes after a restart" },
    uptime_crit = { type = "range", help = "seconds since the start" },
    cpu_warn = { type = "range", default = "90", help = "mean load of the processors in percent" },
    cpu_crit = { type = "range", help = "mean load of the processors in percent" },
    memory_warn = { type = "range", help = "memory in percent; most devices count their cache as used" },
    memory_crit = { type = "range", help = "memory in percent" },
    storage_warn = { type = "range", default = "80", help = "used storage in percent" },
    storage_crit = { type = "range", default = "90", help = "used storage in percent" },
    temperature_warn = { type = "range", help = "degrees Celsius" },
    temperature_crit = { type = "range", help = "degrees Celsius" },
  },
}

local NAME, ENGINE_TIME = "1.3.6.1.2.1.1.5.0", "1.3.6.1.6.3.10.2.1.3.0"
local TICKS_WRAP = 4294967296

-- Returns the seconds since the start, which the device counts in a number that begins anew after 497 days.
local function uptime(host, values)
  local snmp, now = require "snmp", host.now()
  local ticks, engine = snmp.number(values[snmp.UPTIME]), snmp.number(values[ENGINE_TIME])
  if not ticks then return engine end
  local before, wraps = host.state.get("uptime"), 0
  if before and now > before.at and not require("snmp_counters").has_restarted(before.ticks, ticks, now - before.at) then
    wraps = before.wraps + (ticks < before.ticks and 1 or 0)
  end
  host.state.put("uptime", { at = now, ticks = ticks, wraps = wraps })
  return math.max((ticks + wraps * TICKS_WRAP) / 100, engine or 0)
end

-- Returns all that is asked for; of what the device lacks the lists are empty.
local function asked(args, host)
  local snmp, tables, found = require "snmp", require "snmp_device_tables", {}
  local session = snmp.open(host, args)
  found.values = session:get { NAME, snmp.UPTIME, ENGINE_TIME }
  for _, part in ipairs(args.parts) do
    if not tables[part] then require("faults").fail("bad-arguments", "parts has no " .. part .. "; there are processors, storage and sensors") end
    found[part] = tables[part](session, args.most)
  end
  return found
end

local function mean(list)
  local sum = 0
  for _, load in ipairs(list) do sum = sum + load end
  return sum / #list
end

-- Returns a function that adds a metric, and a table with the worst status of those.
local function judging(args, host)
  local worse, found = require("status").worse, { worst = "ok", bad = {}, count = 0 }
  local function judged(kind, name, value, unit, label)
    local labels = label and { [kind] = label }
    local status = host.metric(name, value, { unit = unit, warn = args[kind .. "_warn"], crit = args[kind .. "_crit"], labels = labels })
    found.worst, found.count = worse(found.worst, status), found.count + 1
    if status ~= "ok" then found.bad[#found.bad + 1] = string.format("%s%s %.4g %s", label and label .. " " or "", name, value, unit) end
  end
  return judged, found
end

function check.run(args, host)
  local words, snmp, any = require "words", require "snmp", require("patterns").any
  local found, code, text = require("faults").guarded(asked, args, host)
  if not found then return snmp.verdict(code, text) end
  local judged, told = judging(args, host)
  local seconds, summary = uptime(host, found.values), {}
  if seconds then
    judged("uptime", "uptime", seconds, "s")
    summary[1] = "up for " .. words.duration(seconds)
  end
  if found.processors and #found.processors > 0 then
    judged("cpu", "cpu", mean(found.processors), "%")
    summary[#summary + 1] = string.format("processors at %.0f %%", mean(found.processors))
  end
  for _, one in ipairs(found.storage or {}) do
    if not any(one.name, args.exclude) then judged(one.kind, one.kind .. "_used", one.used_percent, "%", one.name) end
  end
  for _, one in ipairs(found.sensors or {}) do
    if not any(one.name, args.exclude) then
      if one.is_broken then
        told.worst, told.bad[#told.bad + 1] = "critical", one.name .. " is broken"
      elseif one.value then
        judged(one.kind, one.kind, one.value, one.unit, one.name)
      end
    end
  end
  if #(found.sensors or {}) > 0 then summary[#summary + 1] = words.count(#found.sensors, "sensor", "sensors") end
  local name = snmp.text(found.values[NAME])
  if told.count == 0 then told.worst, summary[1] = require("status").worse(told.worst, "unknown"), "it tells nothing of itself" end
  local line = table.concat(#told.bad > 0 and { words.list(told.bad), table.unpack(summary) } or summary, ", ")
  return told.worst, string.format("%s: %s", name ~= "nil" and name ~= "" and name or args.host, line)
end

return check
