-- Reads a connection by the byte, for protocols with turns. Bytes that come early are kept for the next read.
-- A failure is raised as { code, text } and caught by stream.guarded: a protocol has many steps, and each can fail.
local bytes = require "bytes"

local stream = {}
local Connection = {}
Connection.__index = Connection

-- No answer of a status query is longer; a server that announces more uses another protocol.
local MOST_BYTES = 524288
local READ = 65536

function stream.fail(code, text)
  error({ code = code, text = text }, 0)
end

-- Connects to where.socket, else to where.host and where.port. `seconds` is the limit of each step.
function stream.open(host, where, seconds)
  local connection = setmetatable({ host = host, is_unix = where.socket ~= nil, name = where.socket or where.host }, Connection)
  connection.seconds, connection.ahead, connection.unsent, connection.took = seconds, "", "", 0
  local answer, code, text
  if where.socket then
    answer, code, text = host.unix { path = where.socket, keep = true, timeout = seconds }
  else
    answer, code, text = host.tcp { host = where.host, port = where.port, keep = true, timeout = seconds }
  end
  if not answer then stream.fail(code, text) end
  connection.number, connection.address, connection.took = answer.connection, answer.address, answer.seconds
  return connection
end

-- True if the connection stays on this host, or is TLS to a server with a verified certificate.
function Connection:is_private()
  local address = self.address or ""
  return self.is_unix or self.is_verified or address == "::1" or address:find("^127%.") ~= nil
end

-- Makes one host call on the open connection, which also sends the text of earlier sends.
function Connection:_call(fields)
  local host = self.host
  if not self.number then stream.fail("protocol", "the server has closed the connection") end
  fields.connection, fields.hex, fields.timeout = self.number, true, self.seconds
  if self.unsent ~= "" then fields.send, self.unsent = bytes.hex(self.unsent), "" end
  local answer, code, text
  if self.is_unix then answer, code, text = host.unix(fields) else answer, code, text = host.tcp(fields) end
  self.number = answer and answer.connection
  if not answer then stream.fail(code, text) end
  self.took = self.took + answer.seconds
  self.ahead = self.ahead .. bytes.of(answer.received)
end

-- Keeps a text, which is sent with the next read.
function Connection:send(text)
  self.unsent = self.unsent .. text
end

-- Reads exactly `count` bytes.
function Connection:take(count)
  if count > MOST_BYTES then stream.fail("protocol", string.format("the server announces %d bytes at once", count)) end
  while #self.ahead < count do self:_call { some = true, limit = READ, keep = true } end
  local taken = self.ahead:sub(1, count)
  self.ahead = self.ahead:sub(count + 1)
  return taken
end

-- Starts TLS: "on" accepts any certificate, "verify" only a valid one, by the system's authorities or those of `ca`.
function Connection:secure(how, ca)
  if self.unsent ~= "" then self:_call { keep = true, limit = 0 } end
  -- Bytes from before TLS were not protected by it, and must not be read as if they came after.
  if self.ahead ~= "" then stream.fail("protocol", "the server speaks before TLS has begun") end
  self:_call { tls = true, verify = how == "verify", ca = how == "verify" and ca or nil, keep = true }
  self.is_verified = how == "verify"
end

-- Sends a last text and closes. A failure of that is ignored.
function Connection:close(text)
  self:send(text)
  if self.number then pcall(self._call, self, { limit = 0 }) end
end

-- Calls `act` and returns its results, or nil, code, text if a step failed.
function stream.guarded(act, ...)
  local results = table.pack(pcall(act, ...))
  if results[1] then return table.unpack(results, 2, results.n) end
  local fault = results[2]
  if type(fault) == "table" and fault.code then return nil, fault.code, fault.text end
  -- string.unpack found a packet that is shorter than its fields.
  if tostring(fault):find("to 'unpack'", 1, true) then return nil, "protocol", "the server sends broken packets" end
  error(fault, 0)
end

return stream
