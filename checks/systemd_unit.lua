local check = {
  summary = "A systemd unit is active; without a name, no unit has failed",
  needs = { "systemd" },
  timeout = "20s",
  args = {
    unit = { type = "string", help = "such as nginx.service; without it all units that the policy lets checks see" },
    states = { type = "list", default = { "active" }, help = "expected states" },
    restarts_warn = { type = "range", help = "how often systemd has restarted it" },
    restarts_crit = { type = "range", help = "how often systemd has restarted it" },
  },
}

local function any_failed(host)
  local words = require "words"
  local failed, _, text = host.systemd_failed()
  if not failed then return "unknown", text end
  host.metric("failed_units", failed.count, { unit = "units", min = 0 })
  if failed.count == 0 then return "ok", "no unit has failed" end
  return "critical", words.count(failed.count, "unit has", "units have") .. " failed: " .. words.list(failed.units, 5)
end

function check.run(args, host)
  if not args.unit then return any_failed(host) end
  local words = require "words"
  local unit, code, text = host.systemd(args.unit)
  if not unit then return code == "not-found" and "critical" or "unknown", text end
  local labels = { unit = unit.unit }
  local worst = "ok"
  if unit.restarts then
    worst = host.metric("restarts", unit.restarts,
      { unit = "restarts", warn = args.restarts_warn, crit = args.restarts_crit, min = 0, labels = labels })
  end
  if unit.memory_bytes then host.metric("memory", unit.memory_bytes, { unit = "B", min = 0, labels = labels }) end
  if unit.tasks then host.metric("tasks", unit.tasks, { unit = "tasks", min = 0, labels = labels }) end
  local summary = string.format("%s is %s (%s)", unit.unit, unit.active_state, unit.sub_state)
  if unit.since_at then summary = summary .. " for " .. words.duration(math.max(0, host.now() - unit.since_at)) end
  for _, state in ipairs(args.states) do
    if unit.active_state == state then return worst, summary end
  end
  if unit.active_state == "activating" or unit.active_state == "reloading" then return "warning", summary end
  if unit.result ~= "" and unit.result ~= "success" then summary = summary .. ", result " .. unit.result end
  return "critical", summary
end

return check
