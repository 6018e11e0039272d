-- Converts bytes to hexadecimal digits and back, the form in which host calls take and return them. Pure; no host.
local bytes = {}

-- "ff00" -> "\xff\0"; nil if the text is no whole number of pairs of digits.
function bytes.of(digits)
  if #digits % 2 ~= 0 or digits:find("%X") then return nil end
  return (digits:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end))
end

function bytes.hex(text)
  return (text:gsub(".", function(one) return string.format("%02x", one:byte()) end))
end

-- Returns the exclusive or of two strings of equal length.
function bytes.xor(one, other)
  local parts = {}
  for at = 1, #one do parts[at] = string.char(one:byte(at) ~ other:byte(at)) end
  return table.concat(parts)
end

local DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

function bytes.base64(text)
  local parts = {}
  for at = 1, #text, 3 do
    local one, two, three = text:byte(at, at + 2)
    local number = one << 16 | (two or 0) << 8 | (three or 0)
    for place = 0, 3 do
      local digit = number >> (18 - 6 * place) & 63
      local filled = place < 2 or (place == 2 and two) or (place == 3 and three)
      parts[#parts + 1] = filled and DIGITS:sub(digit + 1, digit + 1) or "="
    end
  end
  return table.concat(parts)
end

-- Returns the decoded bytes, or nil if the text is no base64.
function bytes.of_base64(text)
  if #text % 4 ~= 0 or not text:find("^[%w+/]*=?=?$") then return nil end
  local parts, number, bits = {}, 0, 0
  for digit in text:gmatch("[%w+/]") do
    number, bits = number << 6 | DIGITS:find(digit, 1, true) - 1, bits + 6
    if bits >= 8 then
      bits = bits - 8
      parts[#parts + 1] = string.char(number >> bits & 255)
    end
  end
  return table.concat(parts)
end

return bytes
