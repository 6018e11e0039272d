-- Speaks the protocol of MongoDB (OP_MSG, since 3.6): a login by SCRAM, and commands.
local bson, scram, stream = require "bson", require "scram", require "stream"

local mongo = {}

local OP_MSG = 2013
-- The status of a server has some dozen KiB.
local LONGEST = 524288
local MOST_STEPS = 4

-- Runs a command. Returns its answer, or fails with the server's own words.
function mongo.command(connection, database, document)
  connection.turn = (connection.turn or 0) + 1
  document[#document + 1] = { "$db", database }
  local body = string.pack("<I4B", 0, 0) .. bson.encode(document)
  connection:send(string.pack("<I4I4I4I4", #body + 16, connection.turn, 0, OP_MSG) .. body)
  local length, _, to, code = string.unpack("<I4I4I4I4", connection:take(16))
  if code ~= OP_MSG or to ~= connection.turn or length < 26 or length > LONGEST then stream.fail("protocol", "that is no MongoDB server, or one before 3.6") end
  local answer = connection:take(length - 16)
  if answer:byte(5) ~= 0 then stream.fail("protocol", "the server answers with more than one document") end
  local found = bson.decode(answer:sub(6))
  if found.ok == 1 then return found end
  local why = type(found.errmsg) == "string" and found.errmsg or "no reason is given"
  stream.fail("failed", string.format("the server refuses %s: %s", document[1][1], why))
end

local function payload_of(answer)
  if type(answer.payload) ~= "string" then stream.fail("protocol", "the server breaks off the login") end
  return answer.payload
end

-- Logs in. login: user, password, database (where the account lies). `mechanisms` are those of the account, if the server tells them.
function mongo.log_in(connection, host, login, mechanisms)
  local newer = mechanisms == nil
  for _, one in ipairs(mechanisms or {}) do newer = newer or one == "SCRAM-SHA-256" end
  local password = login.password
  if not newer then -- the older proof is of a digest
    local sum, code, text = host.crypto.digest("md5", login.user .. ":mongo:" .. password)
    if not sum then stream.fail(code, text) end
    password = sum
  end
  local proof = scram.begin(host, newer and "sha256" or "sha1", login.user)
  local answer = mongo.command(connection, login.database, {
    { "saslStart", 1 }, { "mechanism", newer and "SCRAM-SHA-256" or "SCRAM-SHA-1" }, { "payload", bson.binary(proof.first) },
    { "options", { { "skipEmptyExchange", true } } },
  })
  local id = math.tointeger(answer.conversationId)
  if not id then stream.fail("protocol", "the server breaks off the login") end
  local function go_on(text)
    return mongo.command(connection, login.database, { { "saslContinue", 1 }, { "conversationId", id }, { "payload", bson.binary(text) } })
  end
  answer = go_on(scram.answer(proof, password, payload_of(answer)))
  scram.finish(proof, payload_of(answer))
  for _ = 1, MOST_STEPS do
    if answer.done == true then return end
    answer = go_on("")
  end
  stream.fail("protocol", "the server does not end the login")
end

-- Connects. where: host, port; how: tls, ca. Returns the connection.
function mongo.connect(host, where, how, seconds)
  local connection = stream.open(host.tcp, where, seconds)
  if how.tls ~= "off" then connection:secure(how.tls, how.ca) end
  return connection
end

return mongo
