-- Turns the figures of a monitoring plugin into metrics. Plugins name and write them as they like.
local figures = {}

-- The most that are read of one plugin: as many as a result takes.
local MOST = 200
local UNITS = { s = "s", ms = "ms", us = "us", ["%"] = "%", b = "B", kb = "KB", mb = "MB", gb = "GB", tb = "TB", c = "c" }

-- Returns the name of a metric and its labels. Plugins name their figures freely ("/var lib"), so what host.metric would
-- refuse becomes a label. A label without a first letter ("/", "5 min") says little as a name: the plugin's is put there.
local function name_of(metric, plugin)
  local name = metric.name:gsub("[^%w_.-]", "_"):sub(1, 128)
  if not metric.name:find("^[%a_]") or not name:find("%w") then return plugin, metric.name end
  return name, name ~= metric.name and metric.name or nil
end

-- What is tried one after the other if host.metric refuses a figure: the options that are left out.
local WITHOUT = { {}, { "warn" }, { "crit" }, { "warn", "crit" }, { "warn", "crit", "unit" } }

-- Returns the name of a plugin as a metric can have it.
function figures.plugin_name(text)
  return (text:gsub("[^%w_.-]", "_"):gsub("^([^%a_])", "_%1"))
end

-- Adds a metric. Odd thresholds and units of a plugin are left out and printed: they never hide its status.
function figures.add(host, metric, plugin)
  local name, label = name_of(metric, plugin)
  local labels = metric.labels or {}
  labels.label = label or labels.label
  for _, without in ipairs(WITHOUT) do
    local options = {
      unit = metric.unit, kind = metric.kind, labels = labels, warn = metric.warn, crit = metric.crit, min = metric.min, max = metric.max,
    }
    for _, option in ipairs(without) do options[option] = nil end
    if pcall(function() host.metric(name, metric.value, options) end) then
      for _, option in ipairs(without) do
        if metric[option] then print(string.format("%s of %s is left out: %s", option, metric.name, metric[option])) end
      end
      return true
    end
  end
  print(string.format("%s is left out: %s", metric.name, metric.value))
  return false
end

-- Returns one figure of `label=value[unit];[warn];[crit];[min];[max]`, and what follows it; nil for a figure that is none.
local function figure(text)
  local name, rest = text:match("^'([^']*)'=(.*)$")
  if not name then name, rest = text:match("^([^=%s']+)=(.*)$") end
  if not name or name == "" then return nil, text:match("^%S+%s*(.*)$") or "" end
  local word, after = rest:match("^(%S*)%s*(.*)$")
  local value, unit = word:match("^([-+]?[%d.]+[eE]?[-+]?%d*)([^;]*)")
  local fields = {}
  for part in (word .. ";"):gmatch("([^;]*);") do fields[#fields + 1] = part end
  if not tonumber(value) then return nil, after end
  local known = UNITS[unit:lower()]
  local function text_of(at) return fields[at] and fields[at] ~= "" and fields[at] or nil end
  return {
    name = name, value = tonumber(value), unit = known or (unit ~= "" and unit or nil), kind = known == "c" and "counter" or nil,
    warn = text_of(2), crit = text_of(3), min = tonumber(fields[4] or ""), max = tonumber(fields[5] or ""),
  }, after
end

-- Reads the text that a plugin prints: its first line, a bar, figures; further lines, of which those after a second bar are
-- figures again. Returns { summary, output, metrics, lost }: `lost` counts the figures that can't be read, or are too many.
function figures.read(text)
  local first, more = text:match("^([^\r\n]*)\r?\n?(.*)$")
  local summary, data = first:match("^([^|]*)|?(.*)$")
  local output, late = more:match("^([^|]*)|?(.*)$")
  local answer = { summary = summary:match("^%s*(.-)%s*$"), output = output:match("^(.-)%s*$"), metrics = {}, lost = 0 }
  local rest = (data .. " " .. late):gsub("%s+", " "):match("^%s*(.-)%s*$")
  while rest ~= "" do
    local one
    one, rest = figure(rest)
    if one and #answer.metrics < MOST then answer.metrics[#answer.metrics + 1] = one else answer.lost = answer.lost + 1 end
  end
  return answer
end

return figures
