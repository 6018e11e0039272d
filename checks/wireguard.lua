local check = {
  summary = "Tunnels of WireGuard: peers by the age of their last handshake",
  needs = { "program" },
  timeout = "30s",
  args = {
    program = { type = "string", default = "wg-handshakes", help = "its name in the host's policy: wg show all latest-handshakes" },
    peers = { type = "list", default = {}, help = "peers that have to be connected, as NAME=PUBLIC KEY" },
    interfaces = { type = "list", default = {}, help = "interfaces that have to have peers" },
    warn = { type = "range", default = "300", help = "seconds since the last handshake of such a peer; with traffic there is one every two minutes" },
    crit = { type = "range", default = "900", help = "seconds since the last handshake of such a peer" },
    active_warn = { type = "range", help = "number of peers with a handshake in the last three minutes" },
    active_crit = { type = "range", help = "number of peers with a handshake in the last three minutes" },
  },
}

-- A session that is older has ended (its keys are thrown away).
local ACTIVE = 180
-- Seconds that a handshake may lie in the future: what sets the clock right moves it a little.
local AHEAD = 300

-- Returns the times of the last handshakes by key, and the interfaces as a set; nil if a line is none of wg. A peer that never had one has 0.
local function read(text)
  local times, interfaces, count = {}, {}, 0
  for line in text:gmatch("[^\r\n]+") do
    local interface, key, at = line:match("^(%S+)\t(%S+)\t(%d+)$")
    if not interface or #key ~= 44 then return nil end
    interfaces[interface], count = true, count + 1
    times[key] = math.max(times[key] or 0, tonumber(at))
  end
  return times, interfaces, count
end

-- Judges a peer that has to be connected. Returns the status, and a sentence if it is not in order.
local function judge(args, host, wanted, times)
  local name, key = wanted:match("^([^=]+)=(.+)$")
  if not name then return "unknown", string.format("peers: %s is no NAME=PUBLIC KEY", wanted) end
  local at = times[key]
  if not at then return "critical", "there is no peer " .. name end
  if at == 0 then return "critical", name .. " has never been connected" end
  local age = host.now() - at
  if age < -AHEAD then return "unknown", string.format("the last handshake of %s lies %s in the future: compare the clocks", name, require("words").duration(-age)) end
  age = math.max(0, age)
  local status = host.metric("handshake_age", age, { unit = "s", warn = args.warn, crit = args.crit, min = 0, labels = { peer = name } })
  return status, status ~= "ok" and string.format("the last handshake of %s was %s ago", name, require("words").duration(age)) or nil
end

function check.run(args, host)
  local worse, words = require("status").worse, require "words"
  local text, fault = require("program").text(host, args.program, nil, 15)
  if not text then return "unknown", fault end
  local times, interfaces, count = read(text)
  if not times then return "unknown", string.format("the program %s writes no list of wg show all latest-handshakes", args.program) end
  local active, ahead = 0, 0
  for _, at in pairs(times) do
    local age = host.now() - at
    if age < -AHEAD then ahead = ahead + 1 elseif age <= ACTIVE then active = active + 1 end
  end
  local worst = host.metric("active", active, { unit = "peers", warn = args.active_warn, crit = args.active_crit, min = 0 })
  host.metric("peers", count, { unit = "peers", min = 0 })
  local parts = {}
  for _, interface in ipairs(args.interfaces) do
    if not interfaces[interface] then worst, parts[#parts + 1] = "critical", interface .. " is not there, or has no peer" end
  end
  for _, wanted in ipairs(args.peers) do
    local status, sentence = judge(args, host, wanted, times)
    worst, parts[#parts + 1] = worse(worst, status), sentence
  end
  if ahead > 0 and #parts == 0 then
    worst, parts[1] = worse(worst, "unknown"), words.count(ahead, "handshake lies", "handshakes lie") .. " in the future: compare the clocks"
  end
  if count == 0 and #parts == 0 then return worse(worst, "unknown"), "this host has no peer of WireGuard" end
  parts[#parts + 1] = string.format("%d of %s active", active, words.count(count, "peer", "peers"))
  return worst, words.list(parts, 6)
end

return check
