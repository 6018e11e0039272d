local check = {
  summary = "A monitoring plugin of this host (Nagios, or a Cloudkick/Rackspace agent plugin) that the policy names",
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

function check.run(args, host)
  local slots, fault = slots_of(args.slots)
  if not slots then return "unknown", fault end
  local answer, _, text = host.plugin(args.name, slots)
  if not answer then return "unknown", text end
  for _, metric in ipairs(answer.metrics) do
    if type(metric.value) == "number" then
      -- Plugins name their figures freely ("/var lib"); what is no name of ours becomes the label.
      local name = metric.name:gsub("[^%w_.-]", "_"):gsub("^([^%a_])", "_%1")
      local labels = metric.labels or {}
      if name ~= metric.name then labels.label = metric.name end
      host.metric(name, metric.value, {
        unit = metric.unit, kind = metric.kind, labels = labels, warn = metric.warn, crit = metric.crit,
        min = metric.min, max = metric.max,
      })
    end
  end
  host.metric("plugin_time", answer.seconds, { unit = "s", min = 0 })
  if answer.output then print(answer.output) end
  return answer.status, answer.summary
end

return check
