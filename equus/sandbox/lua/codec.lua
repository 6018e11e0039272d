-- Encodes plain data as bytes and decodes it, as value_codec.py does in Python. One tag byte, then the value.
--   n nil   t true   f false   i int64   d double   s length, bytes   a count, items   o count, key and value pairs
local string_pack, string_unpack, string_byte = string.pack, string.unpack, string.byte
local table_concat, math_type = table.concat, math.type
local type, next, error, tostring, rawlen = type, next, error, tostring, rawlen

-- Deeper data is a mistake, or a table that contains itself.
local MOST_DEPTH = 32

local encode_value

local function encode_table(value, parts, depth)
  if depth > MOST_DEPTH then error("a table is nested more than " .. MOST_DEPTH .. " deep, or holds itself", 0) end
  local count, length = 0, rawlen(value)
  for _ in next, value do count = count + 1 end
  if count == length and count > 0 then
    parts[#parts + 1] = string_pack("<c1I4", "a", count)
    for index = 1, count do encode_value(value[index], parts, depth) end
    return
  end
  parts[#parts + 1] = string_pack("<c1I4", "o", count)
  for key, inner in next, value do
    local kind = type(key)
    if kind ~= "string" and kind ~= "number" then error("a table has a " .. kind .. " as a key", 0) end
    parts[#parts + 1] = string_pack("<c1s4", "s", tostring(key))
    encode_value(inner, parts, depth)
  end
end

function encode_value(value, parts, depth)
  local kind = type(value)
  if kind == "string" then
    parts[#parts + 1] = string_pack("<c1s4", "s", value)
  elseif kind == "number" then
    parts[#parts + 1] = math_type(value) == "integer" and string_pack("<c1i8", "i", value) or string_pack("<c1d", "d", value)
  elseif kind == "nil" then
    parts[#parts + 1] = "n"
  elseif kind == "boolean" then
    parts[#parts + 1] = value and "t" or "f"
  elseif kind == "table" then
    encode_table(value, parts, depth + 1)
  else
    error("a " .. kind .. " is no plain data", 0)
  end
end

local function encode(value)
  local parts = {}
  encode_value(value, parts, 0)
  return table_concat(parts)
end

-- Encodes exactly `count` values, nils among them: the arguments of a call.
local function encode_list(values, count)
  local parts = { string_pack("<c1I4", "a", count) }
  for index = 1, count do encode_value(values[index], parts, 0) end
  return table_concat(parts)
end

local TAG_N, TAG_T, TAG_F, TAG_I, TAG_D, TAG_S, TAG_A = string_byte("ntfidsa", 1, -1)

local function decode_value(bytes, at)
  local tag = string_byte(bytes, at)
  if tag == TAG_S then return string_unpack("<s4", bytes, at + 1) end
  if tag == TAG_I then return string_unpack("<i8", bytes, at + 1) end
  if tag == TAG_D then return string_unpack("<d", bytes, at + 1) end
  if tag == TAG_N then return nil, at + 1 end
  if tag == TAG_T then return true, at + 1 end
  if tag == TAG_F then return false, at + 1 end
  local count, key
  count, at = string_unpack("<I4", bytes, at + 1)
  local result = {}
  if tag == TAG_A then
    for index = 1, count do result[index], at = decode_value(bytes, at) end
    return result, at
  end
  for _ = 1, count do
    key, at = string_unpack("<s4", bytes, at + 1) -- after its tag
    result[key], at = decode_value(bytes, at)
  end
  return result, at
end

local function decode(bytes)
  local value = decode_value(bytes, 1)
  return value
end

return { encode = encode, encode_list = encode_list, decode = decode }
