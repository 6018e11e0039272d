local check = {
  summary = "Software RAID arrays (Linux md): degraded, failed, rebuilding",
  needs = { "host" },
  timeout = "10s",
  args = {
    none = { type = "string", default = "ok", choices = { "ok", "warning", "critical", "unknown" }, help = "the status of a host without arrays" },
    rebuilding = { type = "string", default = "warning", choices = { "ok", "warning" }, help = "the status during a rebuild" },
  },
}

local function evaluate(array, args)
  local name = array.name .. (array.level ~= "" and " (" .. array.level .. ")" or "")
  if not array.active then
    local state = array.state or "inactive"
    local summary = array.name .. " is " .. (state == "inactive" and "not active" or state)
    if array.level ~= "" then summary = string.format("%s (%s)", summary, array.level) end
    if #array.failed > 0 then summary = summary .. ", failed " .. table.concat(array.failed, ", ") end
    -- The kernel has no other words so far: what a new one means is not known, but it isn't "active".
    return (state == "inactive" or state == "broken") and "critical" or "unknown", summary
  end
  if array.degraded then
    local summary = string.format("%s is degraded: %d of %d devices work", name, array.working, array.members)
    if #array.failed > 0 then summary = summary .. ", failed " .. table.concat(array.failed, ", ") end
    if array.action == "" then return "critical", summary end
    return "critical", string.format("%s; %s at %.1f %%", summary, array.action, array.progress_percent)
  end
  if array.action ~= "" and array.action ~= "check" then
    return args.rebuilding, string.format("%s: %s at %.1f %%", name, array.action, array.progress_percent)
  end
  return "ok", string.format("%s has all %d devices", name, array.members)
end

function check.run(args, host)
  local words, status = require "words", require "status"
  local known, code, text = host.raid()
  if not known and code ~= "unsupported" then return "unknown", text end
  local arrays = {}
  for _, array in ipairs(known or {}) do
    -- A container of firmware RAID is never active itself; the arrays in it are listed beside it.
    if not array.container then arrays[#arrays + 1] = array end
  end
  if #arrays == 0 then return args.none, "this host has no software RAID" end
  local worst, bad, good = "ok", {}, {}
  for _, array in ipairs(arrays) do
    local state, summary = evaluate(array, args)
    local list = state == "ok" and good or bad
    list[#list + 1] = summary
    worst = status.worse(worst, state)
    local labels = { array = array.name }
    host.metric("working", array.working, { unit = "devices", min = 0, max = array.members, labels = labels })
    host.metric("members", array.members, { unit = "devices", min = 0, labels = labels })
    if array.action ~= "" then host.metric("progress", array.progress_percent, { unit = "%", min = 0, max = 100, labels = labels }) end
  end
  return worst, words.list(#bad > 0 and bad or good, 5)
end

return check
