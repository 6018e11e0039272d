-- Encodes and decodes the PDUs of SNMP, version 1 and 2 (RFC 1157, RFC 3416), and the values in them. Pure; no host.
local ber, faults = require "ber", require "faults"

local pdu = {
  GET = 0xa0, NEXT = 0xa1, RESPONSE = 0xa2, BULK = 0xa5, REPORT = 0xa8,
}

-- Types of values that tell that there is none: there is no such object, none with this index, nothing behind it.
pdu.ABSENT = { ["no-object"] = true, ["no-instance"] = true, ["end"] = true }

local ERRORS = {
  "tooBig", "noSuchName", "badValue", "readOnly", "genErr", "noAccess", "wrongType", "wrongLength", "wrongEncoding", "wrongValue",
  "noCreation", "inconsistentValue", "resourceUnavailable", "commitFailed", "undoFailed", "authorizationError", "notWritable",
  "inconsistentName",
}

local function address(contents)
  if #contents ~= 4 then faults.fail("protocol", "an address has " .. #contents .. " bytes") end
  return string.format("%d.%d.%d.%d", contents:byte(1, 4))
end

-- Returns the number of a float in an Opaque (net-snmp's extension), else the bytes as they are.
local function opaque(contents)
  if contents:sub(1, 3) == "\x9f\x78\x04" and #contents == 7 then return (string.unpack(">f", contents, 4)) end
  if contents:sub(1, 3) == "\x9f\x79\x08" and #contents == 11 then return (string.unpack(">d", contents, 4)) end
  return contents
end

local function whole(contents) return ber.unsigned(contents, 4) end

local function same(contents) return contents end
local function nothing() return nil end

local TYPES = {
  [0x02] = { "integer", ber.signed }, [0x04] = { "text", same }, [0x05] = { "null", nothing }, [0x06] = { "oid", ber.identifier },
  [0x40] = { "address", address }, [0x41] = { "counter32", whole }, [0x42] = { "gauge", whole },
  [0x43] = { "ticks", whole }, [0x44] = { "opaque", opaque }, [0x46] = { "counter64", ber.unsigned },
  [0x47] = { "gauge", whole }, [0x80] = { "no-object", nothing }, [0x81] = { "no-instance", nothing }, [0x82] = { "end", nothing },
}

-- Returns the bytes of a request for the values of `oids`. `first` and `second` are 0, or of BULK the number of
-- leading OIDs that are asked for once, and how often the others are.
function pdu.encode(kind, id, oids, first, second)
  local bindings = {}
  for at, oid in ipairs(oids) do bindings[at] = ber.element(ber.SEQUENCE, ber.oid(oid), ber.element(ber.NULL)) end
  return ber.element(kind, ber.integer(id), ber.integer(first or 0), ber.integer(second or 0),
    ber.element(ber.SEQUENCE, table.unpack(bindings)))
end

local function binding(reader)
  local pair = reader:inside()
  local oid = ber.identifier((pair:take(ber.OID)))
  local tag, contents = pair:next()
  local known = TYPES[tag]
  if not known then faults.fail("protocol", string.format("a value has the unknown type %02x", tag)) end
  local value = known[2](contents)
  -- A finite number is all that can be judged; what else a float is says nothing.
  if type(value) == "number" and (value ~= value or math.abs(value) == math.huge) then known, value = TYPES[0x05], nil end
  return { oid = oid, type = known[1], value = value }
end

-- Decodes one PDU: { kind, id, status, index, bindings = { { oid, type, value } } }.
function pdu.decode(reader)
  local kind, contents = reader:next()
  if kind ~= pdu.RESPONSE and kind ~= pdu.REPORT then faults.fail("protocol", string.format("a PDU of the kind %02x is no answer", kind)) end
  local inner = ber.reader(contents)
  local found = { kind = kind, id = inner:integer(), status = inner:integer(), index = inner:integer(), bindings = {} }
  local list = inner:inside()
  while not list:is_done() do found.bindings[#found.bindings + 1] = binding(list) end
  return found
end

-- Returns the name of an error status.
function pdu.error_name(status)
  return ERRORS[status] or "error " .. status
end

-- Returns a number of the value, or nil. Counters from 2^63 on become floats.
function pdu.number(entry)
  local value = entry and entry.value
  if type(value) ~= "number" then return nil end
  return entry.type == "counter64" and value < 0 and value + 18446744073709551616.0 or value
end

return pdu
