-- Reads times that others write, as seconds since 1970. Pure; no host.
local times = {}

-- Days from 1970 to a day of the civil calendar; its years begin in March, so that a leap day is the last.
local function days_of(year, month, day)
  if month < 3 then year = year - 1 end
  return 365 * year + year // 4 - year // 100 + year // 400 + (153 * ((month + 9) % 12) + 2) // 5 + day - 1 - 719468
end

-- "2026-11-29T17:33:53.970+01:00" -> 1795970033.97; a time without a zone is UTC. Returns nil for anything else.
function times.of(text)
  if type(text) ~= "string" then return nil end
  local year, month, day, hour, minute, second, rest = text:match("^(%d%d%d%d)-(%d%d)-(%d%d)[T ](%d%d):(%d%d):(%d%d%.?%d*)(.*)$")
  if not year then return nil end
  year, month, day = math.tointeger(tonumber(year)), math.tointeger(tonumber(month)), math.tointeger(tonumber(day))
  hour, minute, second = tonumber(hour), tonumber(minute), tonumber(second)
  if month < 1 or month > 12 or day < 1 or day > 31 or hour > 23 or minute > 59 or second >= 61 then return nil end
  local sign, zone_hour, zone_minute = rest:match("^([+-])(%d%d):?(%d%d)$")
  if not sign and rest ~= "" and rest ~= "Z" then return nil end
  local offset = sign and (tonumber(zone_hour) * 60 + tonumber(zone_minute)) * (sign == "-" and -60 or 60) or 0
  return days_of(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - offset
end

return times
