local check = {
  summary = "Software RAID arrays (Linux md): degraded, failed, rebuilding",
  needs = { "host" },
  timeout = "10s",
  args = {
    none = { type = "string", default = "ok", choices = { "ok", "warning", "critical", "unknown" }, help = "what a host without arrays means" },
    rebuilding = { type = "string", default = "warning", choices = { "ok", "warning" }, help = "what a rebuild means" },
  },
}

local function judge(array, args)
  local name = array.name .. (array.level ~= "" and " (" .. array.level .. ")" or "")
  if not array.active then return "critical", name .. " is not active" end
  if array.degraded then
    local told = string.format("%s is degraded: %d of %d devices work", name, array.working, array.members)
    if #array.failed > 0 then told = told .. ", failed " .. table.concat(array.failed, ", ") end
    if array.action == "" then return "critical", told end
    return "critical", string.format("%s; %s at %.1f %%", told, array.action, array.progress_percent)
  end
  if array.action ~= "" and array.action ~= "check" then
    return args.rebuilding, string.format("%s: %s at %.1f %%", name, array.action, array.progress_percent)
  end
  return "ok", string.format("%s has all %d devices", name, array.members)
end

function check.run(args, host)
  local words, status = require "words", require "status"
  local arrays, code, text = host.raid()
  if not arrays and code ~= "unsupported" then return "unknown", text end
  if not arrays or #arrays == 0 then return args.none, "this host has no software RAID" end
  local worst, bad, good = "ok", {}, {}
  for _, array in ipairs(arrays) do
    local state, told = judge(array, args)
    local list = state == "ok" and good or bad
    list[#list + 1] = told
    worst = status.worse(worst, state)
    local labels = { array = array.name }
    host.metric("working", array.working, { unit = "devices", min = 0, max = array.members, labels = labels })
    host.metric("members", array.members, { unit = "devices", min = 0, labels = labels })
    if array.action ~= "" then host.metric("progress", array.progress_percent, { unit = "%", min = 0, max = 100, labels = labels }) end
  end
  return worst, words.list(#bad > 0 and bad or good, 5)
end

return check
