-- Speaks version 3 of SNMP: learns who the device is and its time, proves and encrypts (RFC 3412, RFC 3414). Keys and ciphers are in
-- snmp_keys.lua; used by snmp.lua.
local ber, bytes, faults, pdu = require "ber", require "bytes", require "faults", require "snmp_pdu"

local v3 = {}
local Engine = {}
Engine.__index = Engine

local PROVED, ENCRYPTED, REPORTABLE = 1, 2, 4
local USER_SECURITY = 3
-- Bytes of an answer that this side takes: a device cuts its answers to this size.
local MOST_ANSWER = 1472
-- An older answer than this many seconds is a copy of one.
local WINDOW = 150
-- Under this name host.state keeps who the device is: it need not be asked each time.
local KEPT = "snmp engine"
local LARGEST = 2147483647

-- What a report says, by the last part of its OID below usmStats (RFC 3414, 5).
local STATS = "1.3.6.1.6.3.15.1.1."
local NOT_IN_TIME, UNKNOWN_ENGINE = "2", "4"
local REFUSALS = {
  ["1"] = "the device does not give this user such a security level: auth_password and privacy_password must both be given, or be left out",
  ["3"] = "the device does not know this user",
  ["5"] = "the device does not accept the proof: auth or auth_password is another one",
  ["6"] = "the device can't decrypt the request: privacy or privacy_password is another one",
}

-- Returns the security of a session for the arguments of a check.
function v3.open(session, host, args)
  local made = { session = session, host = host, args = args, keys = require("snmp_keys").open(host, args) }
  made.id, made.boots, made.time, made.at = "", 0, 0, host.now()
  return setmetatable(made, Engine)
end

-- Who the device is, and its time ---------------------------------------------------------------------------------------

function Engine:_set(id, boots, time, is_proved)
  if id ~= self.id then self.keys:localize(id) end
  self.id, self.boots, self.time, self.at, self.is_proved = id, boots, time, self.host.now(), is_proved
end

-- Returns the device's time now, by its last answer.
function Engine:_now()
  return math.max(0, math.min(LARGEST, self.time + math.floor(self.host.now() - self.at)))
end

-- Takes what the last run has kept, or asks the device, which answers to an unknown engine with its own id and time.
function Engine:prepare()
  if self.id ~= "" then return end
  local kept = self.host.state.get(KEPT)
  if kept then
    self:_set(bytes.of(kept.id), kept.boots, kept.time, true)
    self.at = kept.at
    return
  end
  local code, text
  for _ = 0, self.args.retries do
    local data, done
    data, code, text = self.session:exchange(self:_message("", 0, 0, "", REPORTABLE, self:_scoped("", pdu.encode(pdu.GET, 0, {}))))
    if data then done, code, text = faults.guarded(self.open, self, data) end
    if code == "again" then return end
    if done then code, text = "protocol", "it answers without telling who it is" end
  end
  if code == "timeout" then faults.fail(code, string.format("%s, asked %s", text, require("words").count(self.args.retries + 1, "time", "times"))) end
  faults.fail(code, self.session.name .. ": " .. text)
end

-- Keeps the time of a proved answer for the next run, once in a run.
function Engine:_keep()
  if self.is_kept then return end
  self.is_kept = true
  self.host.state.put(KEPT, { id = bytes.hex(self.id), boots = self.boots, time = self.time, at = self.at })
end

-- Messages --------------------------------------------------------------------------------------------------------------

function Engine:_scoped(id, body)
  return ber.element(ber.SEQUENCE, ber.element(ber.TEXT, id), ber.element(ber.TEXT, self.args.context), body)
end

function Engine:_message(id, boots, time, user, flags, data, proof, salt)
  local head = ber.element(ber.SEQUENCE, ber.integer(self.session.id), ber.integer(MOST_ANSWER),
    ber.element(ber.TEXT, string.char(flags)), ber.integer(USER_SECURITY))
  local security = ber.element(ber.SEQUENCE, ber.element(ber.TEXT, id), ber.integer(boots), ber.integer(time),
    ber.element(ber.TEXT, user), ber.element(ber.TEXT, proof or ""), ber.element(ber.TEXT, salt or ""))
  return ber.element(ber.SEQUENCE, ber.integer(3), head, ber.element(ber.TEXT, security), data)
end

function Engine:seal(body)
  local keys, boots, time, flags, salt = self.keys, self.boots, self:_now(), REPORTABLE, nil
  local data = self:_scoped(self.id, body)
  if keys.privacy then
    local secret
    secret, salt = keys:encrypt(data, boots, time)
    data, flags = ber.element(ber.TEXT, secret), flags | ENCRYPTED
  end
  if not keys.auth then return self:_message(self.id, boots, time, self.args.user, flags, data) end
  local function with(proof) return self:_message(self.id, boots, time, self.args.user, flags | PROVED, data, proof, salt) end
  return with(keys:proof(with(("\0"):rep(keys.proof_size))))
end

-- Returns the fields of a message, and the reader that stands before its data.
local function fields(data, id)
  local message = ber.reader(data):inside()
  if message:integer() ~= 3 then faults.fail("protocol", "the answer has another version of SNMP") end
  local head = message:inside()
  if head:integer() ~= id then faults.fail("protocol", "it answers another message") end
  head:integer()
  local flags, model = head:take(ber.TEXT), head:integer()
  if #flags ~= 1 or model ~= USER_SECURITY then faults.fail("protocol", "the answer has another security model") end
  local inner = message:inside(ber.TEXT):inside()
  local found = { flags = flags:byte(), id = inner:take(ber.TEXT), boots = inner:integer(), time = inner:integer() }
  found.user = inner:take(ber.TEXT)
  found.proof, found.place = inner:take(ber.TEXT)
  found.salt = inner:take(ber.TEXT)
  if #found.id > 32 or math.min(found.boots, found.time) < 0 or math.max(found.boots, found.time) > LARGEST then
    faults.fail("protocol", "the answer has impossible security fields")
  end
  return found, message
end

-- True if the message has the device's proof. One that claims to and has another is no answer.
function Engine:_is_proved(found, data)
  if found.flags & PROVED == 0 then return false end
  if not self.keys.auth_key or found.id ~= self.id or #found.proof ~= self.keys.proof_size then
    faults.fail("protocol", "the answer is proved by another key")
  end
  local bare = data:sub(1, found.place - 1) .. ("\0"):rep(#found.proof) .. data:sub(found.place + #found.proof)
  if self.keys:proof(bare) ~= found.proof then faults.fail("protocol", "the answer's proof is wrong") end
  return true
end

-- Takes the time of a proved answer, unless that is a copy of an old one.
function Engine:_take_time(found, is_report)
  local is_older = found.boots < self.boots or (found.boots == self.boots and found.time < self:_now() - WINDOW)
  if self.is_proved and is_older and not is_report then faults.fail("protocol", "the answer is a copy of an old one") end
  self:_set(self.id, found.boots, found.time, true)
end

-- Judges a report: raises "again" if it tells what was missing, else the sentence that it means.
function Engine:_report(found, answer, is_proved)
  local oid = answer.bindings[1] and answer.bindings[1].oid or ""
  local number = oid:sub(1, #STATS) == STATS and oid:sub(#STATS + 1):match("^(%d+)%.0$")
  if number == UNKNOWN_ENGINE and #found.id >= 5 then
    self:_set(found.id, found.boots, found.time, false)
    faults.fail("again", "the device says each time that it is another one")
  elseif number == NOT_IN_TIME and self.id ~= "" and (is_proved or not self.keys.auth) then
    self:_take_time(found, true)
    faults.fail("again", "the device's time changes with each answer")
  elseif REFUSALS[number] and self.id ~= "" then
    faults.fail("failed", self.session.name .. ": " .. REFUSALS[number])
  end
  faults.fail("protocol", "it reports " .. (oid == "" and "nothing" or oid))
end

-- Decodes and judges an answer: returns its PDU, or raises a failure.
function Engine:open(data)
  local found, message = fields(data, self.session.id)
  local is_proved = self:_is_proved(found, data)
  if found.flags & ENCRYPTED ~= 0 then
    if not is_proved or not self.keys.privacy then faults.fail("protocol", "the answer is encrypted, and should not be") end
    message = ber.reader(self.keys:decrypt((message:take(ber.TEXT)), found.salt, found.boots, found.time))
  end
  local scoped = message:inside()
  scoped:take(ber.TEXT)
  scoped:take(ber.TEXT)
  local answer = pdu.decode(scoped)
  if answer.kind == pdu.REPORT then self:_report(found, answer, is_proved) end
  if self.keys.auth and not is_proved then faults.fail("protocol", "the answer is not proved") end
  if self.keys.privacy and found.flags & ENCRYPTED == 0 then faults.fail("protocol", "the answer is not encrypted") end
  if is_proved then
    self:_take_time(found)
    self:_keep()
  end
  return answer
end

return v3
