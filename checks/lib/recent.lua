-- Tells how much a counter of a server has grown lately. What happens once would be good again in the next run, before it is
-- confirmed; so growth counts for at least five minutes, and for at most ten (or since the run before, if that was longer ago).
local recent = {}

local SECONDS = 300

-- Returns the growth of a counter; 0 in the first run. One that is smaller than before began anew at 0.
function recent.growth(host, name, value)
  local kept, now = host.state.get("recent " .. name), host.now()
  if type(kept) ~= "table" then
    kept = { older = value, newer = value, at = now }
  elseif value < kept.newer then
    kept = { older = 0, newer = 0, at = now }
  end
  if now - kept.at >= SECONDS then
    kept = { older = kept.newer, newer = value, at = now }
  elseif now < kept.at then -- the clock was set back
    kept.at = now
  end
  host.state.put("recent " .. name, kept)
  return value - kept.older
end

-- Returns the part in percent that one counter has of the growth of another, or nil if that has not grown.
function recent.share(host, name, part, whole)
  local grown, all = recent.growth(host, name .. " part", part), recent.growth(host, name .. " whole", whole)
  if all > 0 then return math.min(100, grown * 100 / all) end
end

return recent
