-- Speaks PostgreSQL's protocol, version 3.0: a login and simple queries. A login proves the password (SCRAM-SHA-256,
-- MD5), and sends it only where no other host can read it.
local scram, stream = require "scram", require "stream"

local postgres = {}

local VERSION, SSL_REQUEST = 196608, 80877103
-- Messages before the end of a login: some 20 parameters, a few notices. A PostgreSQL server sends no more.
local MOST_MESSAGES = 200
-- One row of a status query has a few hundred bytes, an error some KiB.
local LONGEST_MESSAGE = 262144

local function send(connection, kind, body)
  connection:send(kind .. string.pack(">I4", #body + 4) .. body)
end

-- Returns "text (28P01)" of an ErrorResponse.
local function error_of(body)
  local fields = {}
  for kind, value in body:gmatch("(%a)([^%z]*)%z") do fields[kind] = value end
  return string.format("%s (%s)", fields.M or "an error without a text", fields.C or "no code")
end

-- Returns kind and body of the next message that is no notice and no parameter.
local function receive(connection)
  for _ = 1, MOST_MESSAGES do
    local kind, length = string.unpack(">c1I4", connection:take(5))
    if length < 4 or length > LONGEST_MESSAGE or not kind:find("%a") then stream.fail("protocol", "that is no PostgreSQL server") end
    local body = connection:take(length - 4)
    if kind == "E" then stream.fail("failed", "the server refuses: " .. error_of(body)) end
    if kind ~= "N" and kind ~= "S" and kind ~= "A" then return kind, body end
  end
  stream.fail("protocol", "the server sends notices without end")
end

local function crypto(answer, code, text)
  if not answer then stream.fail(code, text) end
  return answer
end

-- Returns the message of kind "R" that continues a login.
local function continued(connection, wanted)
  local kind, body = receive(connection)
  local what = kind == "R" and string.unpack(">I4", body)
  if what ~= wanted then stream.fail("protocol", "the server breaks off the login") end
  return body:sub(5)
end

-- Logs in by SCRAM. The user was named before.
local function prove_scram(connection, host, password)
  local proof = scram.begin(host, "sha256", "")
  send(connection, "p", "SCRAM-SHA-256\0" .. string.pack(">s4", proof.first))
  send(connection, "p", scram.answer(proof, password, continued(connection, 11)))
  scram.finish(proof, continued(connection, 12))
end

local function prove_md5(connection, host, user, password, salt)
  local inner = crypto(host.crypto.digest("md5", password .. user))
  send(connection, "p", "md5" .. crypto(host.crypto.digest("md5", inner .. salt)) .. "\0")
end

local function log_in(connection, host, login)
  local function password()
    if not login.password then stream.fail("failed", "the server wants a password for " .. login.user) end
    return login.password
  end
  local kind, body = receive(connection)
  if kind ~= "R" then stream.fail("protocol", "that is no PostgreSQL server") end
  local what = string.unpack(">I4", body)
  if what == 10 then
    if not (body:sub(5) .. "\0"):find("SCRAM-SHA-256\0", 1, true) then
      stream.fail("unsupported", "the server wants a login that this check does not know")
    end
    prove_scram(connection, host, password())
  elseif what == 5 then
    prove_md5(connection, host, login.user, password(), body:sub(5, 8))
  elseif what == 3 then
    if not connection:is_private() then
      stream.fail("unsupported", 'the server wants the password itself: use scram-sha-256 there, or tls = "verify" here')
    end
    send(connection, "p", password() .. "\0")
  elseif what ~= 0 then
    stream.fail("unsupported", string.format("the server wants a login that this check does not know (%d)", what))
  end
  if what ~= 0 then continued(connection, 0) end
end

-- Logs in and returns the connection. login: user, password or nil, database, tls ("off", "on", "verify"), ca.
function postgres.connect(host, where, login, seconds)
  local connection = stream.open(where.socket and host.unix or host.tcp, where, seconds)
  if login.tls ~= "off" then
    connection:send(string.pack(">I4I4", 8, SSL_REQUEST))
    if connection:take(1) ~= "S" then stream.fail("tls", "the server does not offer TLS") end
    connection:secure(login.tls, login.ca)
  end
  local names = { user = login.user, database = login.database, application_name = "monitoring" }
  local parts = { string.pack(">I4", VERSION) }
  for name, value in pairs(names) do parts[#parts + 1] = name .. "\0" .. value .. "\0" end
  local startup = table.concat(parts) .. "\0"
  connection:send(string.pack(">I4", #startup + 4) .. startup)
  log_in(connection, host, login)
  local kind = receive(connection)
  if kind == "K" then kind = receive(connection) end
  if kind ~= "Z" then stream.fail("protocol", "the server is not ready after the login") end
  return connection
end

local function columns(body)
  local names, at = {}, 3
  for index = 1, string.unpack(">I2", body) do
    names[index], at = string.unpack("z", body, at)
    at = at + 18 -- table, column, type, size, modifier, format
  end
  return names
end

local function row_of(body, names)
  local row, at = {}, 3
  for index = 1, string.unpack(">I2", body) do
    local length
    length, at = string.unpack(">i4", body, at)
    if length >= 0 then
      row[names[index] or ""] = body:sub(at, at + length - 1)
      at = at + length
    end
  end
  return row
end

-- Returns the rows of a query as tables of texts, without the columns that are NULL; and the names of all columns.
function postgres.query(connection, sql)
  send(connection, "Q", sql .. "\0")
  local names, rows = {}, {}
  while true do
    local kind, body = receive(connection)
    if kind == "T" then names = columns(body)
    elseif kind == "D" then rows[#rows + 1] = row_of(body, names)
    elseif kind == "Z" then return rows, names
    elseif kind ~= "C" then stream.fail("protocol", "the server answers a query with " .. kind) end
  end
end

function postgres.close(connection)
  connection:close("X\0\0\0\4")
end

return postgres
