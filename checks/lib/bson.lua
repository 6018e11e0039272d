-- Encodes and decodes BSON, the documents of MongoDB. Encoding keeps the order of { { name, value }, ... }. Pure; no host.
local faults = require "faults"

local bson = {}

local MOST_DEPTH = 32

-- Marks bytes that are no text.
function bson.binary(data)
  return { binary = data }
end

-- Encodes text, integers, booleans, bytes and documents.
function bson.encode(document)
  local parts = {}
  for _, pair in ipairs(document) do
    local name, value = pair[1], pair[2]
    local kind = type(value)
    if kind == "string" then
      parts[#parts + 1] = "\x02" .. name .. "\0" .. string.pack("<s4", value .. "\0")
    elseif kind == "boolean" then
      parts[#parts + 1] = "\x08" .. name .. "\0" .. (value and "\1" or "\0")
    elseif kind == "number" then
      parts[#parts + 1] = "\x10" .. name .. "\0" .. string.pack("<i4", value)
    elseif value.binary then
      parts[#parts + 1] = "\x05" .. name .. "\0" .. string.pack("<I4B", #value.binary, 0) .. value.binary
    else
      parts[#parts + 1] = "\x03" .. name .. "\0" .. bson.encode(value)
    end
  end
  local body = table.concat(parts) .. "\0"
  return string.pack("<I4", #body + 4) .. body
end

local document_at

local function text_at(data, at)
  local text, behind = string.unpack("<s4", data, at)
  return text:sub(1, -2), behind
end

local function skip(count)
  return function(_, at) return nil, at + count end
end

-- Readers by the type of an element: each returns a value and the position behind it.
local READ = {
  [0x01] = function(data, at) return string.unpack("<d", data, at) end,
  [0x02] = text_at, [0x0d] = text_at, [0x0e] = text_at,
  [0x05] = function(data, at)
    local length = string.unpack("<I4", data, at)
    return string.unpack("c" .. length, data, at + 5), at + 5 + length
  end,
  [0x06] = skip(0), [0x07] = skip(12), [0x0a] = skip(0), [0x11] = skip(8), [0x13] = skip(16), [0x7f] = skip(0), [0xff] = skip(0),
  [0x08] = function(data, at) return data:byte(at) == 1, at + 1 end,
  [0x09] = function(data, at) -- milliseconds since 1970
    local value, behind = string.unpack("<i8", data, at)
    return value / 1000, behind
  end,
  [0x0b] = function(data, at) -- a pattern and its options
    local _, _, behind = string.unpack("zz", data, at)
    return nil, behind
  end,
  [0x10] = function(data, at) return string.unpack("<i4", data, at) end,
  [0x12] = function(data, at) return string.unpack("<i8", data, at) end,
}

-- Reads a document, or an array, whose names are its places from 0.
function document_at(data, at, depth, is_list)
  if depth > MOST_DEPTH then faults.fail("protocol", "the server sends documents that are too deep") end
  local length, found = string.unpack("<I4", data, at), {}
  local stop = at + length - 1
  if length < 5 or stop > #data then faults.fail("protocol", "the server sends a broken document") end
  at = at + 4
  while at < stop do
    local kind, name = string.unpack("<Bz", data, at)
    at = at + 2 + #name
    local value
    if kind == 0x03 or kind == 0x04 then
      value, at = document_at(data, at, depth + 1, kind == 0x04)
    elseif READ[kind] then
      value, at = READ[kind](data, at)
    else
      faults.fail("protocol", string.format("the server sends an element of the kind %d", kind))
    end
    if is_list then found[#found + 1] = value == nil and false or value else found[name] = value end
  end
  if at ~= stop then faults.fail("protocol", "the server sends a broken document") end
  return found, stop + 1
end

-- Returns the document at the beginning of `data`. Fails as "protocol" if that is none.
function bson.decode(data)
  return (document_at(data, 1, 1, false))
end

return bson
