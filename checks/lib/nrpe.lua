-- Makes and reads packets of NRPE, versions 2, 3 and 4. Pure; no host. Numbers are in network order.
local nrpe = {}

local QUERY, RESPONSE = 1, 2
local TEXT_2, PADDING_2 = 1024, 2
local PADDING = { [3] = 3, [4] = 0 }
local HEAD, LONG_HEAD = ">i2i2I4i2", ">i2i2I4i2i2i4"

local crcs

-- Returns the CRC-32 of bytes, as zlib has it.
local function crc32(text)
  if not crcs then
    crcs = {}
    for byte = 0, 255 do
      local crc = byte
      for _ = 1, 8 do crc = (crc & 1 == 1) and (crc >> 1 ~ 0xEDB88320) or crc >> 1 end
      crcs[byte] = crc
    end
  end
  local crc = 0xFFFFFFFF
  for at = 1, #text do crc = crc >> 8 ~ crcs[(crc ~ text:byte(at)) & 255] end
  return crc ~ 0xFFFFFFFF
end

-- Returns the question for a text as bytes. A text for version 2 has at most 1023 bytes.
function nrpe.packet(version, text)
  local function made(crc)
    if version == 2 then
      return string.pack(HEAD, 2, QUERY, crc, 0) .. text .. string.rep("\0", TEXT_2 + PADDING_2 - #text)
    end
    return string.pack(LONG_HEAD, version, QUERY, crc, 0, 0, #text + 1) .. text .. string.rep("\0", 1 + PADDING[version])
  end
  return made(crc32(made(0)))
end

-- Returns { result, text } of an answer's bytes, or nil, "protocol" and a sentence.
function nrpe.read(data)
  if #data == 0 then return nil, "protocol", "the daemon hangs up without an answer: it refuses this host, the command or the packet" end
  if #data < 16 then return nil, "protocol", "the daemon's answer is cut" end
  local version, kind, crc, result = string.unpack(HEAD, data)
  if kind ~= RESPONSE or (version ~= 2 and not PADDING[version]) then return nil, "protocol", "what answers is no NRPE daemon" end
  local size, start
  if version == 2 then
    size, start = 10 + TEXT_2 + PADDING_2, 10
  else
    local length = select(6, string.unpack(LONG_HEAD, data))
    if length < 1 or length > 65536 then return nil, "protocol", string.format("the daemon announces a text of %d bytes", length) end
    size, start = 16 + length + PADDING[version], 16
  end
  if #data < size then return nil, "protocol", "the daemon's answer is cut" end
  data = data:sub(1, size)
  if crc32(data:sub(1, 4) .. "\0\0\0\0" .. data:sub(9)) ~= crc then return nil, "protocol", "the checksum of the answer is wrong" end
  return { result = result, text = data:sub(start + 1):match("^[^\0]*") }
end

return nrpe
