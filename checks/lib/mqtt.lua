-- Speaks MQTT 3.1.1 as a client with messages of quality 0: connect, subscribe, ping.
local stream = require "stream"

local mqtt = {}

local CONNECT, CONNACK, PUBLISH, SUBSCRIBE, SUBACK, PINGREQ, PINGRESP = 1, 2, 3, 8, 9, 12, 13
local CLEAN, WITH_USER, WITH_PASSWORD = 0x02, 0x80, 0x40
-- Messages of the broker about itself are short; a retained message of somebody's own may be some KiB.
local LONGEST, MOST_PACKETS = 262144, 500
local REFUSALS = {
  "it does not speak MQTT 3.1.1", "it does not take the client's name", "it is not available", "user or password are wrong", "the account may not connect",
}

local function length_of(count)
  local digits = ""
  repeat
    local rest = count // 128
    digits, count = digits .. string.char(count % 128 | (rest > 0 and 128 or 0)), rest
  until count == 0
  return digits
end

local function send(connection, kind, flags, body)
  connection:send(string.char(kind << 4 | flags) .. length_of(#body) .. body)
end

-- Returns the kind, the flags and the body of the next packet.
local function receive(connection)
  local first, length = connection:take(1):byte(), 0
  for place = 0, 3 do
    local digit = connection:take(1):byte()
    length = length | (digit & 127) << (7 * place)
    if digit < 128 then break end
    if place == 3 then stream.fail("protocol", "that is no MQTT broker") end
  end
  if length > LONGEST then stream.fail("too-large", string.format("the broker sends a message of %d bytes", length)) end
  return first >> 4, first & 15, connection:take(length)
end

-- Logs in. login: user and password, or nil.
function mqtt.connect(connection, name, login)
  local flags, payload = CLEAN, string.pack(">s2", name)
  if login.user then flags, payload = flags | WITH_USER, payload .. string.pack(">s2", login.user) end
  if login.password then flags, payload = flags | WITH_PASSWORD, payload .. string.pack(">s2", login.password) end
  send(connection, CONNECT, 0, string.pack(">s2BBI2", "MQTT", 4, flags, 60) .. payload)
  local kind, _, body = receive(connection)
  if kind ~= CONNACK or #body ~= 2 then stream.fail("protocol", "that is no MQTT broker") end
  local code = body:byte(2)
  if code ~= 0 then stream.fail("failed", "the broker refuses the connection: " .. (REFUSALS[code] or "code " .. code)) end
end

-- Subscribes to topics, and returns the retained messages as a table by topic, with true for each topic that was refused.
-- The broker sends them before it answers the ping that follows.
function mqtt.retained(connection, topics)
  local body = string.pack(">I2", 1)
  for _, topic in ipairs(topics) do body = body .. string.pack(">s2B", topic, 0) end
  send(connection, SUBSCRIBE, 2, body)
  send(connection, PINGREQ, 0, "")
  local found, refused, answered = {}, {}, false
  for _ = 1, MOST_PACKETS do
    local kind, flags, packet = receive(connection)
    if kind == PUBLISH and flags & 6 == 0 then
      local topic, at = string.unpack(">s2", packet)
      found[topic] = packet:sub(at)
    elseif kind == SUBACK then
      if #packet ~= 2 + #topics then stream.fail("protocol", "the broker does not answer each subscription") end
      answered = true
      for index, topic in ipairs(topics) do refused[topic] = packet:byte(2 + index) >= 128 or nil end
    elseif kind == PINGRESP then
      if not answered then stream.fail("protocol", "the broker does not answer the subscription") end
      return found, refused
    else
      stream.fail("protocol", "the broker sends a packet of kind " .. kind)
    end
  end
  stream.fail("protocol", "the broker sends messages without an end")
end

return mqtt
