-- Asks a time server for the time, in one exchange (RFC 5905).
local bytes = require "bytes"

local ntp = {}

-- Seconds from 1900, the epoch of NTP, to 1970.
local EPOCH = 2208988800

local function timestamp(reply, position)
  local seconds, fraction = string.unpack(">I4I4", reply, position)
  return seconds - EPOCH + fraction / 4294967296
end

-- Returns { offset, delay, stratum, leap (0 to 3), root_delay, root_dispersion, source }, times in seconds; or nil, code and
-- text if the server does not answer or does not know the time.
function ntp.ask(host, server, port)
  -- Leap 0, version 4, mode 3 (client); the rest is zero.
  local before = host.now()
  local answer, code, text = host.udp { host = server, port = port, send = "23" .. ("00"):rep(47), hex = true, timeout = 5 }
  if not answer then return nil, code, text end
  local after = before + answer.seconds
  local reply = bytes.of(answer.received)
  if #reply < 48 or reply:byte(1) & 7 ~= 4 then return nil, "protocol", server .. " sent no NTP answer" end
  local leap, stratum = reply:byte(1) >> 6, reply:byte(2)
  if stratum == 0 or stratum > 15 or leap == 3 then return nil, "failed", server .. " does not know the time itself" end
  local delay, dispersion = string.unpack(">i4I4", reply, 5)
  local received, sent = timestamp(reply, 33), timestamp(reply, 41)
  return {
    offset = ((received - before) + (sent - after)) / 2, delay = answer.seconds, stratum = stratum, leap = leap,
    root_delay = delay / 65536, root_dispersion = dispersion / 65536,
    source = stratum == 1 and reply:sub(13, 16):gsub("[^%g]", "") or string.format("%d.%d.%d.%d", reply:byte(13, 16)),
  }
end

return ntp
