-- Reads a connection by the byte, for protocols with turns. Bytes that come early are kept for the next read.
-- A failure is raised and caught by stream.guarded (faults.lua).
local bytes, faults = require "bytes", require "faults"

local stream = {}
local Connection = {}
Connection.__index = Connection

-- No answer of a status query is longer; a server that announces more uses another protocol.
local MOST_BYTES = 524288
local READ = 65536
-- Protocols of lines have some hundred bytes in each.
local LONGEST_LINE = 16384

stream.fail, stream.guarded = faults.fail, faults.guarded

-- Connects to where.socket, else to where.host and where.port, by the host call that fits: host.unix or host.tcp. `seconds` is
-- the limit of each step.
function stream.open(call, where, seconds)
  local connection = setmetatable({ call = call, is_unix = where.socket ~= nil, name = where.socket or where.host }, Connection)
  connection.seconds, connection.ahead, connection.unsent, connection.took = seconds, "", "", 0
  local fields = { keep = true, timeout = seconds }
  if where.socket then fields.path = where.socket else fields.host, fields.port = where.host, where.port end
  local answer, code, text = call(fields)
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
  if not self.number then stream.fail("protocol", "the server has closed the connection") end
  fields.connection, fields.hex, fields.timeout = self.number, true, self.seconds
  if self.unsent ~= "" then fields.send, self.unsent = bytes.hex(self.unsent), "" end
  local answer, code, text = self.call(fields)
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

-- Reads one line, without its end.
function Connection:line()
  while true do
    local line, behind = self.ahead:match("^([^\n]*)\n()")
    if line then
      self.ahead = self.ahead:sub(behind)
      return (line:gsub("\r$", ""))
    end
    if #self.ahead > LONGEST_LINE then stream.fail("protocol", "the server sends a line without an end") end
    self:_call { some = true, limit = READ, keep = true }
  end
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

return stream
