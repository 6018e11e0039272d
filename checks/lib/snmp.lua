-- Asks devices by SNMP for single values and tables (RFC 1157, RFC 3416). Failures are raised (faults.lua). Tables are read
-- in snmp_walk.lua, version 3 is in snmp_v3.lua.
local ber, bytes, faults, pdu = require "ber", require "bytes", require "faults", require "snmp_pdu"

local snmp = { ABSENT = pdu.ABSENT, number = pdu.number, UPTIME = "1.3.6.1.2.1.1.3.0" }
local Session, Community = {}, {}
Session.__index, Community.__index = Session, Community

-- Failures that say nothing about the device.
local OURS = { denied = true, ["bad-arguments"] = true, unsupported = true, budget = true, ["too-large"] = true }
local VERSIONS = { ["1"] = 0, ["2c"] = 1 }

-- Versions 1 and 2c: the community stands in each message as it is -------------------------------------------------

function Community:seal(body)
  return ber.element(ber.SEQUENCE, ber.integer(self.number), ber.element(ber.TEXT, self.community), body)
end

function Community:open(data)
  local message = ber.reader(data):inside()
  if message:integer() ~= self.number then faults.fail("protocol", "the answer has another version of SNMP") end
  if message:take(ber.TEXT) ~= self.community then faults.fail("protocol", "the answer has another community") end
  return pdu.decode(message)
end

-- Does nothing: version 3 has to learn first who the device is.
function Community.prepare() end

-- The session -------------------------------------------------------------------------------------------------------

-- Opens a session with the device of the arguments `args` of a check, which has those that docs/checks.rst lists for SNMP.
function snmp.open(host, args)
  local session = setmetatable({ host = host, args = args, name = args.host, version = args.version, datagrams = 0 }, Session)
  local random, code, text = host.crypto.random(4)
  if not random then faults.fail(code, text) end
  session.id = string.unpack(">I4", bytes.of(random)) & 0x3fffffff
  if args.version == "3" then
    session.security = require("snmp_v3").open(session, host, args)
  else
    session.security = setmetatable({ number = VERSIONS[args.version], community = args.community }, Community)
  end
  return session
end

-- Sends one datagram and returns the bytes of the answer; nil and a failure if none came.
function Session:exchange(data)
  local args, host = self.args, self.host
  self.datagrams = self.datagrams + 1
  local answer, code, text = host.udp { host = args.host, port = args.port, send = bytes.hex(data), hex = true, timeout = args.wait }
  if answer then return bytes.of(answer.received) end
  if code ~= "timeout" then faults.fail(code, text) end
  return nil, code, text
end

-- Returns the decoded answer with the id that was asked for, or nil and the failure of this attempt.
function Session:_attempt(kind, oids, first, second)
  self.id = self.id + 1
  local body = pdu.encode(kind, self.id, oids, first, second)
  local data, code, text = self:exchange(self.security:seal(body))
  if not data then return nil, code, text end
  local answer
  answer, code, text = faults.guarded(self.security.open, self.security, data)
  if not answer then return nil, code, text end
  if answer.kind ~= pdu.RESPONSE or answer.id ~= self.id then return nil, "protocol", "it answers another request" end
  answer.size = #data
  return answer
end

-- Sends a request until it is answered, `tries` times at most. Where an answer has only told who the device is, or its time
-- (code "again"), the request is sent again at once, twice at most.
function Session:request(kind, oids, first, second, tries)
  self.security:prepare()
  local left, again = tries or self.args.retries + 1, 2
  local answer, code, text
  while left > 0 do
    answer, code, text = self:_attempt(kind, oids, first, second)
    if answer then return answer end
    if code == "again" and again > 0 then
      again = again - 1
    elseif code == "timeout" or code == "protocol" or code == "again" then
      left = left - 1
    else
      faults.fail(code, text)
    end
  end
  return self:_no_answer(code, text)
end

function Session:_no_answer(code, text)
  if code == "timeout" then
    local tries = require("words").count(self.args.retries + 1, "time", "times")
    local other = self.version == "3" and "privacy_password" or "community"
    faults.fail("timeout", string.format("%s, asked %s; nor does a device that has another %s", text, tries, other))
  end
  faults.fail("protocol", string.format("%s: %s", self.name, text))
end

function Session:refused(answer)
  faults.fail("failed", string.format("%s refuses: %s", self.name, pdu.error_name(answer.status)))
end

-- Returns the values of `oids` by OID: { type, value }. Of what is not there the type is one of snmp.ABSENT.
function Session:get(oids)
  local found, open = {}, table.move(oids, 1, #oids, 1, {})
  while #open > 0 do
    local answer = self:request(pdu.GET, open)
    if answer.status == 0 then
      for at, entry in ipairs(answer.bindings) do
        if entry.oid ~= open[at] then faults.fail("protocol", self.name .. " answers with values that were not asked for") end
        found[entry.oid] = entry
      end
      if #answer.bindings ~= #open then faults.fail("protocol", self.name .. " leaves values out") end
      return found
    end
    -- Version 1 has no other word for a value that is not there, and then tells none of the others.
    if answer.status ~= 2 or answer.index < 1 or answer.index > #open then self:refused(answer) end
    local oid = table.remove(open, answer.index)
    found[oid] = { oid = oid, type = "no-object" }
  end
  return found
end

-- For people ----------------------------------------------------------------------------------------------------------

-- Returns the status and the summary of a check that could not ask.
function snmp.verdict(code, text)
  return OURS[code] and "unknown" or "critical", text
end

-- Returns a value as a text: bytes that are none as hexadecimal digits, as of 00:1a:2b:3c:4d:5e.
function snmp.text(entry)
  local value = entry.value
  if type(value) ~= "string" then return tostring(value) end
  value = value:gsub("[%z%s]+$", "")
  if utf8.len(value) and not value:find("[%c]") then return value end
  local digits = entry.value:sub(1, 32):gsub(".", function(byte) return string.format("%02x:", byte:byte()) end)
  return digits:sub(1, -2)
end

-- Returns the indexes of rows in the order of the device.
function snmp.indexes(rows)
  local found, parts = {}, {}
  for index, entry in pairs(rows) do
    found[#found + 1] = index
    parts[index] = ber.parts(entry.oid)
  end
  table.sort(found, function(one, other)
    local left, right = parts[one], parts[other]
    for at = 1, math.min(#left, #right) do
      if left[at] ~= right[at] then return left[at] < right[at] end
    end
    return #left < #right
  end)
  return found
end

-- Reads the columns of a table and single values (`heads`) with it: see snmp_walk.lua.
function Session:walk(columns, most, heads)
  return require("snmp_walk").run(self, columns, most, heads or {})
end

return snmp
