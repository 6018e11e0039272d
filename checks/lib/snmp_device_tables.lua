-- Reads what devices tell of themselves by SNMP: processors and storage (HOST-RESOURCES-MIB, RFC 2790), and sensors
-- (ENTITY-SENSOR-MIB, RFC 3433). What a device lacks is an empty list.
local snmp = require "snmp"

local tables = {}

local LOAD = "1.3.6.1.2.1.25.3.3.1.2"
local STORAGE = "1.3.6.1.2.1.25.2.3.1."
local KIND, DESCRIPTION, UNIT, SIZE, USED = STORAGE .. 2, STORAGE .. 3, STORAGE .. 4, STORAGE .. 5, STORAGE .. 6
local KINDS = { ["1.3.6.1.2.1.25.2.1.2"] = "memory", ["1.3.6.1.2.1.25.2.1.4"] = "storage", ["1.3.6.1.2.1.25.2.1.9"] = "storage" }
local SENSOR = "1.3.6.1.2.1.99.1.1.1."
local TYPE, SCALE, PRECISION, VALUE, STATE = SENSOR .. 1, SENSOR .. 2, SENSOR .. 3, SENSOR .. 4, SENSOR .. 5
local ENTITY_NAME = "1.3.6.1.2.1.47.1.1.1.1.7."
-- Names that one request asks for.
local AT_ONCE = 12
-- By the number of a sensor's type: the metric and its unit.
local SENSORS = {
  [3] = { "voltage", "V" }, [4] = { "voltage", "V" }, [5] = { "current", "A" }, [6] = { "power", "W" }, [7] = { "frequency", "Hz" },
  [8] = { "temperature", "Cel" }, [9] = { "humidity", "%" }, [10] = { "fan", "rpm" }, [11] = { "flow", "m3/min" },
}
-- The scale 9 is that of the unit itself, and each step a factor of 1000.
local UNSCALED, BROKEN, WORKS = 9, 3, 1

-- Returns the loads of the processors in percent.
function tables.processors(session, most)
  local rows, list = session:walk({ LOAD }, most)[LOAD], {}
  for _, index in ipairs(snmp.indexes(rows)) do
    local load = snmp.number(rows[index])
    if load and load >= 0 and load <= 100 then list[#list + 1] = load end
  end
  return list
end

-- Returns a number of blocks. Large disks overflow the 31 bits of these fields in some devices, and then are negative.
local function blocks(entry)
  local value = snmp.number(entry)
  return math.type(value) == "integer" and value & 0xffffffff or nil
end

-- Returns the fixed disks, flash and memory: { name, kind ("storage" or "memory"), used_percent }.
function tables.storage(session, most)
  local found, list = session:walk({ KIND, DESCRIPTION, UNIT, SIZE, USED }, most), {}
  for _, index in ipairs(snmp.indexes(found[KIND])) do
    local kind = KINDS[found[KIND][index].value]
    local size, used, name = blocks(found[SIZE][index]), blocks(found[USED][index]), found[DESCRIPTION][index]
    if kind and name and size and used and size > 0 then
      list[#list + 1] = { name = snmp.text(name), kind = kind, used_percent = used * 100 / size }
    end
  end
  return list
end

-- Returns the names of the sensors with these indexes, by index.
local function names(session, indexes)
  local found = {}
  for first = 1, #indexes, AT_ONCE do
    local oids = {}
    for at = first, math.min(first + AT_ONCE - 1, #indexes) do oids[#oids + 1] = ENTITY_NAME .. indexes[at] end
    for oid, entry in pairs(session:get(oids)) do
      found[oid:sub(#ENTITY_NAME + 1)] = type(entry.value) == "string" and entry.value ~= "" and snmp.text(entry) or nil
    end
  end
  return found
end

local function reading(found, index)
  local value, scale, precision = snmp.number(found[VALUE][index]), snmp.number(found[SCALE][index]), snmp.number(found[PRECISION][index])
  if not value or math.abs((scale or UNSCALED) - UNSCALED) > 8 or math.abs(precision or 0) > 9 then return nil end
  return value * 10.0 ^ (3 * ((scale or UNSCALED) - UNSCALED) - (precision or 0))
end

-- Returns the sensors: { name, kind, unit, value or nil, is_broken }.
function tables.sensors(session, most)
  local found, list = session:walk({ TYPE, SCALE, PRECISION, VALUE, STATE }, most), {}
  local indexes = snmp.indexes(found[TYPE])
  local called = names(session, indexes)
  for _, index in ipairs(indexes) do
    local sort, state = SENSORS[found[TYPE][index].value], found[STATE][index]
    local works = not state or state.value == WORKS
    if sort then
      list[#list + 1] = {
        name = called[index] or "sensor " .. index, kind = sort[1], unit = sort[2], is_broken = state ~= nil and state.value == BROKEN,
        value = works and reading(found, index) or nil,
      }
    end
  end
  return list
end

return tables
