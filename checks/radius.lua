local check = {
  summary = "A RADIUS server: it answers, with the right shared secret, and accepts an account",
  needs = { "udp", "crypto" },
  timeout = "30s",
  args = {
    host = { type = "string", default = "localhost", help = "name or address" },
    port = { type = "integer", default = 1812, min = 1, max = 65535, help = "the port" },
    secret = { type = "string", required = true, help = "the shared secret of this client: { secret = \"NAME\" }" },
    user = { type = "string", help = "an account to log in (PAP); without one the server is asked for its status (RFC 5997)" },
    password = { type = "string", help = "its password: { secret = \"NAME\" }" },
    expect = { type = "string", default = "accept", choices = { "accept", "reject" }, help = "the right answer; reject is for an account that must not get in" },
    warn = { type = "range", default = "1", help = "seconds for the answer" },
    crit = { type = "range", default = "5", help = "seconds for the answer" },
  },
}

local REQUEST, ACCEPT, REJECT, CHALLENGE, STATUS = 1, 2, 3, 11, 12
local WORDS = { [ACCEPT] = "accept", [REJECT] = "reject", [CHALLENGE] = "a challenge" }
local USER_NAME, USER_PASSWORD, REPLY_MESSAGE, NAS_IDENTIFIER, MESSAGE_AUTHENTICATOR = 1, 2, 18, 32, 80
-- Datagrams get lost: as many questions, with as many seconds for each.
local TRIES, SECONDS = 3, 5

local function digits(answer, code, text)
  if not answer then require("faults").fail(code, text) end
  return require("bytes").of(answer)
end

local function attribute(kind, value)
  return string.pack("BB", kind, #value + 2) .. value
end

-- Hides a password (RFC 2865, 5.2): blocks of 16 bytes, each with the digest of the secret and the block before.
local function hidden(host, secret, password, authenticator)
  local bytes, parts, before = require "bytes", {}, authenticator
  password = password .. ("\0"):rep(-#password % 16)
  if password == "" then password = ("\0"):rep(16) end
  for at = 1, #password, 16 do
    before = bytes.xor(password:sub(at, at + 15), digits(host.crypto.digest("md5", secret .. before)))
    parts[#parts + 1] = before
  end
  return table.concat(parts)
end

-- Returns the request, whose Message-Authenticator comes first: a server may want it, against forged answers (BlastRADIUS).
local function request_of(args, host, identifier, authenticator)
  local body = attribute(NAS_IDENTIFIER, "monitoring")
  if args.user then
    body = attribute(USER_NAME, args.user) .. attribute(USER_PASSWORD, hidden(host, args.secret, args.password or "", authenticator)) .. body
  end
  local code, length = args.user and REQUEST or STATUS, 20 + 18 + #body
  local function packet(proof)
    return string.pack(">BBI2", code, identifier, length) .. authenticator .. attribute(MESSAGE_AUTHENTICATOR, proof) .. body
  end
  return packet(digits(host.crypto.hmac("md5", args.secret, packet(("\0"):rep(16)))))
end

-- Reads the attributes of an answer. Returns its message for people, and the position of its Message-Authenticator; or nil.
local function attributes_of(answer)
  local at, message, proof = 21, nil, nil
  while at <= #answer do
    local kind, length = answer:byte(at, at + 1)
    if not length or length < 2 or at + length - 1 > #answer then return nil end
    local value = answer:sub(at + 2, at + length - 1)
    if kind == REPLY_MESSAGE then message = (message or "") .. value end
    if kind == MESSAGE_AUTHENTICATOR and length == 18 then proof = at + 2 end
    at = at + length
  end
  return message or "", proof
end

-- True if whoever sent the answer knows the shared secret.
local function is_signed(host, secret, answer, authenticator, proof)
  local sum = digits(host.crypto.digest("md5", answer:sub(1, 4) .. authenticator .. answer:sub(21) .. secret))
  if sum ~= answer:sub(5, 20) then return false end
  if not proof then return true end
  local blank = answer:sub(1, 4) .. authenticator .. answer:sub(21, proof - 1) .. ("\0"):rep(16) .. answer:sub(proof + 16)
  return digits(host.crypto.hmac("md5", secret, blank)) == answer:sub(proof, proof + 15)
end

-- Asks until an answer comes. Returns its bytes and the seconds it took; or fails.
local function exchange(args, host, packet)
  local bytes, code, text = require "bytes", nil, nil
  for _ = 1, TRIES do
    local answer
    answer, code, text = host.udp { host = args.host, port = args.port, send = bytes.hex(packet), hex = true, timeout = SECONDS }
    if answer then return bytes.of(answer.received), answer.seconds end
    if code ~= "timeout" then require("faults").fail(code, text) end
  end
  text = string.format("%s does not answer %d questions: it is down, or this host is none of its clients", args.host, TRIES)
  require("faults").fail("timeout", text)
end

-- Returns the code of the answer, its message, and the seconds it took.
local function asked(args, host)
  local faults = require "faults"
  local random = digits(host.crypto.random(17))
  local identifier, authenticator = random:byte(17), random:sub(1, 16)
  local answer, seconds = exchange(args, host, request_of(args, host, identifier, authenticator))
  if #answer < 20 or string.unpack(">I2", answer, 3) > #answer or string.unpack(">I2", answer, 3) < 20 then
    faults.fail("protocol", args.host .. " sends no RADIUS answer")
  end
  answer = answer:sub(1, string.unpack(">I2", answer, 3))
  if answer:byte(2) ~= identifier then faults.fail("protocol", args.host .. " answers another question") end
  local message, proof = attributes_of(answer)
  if not message then faults.fail("protocol", args.host .. " sends broken attributes") end
  if not is_signed(host, args.secret, answer, authenticator, proof) then
    faults.fail("secret", args.host .. " signs its answer with another shared secret")
  end
  return answer:byte(1), message, seconds
end

function check.run(args, host)
  local words, faults, worse = require "words", require "faults", require("status").worse
  if #args.secret == 0 or #(args.user or "") > 250 or #(args.password or "") > 128 then
    return "unknown", "the shared secret is empty, the user longer than 250 bytes, or the password longer than 128"
  end
  local code, message, seconds = faults.guarded(asked, args, host)
  if not code then
    if message == "denied" or message == "bad-arguments" or message == "budget" then return "unknown", seconds end
    return "critical", seconds
  end
  local labels = { host = args.host, port = tostring(args.port) }
  local status = host.metric("time", seconds, { unit = "s", warn = args.warn, crit = args.crit, min = 0, labels = labels })
  local said = message ~= "" and ": " .. message:sub(1, 100) or ""
  if not WORDS[code] then return "critical", string.format("the server answers with the code %d, which is none of a login", code) end
  if not args.user then
    if code ~= ACCEPT then return worse(status, "critical"), string.format("the server answers %s to a question for its status%s", WORDS[code], said) end
    return status, string.format("it answers in %s", words.duration(seconds))
  end
  local summary = string.format("%s for %s%s, in %s", WORDS[code], args.user, said, words.duration(seconds))
  return WORDS[code] == args.expect and status or "critical", summary
end

return check
