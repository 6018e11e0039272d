-- Reads the tables of SNMP that checks share: interfaces (IF-MIB, RFC 2863).
local snmp = require "snmp"

local tables = {}

local UPTIME = snmp.UPTIME:sub(1, -3)
local IF, IFX = "1.3.6.1.2.1.2.2.1.", "1.3.6.1.2.1.31.1.1.1."
local ADMIN, OPER, NAME, ALIAS, MEGABITS, MARK = IF .. 7, IF .. 8, IFX .. 1, IFX .. 18, IFX .. 15, IFX .. 19
local IN64, OUT64 = IFX .. 6, IFX .. 10
local DESCRIPTION, BITS, IN32, OUT32 = IF .. 2, IF .. 5, IF .. 10, IF .. 16
local FAULTS = { errors_in = IF .. 14, errors_out = IF .. 20, discards_in = IF .. 13, discards_out = IF .. 19 }
local WIDE = { OPER, ADMIN, NAME, ALIAS, MEGABITS, MARK, IN64, OUT64, FAULTS.errors_in, FAULTS.errors_out, FAULTS.discards_in, FAULTS.discards_out }
-- Version 1 has no 64-bit counters.
local NARROW = { OPER, ADMIN, DESCRIPTION, BITS, IN32, OUT32, FAULTS.errors_in, FAULTS.errors_out, FAULTS.discards_in, FAULTS.discards_out }
local OLD = { DESCRIPTION, BITS, IN32, OUT32 }
local STATES = { "up", "down", "testing", "unknown", "dormant", "not present", "down (a lower layer is down)" }

-- True if an interface that is up has no 64-bit counter, as slow ones and old devices have.
local function lacks_wide(found)
  for index, oper in pairs(found[OPER]) do
    if oper.value == 1 and not (found[IN64][index] and found[OUT64][index] and found[NAME][index]) then return true end
  end
  return false
end

local function speed(found, index)
  local megabits, bits = found[MEGABITS] and found[MEGABITS][index], found[BITS] and found[BITS][index]
  local value = megabits and (snmp.number(megabits) or 0) * 1000000 or 0
  -- The small field stands at its largest value where the speed does not fit into it.
  if value == 0 and bits and bits.value ~= 4294967295 then value = snmp.number(bits) or 0 end
  return value > 0 and value or nil
end

-- Returns the name of an interface: another one for each.
local function named(found, index, taken)
  local entry = found[NAME] and found[NAME][index] or found[DESCRIPTION] and found[DESCRIPTION][index]
  local name = entry and snmp.text(entry) or ""
  if name == "" then name = "interface " .. index end
  if taken[name] then name = name .. " #" .. index end
  taken[name] = true
  return name
end

local function interface(found, index, taken)
  local oper, admin = found[OPER][index].value, found[ADMIN][index]
  local function counter(wide, narrow)
    local entry = found[wide] and found[wide][index] or found[narrow] and found[narrow][index]
    return entry and math.type(entry.value) == "integer" and entry or nil
  end
  local one = {
    index = index, name = named(found, index, taken), is_up = oper == 1, is_off = admin ~= nil and admin.value == 2,
    state = STATES[oper] or "in an unknown state", speed = speed(found, index),
    octets_in = counter(IN64, IN32), octets_out = counter(OUT64, OUT32),
  }
  local mark = found[MARK] and found[MARK][index]
  one.mark = mark and mark.value ~= 0 and mark.value or nil
  for name, column in pairs(FAULTS) do one[name] = counter(column) end
  return one
end

-- Returns the interfaces of a device in its order, and its uptime in hundredths of a second or nil: { index, name, is_up, is_off,
-- state, speed (bits a second) or nil, octets_in, octets_out, errors_in, errors_out, discards_in, discards_out, mark }.
function tables.interfaces(session, most)
  local found, heads = session:walk(session.version == "1" and NARROW or WIDE, most, { UPTIME })
  if session.version ~= "1" and lacks_wide(found) then
    for column, rows in pairs(session:walk(OLD, most)) do found[column] = rows end
  end
  local list, taken = {}, {}
  for _, index in ipairs(snmp.indexes(found[OPER])) do list[#list + 1] = interface(found, index, taken) end
  return list, heads[UPTIME] and heads[UPTIME].value
end

return tables
