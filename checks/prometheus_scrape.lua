local check = {
  summary = "Metrics of a page in Prometheus' text format",
  needs = { "http" },
  timeout = "30s",
  args = {
    url = { type = "string", required = true, help = "the page, such as http://localhost:9100/metrics" },
    names = { type = "list", required = true, help = "names of the metrics to take; * and ? are wildcards" },
    watch = { type = "string", help = "the one of these names that the thresholds are for" },
    warn = { type = "range", help = "for each sample of watch" },
    crit = { type = "range", help = "for each sample of watch" },
    most = { type = "integer", default = 200, min = 1, max = 1000, help = "samples to take; more are counted only" },
  },
}

local SUFFIXES = { bytes = "B", seconds = "s", ratio = "1", celsius = "Cel", volts = "V", amperes = "A", meters = "m" }
local WORDS = { ["+inf"] = math.huge, inf = math.huge, ["-inf"] = -math.huge, nan = 0 / 0, ["+nan"] = 0 / 0, ["-nan"] = 0 / 0 }
-- Limits of host.metric. Surplus labels are left out, and long names cut: the figure counts more.
local MOST_LABELS, LONGEST_LABEL, LONGEST_NAME = 16, 64, 128
local ESCAPES = { n = "\n", ["\\"] = "\\", ['"'] = '"' }

-- Units: Prometheus puts them at the end of the name.
local function unit_of(name)
  local base = name:gsub("_total$", ""):gsub("_sum$", "")
  return SUFFIXES[base:match("_(%a+)$") or ""] or (name:match("_total$") and "c" or "")
end

-- Returns the position of the quote that ends a text which begins at `start`, or nil.
local function closing_quote(text, start)
  local found = text:find('["\\]', start)
  while found and text:sub(found, found) == "\\" do found = text:find('["\\]', found + 2) end
  return found
end

-- Reads `a="1",b="2"}`. Returns the labels and the position behind the brace, or nil if they are malformed.
local function labels_at(text, position)
  local labels, count = {}, 0
  while true do
    local behind = text:match("^%s*}()", position)
    if behind then return labels, behind, math.max(0, count - MOST_LABELS) end
    local name, start = text:match('^%s*([%a_][%w_]*)%s*=%s*"()', position)
    local stop = name and closing_quote(text, start)
    if not stop then return nil end
    count = count + 1
    if count <= MOST_LABELS then labels[name:sub(1, LONGEST_LABEL)] = text:sub(start, stop - 1):gsub("\\(.)", ESCAPES) end
    position = text:match("^%s*,?()", stop + 1)
  end
end

-- Returns a sample of a line: { name, labels, value, surplus (number of labels that are left out) }. One that cannot be
-- read has no value. Returns nil for a comment and an empty line.
local function sample_of(line)
  local name, position = line:match("^%s*([%a_:][%w_:]*)%s*()")
  if not name then return nil end
  local sample = { name = name, labels = {}, surplus = 0 }
  if line:sub(position, position) == "{" then
    sample.labels, position, sample.surplus = labels_at(line, position + 1)
    if not sample.labels then return { name = name } end
  end
  local word = line:match("^%s*(%S+)", position)
  sample.value = word and (tonumber(word) or WORDS[word:lower()])
  return sample
end

-- The rows of the page, without one that was cut at the end.
local function lines_of(answer)
  local body = answer.truncated and answer.body:gsub("[^\n]*$", "") or answer.body
  return body:gmatch("[^\n]+")
end

-- Adds a sample as a metric, and returns its status.
local function add(host, sample, kind, warn, crit)
  local name = sample.name
  local is_counter = kind == "counter" or name:find("_total$") or name:find("_count$") or name:find("_bucket$")
  return host.metric(name:gsub(":", "."):sub(1, LONGEST_NAME), sample.value, {
    unit = unit_of(name), kind = is_counter and "counter" or "gauge", labels = sample.labels, warn = warn, crit = crit,
  })
end

-- Takes the samples of a page. Those of `watch` are all taken: one that is over its limit must not hide behind others.
local function take(args, answer, host)
  local patterns, status = require "patterns", require "status"
  local types, found = {}, { taken = 0, left = 0, watched = 0, unread = 0, surplus = 0, worst = "ok" }
  for line in lines_of(answer) do
    local described, kind = line:match("^# TYPE (%S+) (%a+)")
    if described then types[described] = kind end
    local sample = sample_of(line)
    -- Earlier versions had a point for the colon, in metrics and in arguments alike.
    local dotted = sample and sample.name:gsub(":", ".")
    local is_watched = sample and args.watch and (sample.name == args.watch or dotted == args.watch)
    if sample and (patterns.any(sample.name, args.names) or patterns.any(dotted, args.names)) then
      if not sample.value then
        found.unread = found.unread + 1
        if is_watched then found.worst, found.watched = status.worse(found.worst, "unknown"), found.watched + 1 end
      elseif found.taken >= args.most and not is_watched then
        found.left = found.left + 1
      else
        found.taken, found.surplus = found.taken + 1, found.surplus + sample.surplus
        found.watched = found.watched + (is_watched and 1 or 0)
        local state = add(host, sample, types[sample.name], is_watched and args.warn or nil, is_watched and args.crit or nil)
        found.worst = status.worse(found.worst, state)
      end
    end
  end
  return found
end

-- Returns why the page was not read whole, or nil. Agents of earlier versions do not say it.
local function fault_of(answer)
  if answer.body_fault and answer.body_fault ~= "" then return answer.body_fault end
  return answer.truncated and "it is longer than 1 MiB" or nil
end

function check.run(args, host)
  local status, words = require "status", require "words"
  local answer, code, text = host.http { url = args.url, timeout = 15, headers = { accept = "text/plain;version=0.0.4" } }
  if not answer then
    if code == "denied" or code == "bad-arguments" then return "unknown", text end
    return "critical", text
  end
  if answer.status ~= 200 then return "critical", string.format("%s answers %d %s", args.url, answer.status, answer.reason) end
  local found, fault = take(args, answer, host), fault_of(answer)
  local parts = { string.format("%s of %s", words.count(found.taken, "sample", "samples"), args.url) }
  if found.left > 0 then parts[#parts + 1] = string.format("%d more left out", found.left) end
  if found.unread > 0 then parts[#parts + 1] = words.count(found.unread, "line", "lines") .. " cannot be read" end
  if found.surplus > 0 then parts[#parts + 1] = words.count(found.surplus, "label", "labels") .. " left out" end
  if fault then parts[#parts + 1] = "the page was not read whole: " .. fault end
  -- What is behind the end of what was read may be over its limit.
  if fault and args.watch then found.worst = status.worse(found.worst, "unknown") end
  local summary = table.concat(parts, ", ")
  if found.taken == 0 then return "unknown", found.unread + (fault and 1 or 0) > 0 and summary or args.url .. " has none of the metrics asked for" end
  if args.watch and found.watched == 0 then return "unknown", args.url .. " has no " .. args.watch .. (fault and ": " .. summary or "") end
  return found.worst, summary
end

return check
