local check = {
  summary = "Containers of Docker or Podman: running, stopped, unhealthy, required",
  needs = { "unix" },
  timeout = "30s",
  args = {
    socket = { type = "string", default = "/run/docker.sock", help = "the socket of the service; the host's policy has to grant it" },
    containers = { type = "list", default = {}, help = "names of containers that have to run; of a name with *, all that fit it" },
    ignore = { type = "list", default = {}, help = "names of containers with a health that does not matter" },
    warn = { type = "range", help = "containers that have stopped" },
    crit = { type = "range", help = "containers that have stopped" },
  },
}

local function fetch(host, socket, path)
  local status, body, text = require("unix_http").get(host, socket, path, 10)
  if not status then return nil, body, text end
  if status ~= 200 then return nil, "protocol", string.format("%s answers %d to %s", socket, status, path) end
  local value, why = require("json").decode(body)
  if type(value) ~= "table" then return nil, "protocol", string.format("%s answers %s with what is no JSON (%s)", socket, path, why or "no table") end
  return value
end

local function name_of(container)
  local names = type(container.Names) == "table" and container.Names or {}
  return tostring(names[1] or container.Id or "?"):gsub("^/", "")
end

-- Returns name, state and health of every container; health is "" for one without a health check.
local function read(list)
  local found = {}
  for _, container in ipairs(list) do
    local text = tostring(container.Status or "")
    local health = text:find("%(unhealthy%)") and "unhealthy" or text:find("%(health: starting%)") and "starting" or ""
    found[#found + 1] = { name = name_of(container), state = tostring(container.State or "unknown"):lower(), health = health }
  end
  table.sort(found, function(one, other) return one.name < other.name end)
  return found
end

-- Returns the counts by state, and a text for each container that has a problem.
local function evaluate(args, found)
  local patterns = require "patterns"
  local counts, ill, restarting = { running = 0, paused = 0, stopped = 0, restarting = 0, unhealthy = 0 }, {}, {}
  for _, one in ipairs(found) do
    local kind = (one.state == "exited" or one.state == "created" or one.state == "dead") and "stopped" or one.state
    counts[kind] = (counts[kind] or 0) + 1
    local matters = not patterns.any(one.name, args.ignore)
    if one.health == "unhealthy" then
      counts.unhealthy = counts.unhealthy + 1
      if matters then ill[#ill + 1] = one.name .. " is unhealthy" end
    end
    if one.state == "restarting" and matters then restarting[#restarting + 1] = one.name .. " restarts" end
  end
  local told = {}
  for _, wanted in ipairs(args.containers) do
    local seen = false
    for _, one in ipairs(found) do
      if patterns.fits(one.name, wanted) then
        seen = true
        if one.state ~= "running" and not told[one.name] then ill[#ill + 1] = string.format("%s is %s", one.name, one.state) end
        told[one.name] = true
      end
    end
    if not seen then ill[#ill + 1] = "there is no container " .. wanted end
  end
  return counts, ill, restarting
end

function check.run(args, host)
  local words, worse = require "words", require("status").worse
  local version, code, text = fetch(host, args.socket, "/version")
  local list
  if version then list, code, text = fetch(host, args.socket, "/containers/json?all=1") end
  if not (version and list) then
    if code == "denied" or code == "bad-arguments" or code == "too-large" then return "unknown", text end
    return "critical", text
  end
  local counts, ill, restarting = evaluate(args, read(list))
  local status = host.metric("stopped", counts.stopped, { unit = "containers", warn = args.warn, crit = args.crit, min = 0 })
  for _, kind in ipairs { "running", "paused", "restarting", "unhealthy" } do
    host.metric(kind, counts[kind], { unit = "containers", min = 0 })
  end
  if #ill > 0 then return "critical", words.list(ill, 5) end
  if #restarting > 0 then return worse(status, "warning"), words.list(restarting, 5) end
  return status, string.format("version %s, %s running, %d stopped", tostring(version.Version or "?"), words.count(counts.running, "container", "containers"),
    counts.stopped)
end

return check
