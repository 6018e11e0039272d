-- Speaks FastCGI as a client: one request without a body, one answer.
local stream = require "stream"

local fastcgi = {}

local BEGIN, END, PARAMS, STDIN, STDOUT, STDERR = 1, 3, 4, 5, 6, 7
local RESPONDER, REQUEST = 1, 1
-- A status page has some KiB.
local LONGEST, MOST_RECORDS = 262144, 200

local function record(kind, body)
  return string.pack(">BBI2I2BB", 1, kind, REQUEST, #body, 0, 0) .. body
end

-- Lengths below 128 have one byte, others four with the highest bit set.
local function length_of(text)
  return #text < 128 and string.char(#text) or string.pack(">I4", #text | 0x80000000)
end

local function pairs_of(params)
  local parts = {}
  for name, value in pairs(params) do parts[#parts + 1] = length_of(name) .. length_of(value) .. name .. value end
  table.sort(parts)
  return table.concat(parts)
end

-- Returns the status (200 if the answer names none), the body, and what the program wrote as errors.
function fastcgi.get(connection, params)
  connection:send(record(BEGIN, string.pack(">I2Bxxxxx", RESPONDER, 0)) .. record(PARAMS, pairs_of(params)) .. record(PARAMS, "") .. record(STDIN, ""))
  local out, errors, size = {}, {}, 0
  for _ = 1, MOST_RECORDS do
    local version, kind, _, length, padding = string.unpack(">BBI2I2B", connection:take(8))
    if version ~= 1 then stream.fail("protocol", "that is no FastCGI server") end
    local body = connection:take(length + padding):sub(1, length)
    if kind == STDOUT then out[#out + 1] = body end
    if kind == STDERR then errors[#errors + 1] = body end
    size = size + length
    if size > LONGEST then stream.fail("too-large", string.format("the answer is longer than %d bytes", LONGEST)) end
    if kind == END then
      local head, content = table.concat(out):match("^(.-)\r?\n\r?\n(.*)$")
      if not head then stream.fail("protocol", "the FastCGI server answers without a head") end
      local status = ("\n" .. head:lower()):match("\nstatus: *(%d%d%d)")
      return tonumber(status or 200), content, table.concat(errors)
    end
  end
  stream.fail("protocol", "the FastCGI server answers without an end")
end

return fastcgi
