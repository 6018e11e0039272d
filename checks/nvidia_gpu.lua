local check = {
  summary = "NVIDIA GPUs: temperature, use, memory, power, errors of their memory, GPUs that are lost",
  needs = { "program" },
  timeout = "60s",
  args = {
    program = { type = "string", default = "nvidia-smi", help = "its name in the host's policy" },
    gpus = { type = "integer", min = 1, help = "how many there have to be" },
    warn = { type = "range", default = "85", help = "temperature in degrees Celsius" },
    crit = { type = "range", default = "92", help = "temperature in degrees Celsius" },
    memory_warn = { type = "range", help = "used memory in percent" },
    memory_crit = { type = "range", help = "used memory in percent" },
    errors_warn = { type = "range", default = "0", help = "errors of the memory that could not be corrected, since the driver was loaded" },
    errors_crit = { type = "range", help = "errors of the memory that could not be corrected" },
  },
}

-- The columns of the command in docs/checks.rst. A figure that a GPU does not have is [N/A].
local COLUMNS = { "index", "name", "temperature", "utilization", "memory_used", "memory_total", "power", "errors" }

-- Figures that a GPU does not have; any other word is a failure to read one.
local NONE = { ["[N/A]"] = true, ["N/A"] = true, ["[Not Supported]"] = true }

-- Returns the GPUs as tables of texts by the names of the columns, or nil if that is no such list.
local function read(text)
  local found = {}
  for line in text:gmatch("[^\r\n]+") do
    local one, count = {}, 0
    for value in (line .. ","):gmatch(" *([^,]*),") do
      count = count + 1
      one[COLUMNS[count] or ""] = value
    end
    if count ~= #COLUMNS or not one.index:find("^%d+$") then return nil end
    found[#found + 1] = one
  end
  return found
end

-- Judges one GPU. Returns the status, and a sentence if it is not in order.
local function judge(args, host, one)
  local worse, number, short = require("status").worse, require("words").number, require("words").short
  local labels, worst, parts = { gpu = one.index }, "ok", {}
  local function add(name, value, unit, warn, crit, said)
    if not value then return end
    local status = host.metric(name, value, { unit = unit, warn = warn, crit = crit, min = 0, labels = labels })
    worst = worse(worst, status)
    if status ~= "ok" then parts[#parts + 1] = string.format(said, short(value)) end
  end
  local temperature, used, total = number(one.temperature), number(one.memory_used), number(one.memory_total)
  add("temperature", temperature, "Cel", args.warn, args.crit, "%s °C")
  add("utilization", number(one.utilization), "%")
  if used and total and total > 0 then add("memory_used", used * 100 / total, "%", args.memory_warn, args.memory_crit, "%s %% of its memory used") end
  add("memory", used and used * 1048576, "B")
  add("power", number(one.power), "W")
  add("errors", number(one.errors), "errors", args.errors_warn, args.errors_crit, "%s errors of its memory")
  for index = 4, temperature and #COLUMNS or 0 do
    local name, text = COLUMNS[index], one[COLUMNS[index]]
    if not number(text) and not NONE[text] then
      worst, parts[#parts + 1] = worse(worst, "unknown"), string.format("tells no %s (%s)", (name:gsub("_", " ")), text:sub(1, 30))
    end
  end
  if not temperature then worst, parts[#parts + 1] = worse(worst, "unknown"), string.format("tells no temperature (%s)", one.temperature:sub(1, 30)) end
  return worst, #parts > 0 and string.format("GPU %s (%s): %s", one.index, one.name:sub(1, 40), table.concat(parts, ", ")) or nil
end

function check.run(args, host)
  local worse, words = require("status").worse, require "words"
  local answer, code, text = host.program { name = args.program, timeout = 30 }
  if not answer then return code == "timeout" and "critical" or "unknown", text end
  if answer.exit_status ~= 0 then
    -- It fails if a GPU has fallen off its bus, or the driver does not answer.
    local said = (answer.text .. "\n" .. answer.errors):match("[^\r\n]+") or "it says nothing"
    return "critical", string.format("%s fails (exit status %d): %s", args.program, answer.exit_status, said:sub(1, 200))
  end
  local gpus = read(answer.text)
  if not gpus or #gpus == 0 then return "unknown", string.format("the program %s does not write the columns of docs/checks.rst", args.program) end
  local worst, bad = "ok", {}
  for _, one in ipairs(gpus) do
    local status, sentence = judge(args, host, one)
    worst, bad[#bad + 1] = worse(worst, status), sentence
  end
  if args.gpus and #gpus < args.gpus then worst, bad[#bad + 1] = "critical", string.format("there are %d of %d GPUs", #gpus, args.gpus) end
  if #bad > 0 then return worst, words.list(bad, 5) end
  return worst, string.format("%s in order (%s)", words.count(#gpus, "GPU", "GPUs"), gpus[1].name:sub(1, 40))
end

return check
