local check = {
  summary = "The host has to be restarted: for updated packages, or for a newer kernel that is installed",
  needs = { "kernel" },
  timeout = "20s",
  args = {
    status = { type = "string", default = "warning", choices = { "ok", "warning", "critical" }, help = "what a host is that has to be restarted" },
    kernels = { type = "boolean", default = true, help = "compare the running kernel with the newest one that is installed" },
  },
}

-- "6.1.0-18-cloud-amd64" -> { 6, 1, 0, 18 } and "-cloud-amd64", which tells kernels of another kind apart.
local function parts_of(release)
  local numbers, kind = {}, release:gsub("%d+", ""):gsub("[._-]", "")
  for digits in release:gmatch("%d+") do numbers[#numbers + 1] = tonumber(digits) end
  return numbers, kind
end

-- True if one release is newer than another of the same kind.
local function is_newer(one, other)
  local mine, kind = parts_of(one)
  local yours, other_kind = parts_of(other)
  if kind ~= other_kind then return false end
  for index = 1, math.max(#mine, #yours) do
    local left, right = mine[index] or 0, yours[index] or 0
    if left ~= right then return left > right end
  end
  return false
end

function check.run(args, host)
  local words = require "words"
  local found, _, text = host.kernel.reboot_required()
  if not found then return "unknown", text end
  local reasons = {}
  if found.asked then
    local packages = found.packages or {}
    reasons[1] = #packages > 0 and "packages ask for it: " .. words.list(packages, 4) or "packages ask for it"
  end
  if found.modules == false then reasons[#reasons + 1] = string.format("the modules of the running kernel %s are gone", found.running) end
  local newest = found.running
  for _, kernel in ipairs(args.kernels and found.kernels or {}) do
    if is_newer(kernel, newest) then newest = kernel end
  end
  if newest ~= found.running then reasons[#reasons + 1] = string.format("%s is installed, %s runs", newest, found.running) end
  host.metric("required", #reasons > 0 and 1 or 0, { unit = "", min = 0, max = 1 })
  if #reasons > 0 then return args.status, "the host has to be restarted: " .. table.concat(reasons, "; ") end
  return "ok", string.format("no restart is needed, %s runs", found.running)
end

return check
