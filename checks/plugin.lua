local check = {
  summary = "A monitoring plugin of this host (Nagios, or Cloudkick/Rackspace agent) that the policy lists",
  needs = { "plugin" },
  timeout = "60s",
  args = {
    name = { type = "string", required = true, help = "its name in the policy" },
    slots = { type = "list", default = {}, help = "values for the arguments that the policy leaves open: warn=80" },
  },
}

local function slots_of(lines)
  local slots = {}
  for _, line in ipairs(lines) do
    local name, value = line:match("^([%w_]+)=(.*)$")
    if not name then return nil, "slots: " .. line .. " is no NAME=VALUE" end
    slots[name] = value
  end
  return slots
end

-- Returns the status and the summary. An exit status other than 0 is never ok, whatever an older agent makes of the text.
local function verdict(answer)
  local exit = answer.exit_status or 0
  if answer.status ~= "ok" or exit == 0 then return answer.status, answer.summary end
  local status = ({ "warning", "critical" })[exit] or "unknown"
  return status, string.format("%s (%s %d)", answer.summary, exit < 0 and "signal" or "exit status", math.abs(exit))
end

-- Returns the true sizes of what is left out, and prints them.
local function left_out(answer, kept, seen)
  local lost = {}
  if answer.truncated then
    lost.output = answer.output_bytes
    print(string.format("the output was cut: it has %s bytes", answer.output_bytes or "more than 65536"))
  end
  local total = math.max(answer.metrics_total or 0, seen)
  if total > kept then
    lost.metrics = total
    print(string.format("%d of %d figures of the plugin cannot be read, or are too many", total - kept, total))
  end
  return lost
end

function check.run(args, host)
  local slots, fault = slots_of(args.slots)
  if not slots then return "unknown", fault end
  local answer, _, text = host.plugin(args.name, slots)
  if not answer then return "unknown", text end
  if answer.output then print(answer.output) end
  local figures = require "plugin_figures"
  local plugin = figures.plugin_name(args.name)
  local kept = #answer.metrics
  for _, metric in ipairs(answer.metrics) do
    if type(metric.value) == "number" and not figures.add(host, metric, plugin) then kept = kept - 1 end
  end
  host.metric("plugin_time", answer.seconds, { unit = "s", min = 0 })
  local status, summary = verdict(answer)
  return status, summary, left_out(answer, kept, #answer.metrics)
end

return check
