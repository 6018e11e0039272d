-- Encodes and decodes BER (X.690), the encoding of SNMP and LDAP: tags of one byte, lengths that are given. Pure; no host.
-- Data that break its rules are raised as a failure with the code "protocol" (faults.lua).
local faults = require "faults"

local ber = {
  BOOLEAN = 0x01, INTEGER = 0x02, TEXT = 0x04, NULL = 0x05, OID = 0x06, ENUMERATED = 0x0a, SEQUENCE = 0x30, SET = 0x31,
}
local Reader = {}
Reader.__index = Reader

-- Parts of an object identifier, and the largest of them (RFC 2578, 3.5).
local MOST_PARTS, LARGEST_PART = 128, 4294967295
-- Bytes that a length may have: 4 GiB are far beyond any message.
local MOST_LENGTH_BYTES = 4

local function broken(text)
  faults.fail("protocol", "the answer is no BER: " .. text)
end

-- Encoding ----------------------------------------------------------------------------------------------------------

-- Returns one element: its tag, the length, and the bytes of its contents, which may come in pieces.
function ber.element(tag, ...)
  local contents = table.concat({ ... })
  local size = #contents
  if size < 0x80 then return string.char(tag, size) .. contents end
  local length = string.pack(">I4", size):gsub("^\0+", "")
  return string.char(tag, 0x80 | #length) .. length .. contents
end

-- Returns a whole number in as few bytes as hold it.
function ber.integer(number, tag)
  local size = 1
  while size < 8 and (number < -(1 << 8 * size - 1) or number >= 1 << 8 * size - 1) do size = size + 1 end
  return ber.element(tag or ber.INTEGER, string.pack(">i" .. size, number))
end

function ber.boolean(value)
  return ber.element(ber.BOOLEAN, value and "\xff" or "\0")
end

-- Returns the parts of "1.3.6.1" as numbers, or nil if it is no object identifier. A point before it is passed over.
function ber.parts(oid)
  local parts = {}
  local text = oid:gsub("^%.", "")
  for digits in (text .. "."):gmatch("([^.]*)%.") do
    local part = #digits <= 10 and digits:find("^%d+$") and math.tointeger(tonumber(digits))
    if not part or part > LARGEST_PART or #parts == MOST_PARTS then return nil end
    parts[#parts + 1] = part
  end
  if #parts < 2 or parts[1] > 2 or (parts[1] < 2 and parts[2] > 39) then return nil end
  return parts
end

local function base128(part)
  local text = string.char(part & 0x7f)
  part = part >> 7
  while part > 0 do text, part = string.char(0x80 | part & 0x7f) .. text, part >> 7 end
  return text
end

-- Returns the element of "1.3.6.1". Raises "bad-arguments" if that is no object identifier.
function ber.oid(oid)
  local parts = ber.parts(oid)
  if not parts then faults.fail("bad-arguments", string.format("%s is no object identifier such as 1.3.6.1.2.1.1.3.0", oid)) end
  local pieces = { base128(parts[1] * 40 + parts[2]) }
  for at = 3, #parts do pieces[at - 1] = base128(parts[at]) end
  return ber.element(ber.OID, table.concat(pieces))
end

-- Decoding ----------------------------------------------------------------------------------------------------------

-- Returns tag, first and last place of the contents of the element that begins at `at`; nil if `data` ends within its header.
local function header(data, at, last)
  if at + 1 > last then return nil end
  local tag, length = data:byte(at, at + 1)
  if tag & 0x1f == 0x1f then broken("a tag has more than one byte") end
  if length < 0x80 then return tag, at + 2, at + 1 + length end
  local count = length & 0x7f
  if count == 0 or count > MOST_LENGTH_BYTES then broken("a length is not given, or has too many bytes") end
  if at + 1 + count > last then return nil end
  length = string.unpack(">I" .. count, data, at + 2)
  return tag, at + 2 + count, at + 1 + count + length
end

-- Returns the size in bytes of the element that begins a stream, or nil as long as too few bytes have come to tell.
function ber.size(data)
  local tag, _, last = header(data, 1, #data)
  return tag and last
end

-- Returns a reader of the elements that stand in `data`, one behind the other.
function ber.reader(data)
  return setmetatable({ data = data, at = 1, last = #data }, Reader)
end

-- True if all was read.
function Reader:is_done()
  return self.at > self.last
end

function Reader:_next()
  local tag, first, last = header(self.data, self.at, self.last)
  if not tag then broken("it ends too early") end
  if last > self.last then broken("an element is longer than what is around it") end
  self.at = last + 1
  return tag, first, last
end

function Reader:_wanted(wanted)
  local tag, first, last = self:_next()
  if tag ~= wanted then broken(string.format("tag %02x stands where %02x should", tag, wanted)) end
  return first, last
end

-- Returns tag and contents of the next element.
function Reader:next()
  local tag, first, last = self:_next()
  return tag, self.data:sub(first, last)
end

-- Returns the contents of the next element, which must have this tag, and their place in all data.
function Reader:take(wanted)
  local first, last = self:_wanted(wanted)
  return self.data:sub(first, last), first
end

-- Returns the next element, a sequence unless another tag is given, as a reader of its own.
function Reader:inside(tag)
  local first, last = self:_wanted(tag or ber.SEQUENCE)
  return setmetatable({ data = self.data, at = first, last = last }, Reader)
end

function Reader:integer(tag)
  return ber.signed((self:take(tag or ber.INTEGER)))
end

-- Decodes the contents of a whole number of at most 64 bits.
function ber.signed(contents)
  local size = #contents
  if size == 0 or size > 8 then broken(string.format("a number has %d bytes", size)) end
  return (string.unpack(">i" .. size, contents))
end

-- Decodes a number without a sign, of at most `most` bytes (8). One from 2^63 on is negative in Lua; differences of two such
-- are right all the same.
function ber.unsigned(contents, most)
  local digits = contents:gsub("^\0+", "")
  if #contents == 0 or #digits > (most or 8) then broken(string.format("a number has %d bytes", #contents)) end
  return digits == "" and 0 or (string.unpack(">I" .. #digits, digits))
end

-- Decodes the contents of an object identifier: "1.3.6.1".
function ber.identifier(contents)
  if contents == "" then return "0.0" end
  local parts, part, begun = {}, 0, false
  for at = 1, #contents do
    local byte = contents:byte(at)
    if not begun and byte == 0x80 then broken("an object identifier has an empty part") end
    part, begun = part << 7 | byte & 0x7f, byte >= 0x80
    if part > LARGEST_PART then broken("a part of an object identifier has more than 32 bits") end
    if not begun then
      if #parts == MOST_PARTS then broken("an object identifier has too many parts") end
      if #parts == 0 then
        parts[1] = math.min(part // 40, 2)
        part = part - parts[1] * 40
      end
      parts[#parts + 1], part = part, 0
    end
  end
  if begun then broken("an object identifier ends too early") end
  return table.concat(parts, ".")
end

return ber
