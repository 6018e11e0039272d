-- Speaks the protocol of MySQL and MariaDB: a login and text queries. A login proves the password
-- (caching_sha2_password, mysql_native_password), and sends it only where no other host can read it.
local bytes, stream = require "bytes", require "stream"

local mysql = {}

-- Capability flags: long password, database, protocol 4.1, TLS, transactions, secure connection, plugin authentication.
local LONG_PASSWORD, WITH_DATABASE, PROTOCOL_41, TLS, TRANSACTIONS, SECURE, PLUGIN = 0x1, 0x8, 0x200, 0x800, 0x2000, 0x8000, 0x80000
local UTF8MB4, MOST_PACKET = 45, 16777215
-- One row of a status query has some hundred bytes, that of a replica a few KiB.
local LONGEST_PACKET = 262144
local OK, MORE, SWITCH, ERROR = 0x00, 0x01, 0xfe, 0xff
-- Steps of a login: a greeting, a switch of the plugin, a proof, the result.
local MOST_STEPS = 8
local MOST_ROWS, MOST_COLUMNS = 5000, 200

-- Returns "text (1045)" of an error packet. Before a login it has no SQL state.
local function error_of(body)
  local number = string.unpack("<I2", body, 2)
  local text = body:sub(4):gsub("^#.....", "")
  return string.format("%s (%d)", text, number)
end

local function receive(connection)
  local length, number = string.unpack("<I3B", connection:take(4))
  if length > LONGEST_PACKET then stream.fail("protocol", "that is no MySQL server") end
  connection.turn = (number + 1) & 255
  local body = connection:take(length)
  if body == "" then stream.fail("protocol", "that is no MySQL server") end
  if body:byte(1) == ERROR then
    stream.fail("failed", "the server refuses: " .. error_of(body))
  end
  return body
end

local function send(connection, body)
  connection:send(string.pack("<I3B", #body, connection.turn) .. body)
  connection.turn = (connection.turn + 1) & 255
end

local function greeting_of(body)
  if body:byte(1) ~= 10 then stream.fail("protocol", "that is no MySQL server") end
  local greeting, at = {}, nil
  greeting.version, at = string.unpack("z", body, 2)
  -- MariaDB 10 puts 5.5.5- before its version, for replicas that would not follow a 10.
  greeting.version = greeting.version:gsub("^5%.5%.5%-(.*MariaDB)", "%1")
  local nonce, low, _, _, high, length
  nonce, low, _, _, high, length, at = string.unpack("<xxxxc8xI2BI2I2B", body, at)
  greeting.flags = low | high << 16
  at = at + 10
  local rest = math.max(13, length - 8)
  greeting.nonce = nonce .. body:sub(at, at + rest - 2) -- its last byte is a zero
  greeting.plugin = greeting.flags & PLUGIN ~= 0 and string.unpack("z", body, at + rest) or "mysql_native_password"
  return greeting
end

local function digest(host, algorithm, text)
  local sum, code, why = host.crypto.digest(algorithm, text)
  if not sum then stream.fail(code, why) end
  return bytes.of(sum)
end

-- The functions that prove the password, by the name of the server's plugin.
local PROOFS = {
  mysql_native_password = function(host, password, nonce)
    local once = digest(host, "sha1", password)
    return bytes.xor(once, digest(host, "sha1", nonce .. digest(host, "sha1", once)))
  end,
  caching_sha2_password = function(host, password, nonce)
    local once = digest(host, "sha256", password)
    return bytes.xor(once, digest(host, "sha256", digest(host, "sha256", once) .. nonce))
  end,
}

local function proof(host, plugin, login, nonce)
  if not PROOFS[plugin] then
    stream.fail("unsupported", string.format("the account logs in by %s; give it mysql_native_password or caching_sha2_password", plugin))
  end
  return login.password and PROOFS[plugin](host, login.password, nonce) or ""
end

-- Sends the password itself: a server that has not seen this account since its start can compare no proof.
local function send_password(connection, login)
  if not (connection.is_unix or (connection.is_tls and connection:is_private())) then
    stream.fail("unsupported", 'the server wants the password itself: use tls = "verify" (on this host "on" is enough), or the socket')
  end
  send(connection, login.password .. "\0")
end

local function finish(connection, host, login, plugin)
  for _ = 1, MOST_STEPS do
    local body = receive(connection)
    local kind = body:byte(1)
    if kind == OK then return end
    if kind == SWITCH then
      local wanted, at = string.unpack("z", body, 2)
      plugin = wanted
      send(connection, proof(host, plugin, login, (body:sub(at):gsub("%z$", ""))))
    elseif kind == MORE and plugin == "caching_sha2_password" then
      if body:byte(2) == 4 then send_password(connection, login) end -- 3: the proof was good, OK follows
    else
      stream.fail("protocol", "the server breaks off the login")
    end
  end
  stream.fail("protocol", "the server does not end the login")
end

-- Logs in. Returns the connection and the server's version. login: user, password or nil, database or nil, tls, ca.
function mysql.connect(host, where, login, seconds)
  local connection = stream.open(where.socket and host.unix or host.tcp, where, seconds)
  connection.turn = 0
  local greeting = greeting_of(receive(connection))
  local flags = LONG_PASSWORD | PROTOCOL_41 | TRANSACTIONS | SECURE | PLUGIN | (login.database and WITH_DATABASE or 0)
  if login.tls ~= "off" then
    if greeting.flags & TLS == 0 then stream.fail("tls", "the server does not offer TLS") end
    flags = flags | TLS
  end
  local head = string.pack("<I4I4B", flags, MOST_PACKET, UTF8MB4) .. ("\0"):rep(23)
  if login.tls ~= "off" then
    send(connection, head)
    connection:secure(login.tls, login.ca)
    connection.is_tls = true
  end
  -- An unknown plugin may be the server's default and not this account's: the server then switches.
  local plugin = PROOFS[greeting.plugin] and greeting.plugin or "mysql_native_password"
  local proved = proof(host, plugin, login, greeting.nonce)
  send(connection, head .. string.pack("zs1", login.user, proved) .. (login.database and login.database .. "\0" or "") .. plugin .. "\0")
  finish(connection, host, login, plugin)
  return connection, greeting.version
end

-- Returns a number or the length of a text, and the position after it; nil for NULL.
local function length_at(body, at)
  local first = body:byte(at)
  if first == 0xfb then return nil, at + 1 end
  if first == 0xfc then return string.unpack("<I2", body, at + 1) end
  if first == 0xfd then return string.unpack("<I3", body, at + 1) end
  if first == 0xfe then return string.unpack("<I8", body, at + 1) end
  return first, at + 1
end

local function text_at(body, at)
  local length
  length, at = length_at(body, at)
  if not length then return nil, at end
  return body:sub(at, at + length - 1), at + length
end

local function is_end(body)
  return body:byte(1) == SWITCH and #body < 9
end

local function column_of(body)
  local at, name = 1, nil
  for _ = 1, 5 do name, at = text_at(body, at) end -- catalog, schema, table, table's own name, name
  return name or ""
end

-- Runs a statement that has no rows, such as SET.
function mysql.command(connection, sql)
  connection.turn = 0
  send(connection, "\3" .. sql)
  if receive(connection):byte(1) ~= OK then stream.fail("protocol", "the server does not take a statement without rows") end
end

-- Returns the rows of a query as tables of texts, without the columns that are NULL; and the names of all columns.
function mysql.query(connection, sql)
  connection.turn = 0
  send(connection, "\3" .. sql)
  local count = length_at(receive(connection), 1)
  if not count or count == 0 or count > MOST_COLUMNS then stream.fail("protocol", "the server does not answer a query with rows") end
  local names, rows = {}, {}
  for index = 1, count do names[index] = column_of(receive(connection)) end
  if not is_end(receive(connection)) then stream.fail("protocol", "the server's columns have no end") end
  while #rows < MOST_ROWS do
    local body = receive(connection)
    if is_end(body) then return rows, names end
    local row, at = {}, 1
    for index = 1, count do row[names[index]], at = text_at(body, at) end
    rows[#rows + 1] = row
  end
  stream.fail("too-large", "the server answers with too many rows")
end

function mysql.close(connection)
  connection.turn = 0
  send(connection, "\1")
  connection:close("")
end

return mysql
