-- Formats figures for people: sizes, times, counts. A figure of a server may have a fraction where there should be none, or
-- any size: %d would raise. Pure text; no host.
local words = {}

local UNITS = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" }

-- 1536 -> "1.5 KiB"
function words.bytes(count)
  local size, unit = count + 0.0, 1
  while math.abs(size) >= 1024 and unit < #UNITS do
    size, unit = size / 1024, unit + 1
  end
  return unit == 1 and string.format("%.0f B", count) or string.format("%.1f %s", size, UNITS[unit])
end

-- 93784 -> "1 d 2 h"; 75 -> "1 min 15 s"; 0.25 -> "250 ms"; 0.0004 -> "0.4 ms"
function words.duration(seconds)
  if seconds < 0 then return "-" .. words.duration(-seconds) end
  if seconds < 0.01 then return string.format("%.2g ms", seconds * 1000) end
  if seconds < 1 then return string.format("%.0f ms", seconds * 1000) end
  if seconds < 60 then return string.format("%.1f s", seconds) end
  local whole = math.floor(seconds)
  if whole < 3600 then return string.format("%.0f min %.0f s", whole // 60, whole % 60) end
  if whole < 86400 then return string.format("%.0f h %.0f min", whole // 3600, whole % 3600 // 60) end
  return string.format("%.0f d %.0f h", whole // 86400, whole % 86400 // 3600)
end

-- 7.0 -> "7"; 0.123456 -> "0.1235"; 1234567 -> "1234567"
function words.short(number)
  if number == math.floor(number) and math.abs(number) < 1e15 then return string.format("%.0f", number) end
  return string.format("%.4g", number)
end

-- Returns the number in a text from outside, or nil, also for nan and infinity.
function words.number(text)
  local number = tonumber(text)
  if number and number == number and math.abs(number) < math.huge then return number end
end

-- (1, "process", "processes") -> "1 process"
function words.count(number, one, many)
  return string.format("%.0f %s", number, number == 1 and one or many)
end

-- { "a", "b", "c", "d" } -> "a, b, c and 1 more"
function words.list(items, most)
  most = most or 3
  local shown = table.concat(items, ", ", 1, math.min(#items, most))
  return #items > most and string.format("%s and %d more", shown, #items - most) or shown
end

return words
