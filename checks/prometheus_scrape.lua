local check = {
  summary = "A /metrics page of Prometheus' text format becomes metrics",
  needs = { "http" },
  timeout = "30s",
  args = {
    url = { type = "string", required = true, help = "the page, such as http://localhost:9100/metrics" },
    names = { type = "list", required = true, help = "names of the metrics to take; * and ? are wildcards" },
    watch = { type = "string", help = "one of these names, which the thresholds are for" },
    warn = { type = "range", help = "for each sample of watch" },
    crit = { type = "range", help = "for each sample of watch" },
    most = { type = "integer", default = 200, min = 1, max = 1000, help = "samples to take; more are counted only" },
  },
}

local SUFFIXES = { bytes = "B", seconds = "s", ratio = "1", celsius = "Cel", volts = "V", amperes = "A", meters = "m" }
local ESCAPES = { n = "\n", ["\\"] = "\\", ['"'] = '"' }

-- Prometheus writes the unit at the end of the name.
local function unit_of(name)
  local base = name:gsub("_total$", ""):gsub("_sum$", "")
  return SUFFIXES[base:match("_(%a+)$") or ""] or (name:match("_total$") and "c" or "")
end

-- Labels of `{a="1",b="2"}`, or nil when they are broken.
local function labels_of(text)
  local labels, position = {}, 1
  while position <= #text do
    local name, start = text:match("^%s*([%a_][%w_]*)%s*=%s*\"()", position)
    if not name then return text:find("^%s*$", position) and labels or nil end
    local stop = start
    while text:sub(stop, stop) ~= '"' do
      if stop > #text then return nil end
      stop = stop + (text:sub(stop, stop) == "\\" and 2 or 1)
    end
    labels[name] = text:sub(start, stop - 1):gsub("\\(.)", ESCAPES)
    position = text:match("^%s*,?()", stop + 1)
  end
  return labels
end

-- Name, labels and value of one line; nil for comments and what is no sample.
local function sample_of(line)
  local name, rest = line:match("^([%a_:][%w_:]*)(.*)$")
  if not name then return nil end
  local inner, value = rest:match("^(%b{})%s+(%S+)")
  if not inner then value = rest:match("^%s+(%S+)") end
  local labels = inner and labels_of(inner:sub(2, -2)) or {}
  local number = value and tonumber(value)
  if not number or not labels or (inner and not labels_of(inner:sub(2, -2))) then return nil end
  return name:gsub(":", "."), labels, number
end

function check.run(args, host)
  local patterns, status, words = require "patterns", require "status", require "words"
  local answer, code, text = host.http { url = args.url, timeout = 15, headers = { accept = "text/plain;version=0.0.4" } }
  if not answer then
    if code == "denied" or code == "bad-arguments" then return "unknown", text end
    return "critical", text
  end
  if answer.status ~= 200 then return "critical", string.format("%s answers %d %s", args.url, answer.status, answer.reason) end
  local types, taken, left, worst, watched = {}, 0, 0, "ok", 0
  for line in answer.body:gmatch("[^\n]+") do
    local described, kind = line:match("^# TYPE (%S+) (%a+)")
    if described then types[described] = kind end
    local name, labels, value = sample_of(line)
    if name and patterns.any(name, args.names) then
      if taken >= args.most then
        left = left + 1
      else
        taken = taken + 1
        local is_counter = types[name] == "counter" or name:find("_total$") or name:find("_count$") or name:find("_bucket$")
        local limits = name == args.watch
        watched = watched + (limits and 1 or 0)
        worst = status.worse(worst, host.metric(name, value, {
          unit = unit_of(name), kind = is_counter and "counter" or "gauge", labels = labels,
          warn = limits and args.warn or nil, crit = limits and args.crit or nil,
        }))
      end
    end
  end
  if taken == 0 then return "unknown", args.url .. " has none of the metrics asked for" end
  if args.watch and watched == 0 then return "unknown", args.url .. " has no " .. args.watch end
  local told = string.format("%s of %s", words.count(taken, "sample", "samples"), args.url)
  if left > 0 then told = told .. string.format(", %d more left out", left) end
  if answer.truncated then told = told .. ", the page was cut at 1 MiB" end
  return worst, told
end

return check
