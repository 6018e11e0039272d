local check = {
  summary = "How far the clock is off: by the kernel's own estimate, or against a time server",
  needs = { "host", "udp" },
  timeout = "15s",
  args = {
    server = { type = "string", help = "NTP server to compare with; without it the kernel's estimate counts" },
    port = { type = "integer", default = 123, min = 1, max = 65535, help = "its port" },
    warn = { type = "range", default = "-0.1:0.1", help = "offset in seconds" },
    crit = { type = "range", default = "-1:1", help = "offset in seconds" },
    require_sync = { type = "boolean", default = true, help = "a clock that nobody keeps right is a warning" },
  },
}

-- Seconds from 1900, where NTP counts from, to 1970.
local EPOCH = 2208988800

local function timestamp(reply, position)
  local seconds, fraction = string.unpack(">I4I4", reply, position)
  return seconds - EPOCH + fraction / 4294967296
end

local function from_hex(text)
  return (text:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end))
end

-- Offset and round trip of one exchange (RFC 5905), or nil and why not.
local function ask(args, host)
  -- Leap 0, version 4, mode 3 (client); the rest is zero.
  local before = host.now()
  local answer, _, text = host.udp { host = args.server, port = args.port, send = "23" .. ("00"):rep(47), hex = true, timeout = 5 }
  if not answer then return nil, text end
  local after = before + answer.seconds
  local reply = from_hex(answer.received)
  if #reply < 48 then return nil, args.server .. " sent no NTP answer" end
  local stratum, mode = reply:byte(2), reply:byte(1) & 7
  if mode ~= 4 then return nil, args.server .. " sent no NTP answer" end
  if stratum == 0 or stratum > 15 or reply:byte(1) >> 6 == 3 then return nil, args.server .. " does not know the time itself" end
  local received, sent = timestamp(reply, 33), timestamp(reply, 41)
  return ((received - before) + (sent - after)) / 2, answer.seconds, stratum
end

function check.run(args, host)
  if args.server then
    local offset, delay, stratum = ask(args, host)
    if not offset then return "unknown", delay end
    local status = host.metric("offset", offset, { unit = "s", warn = args.warn, crit = args.crit })
    host.metric("delay", delay, { unit = "s", min = 0 })
    host.metric("stratum", stratum, { unit = "", min = 0, max = 16 })
    return status, string.format("%+.4f s against %s (stratum %d)", offset, args.server, stratum)
  end
  local clock, _, text = host.clock()
  if not clock then return "unknown", text end
  if not clock.synchronized then
    return args.require_sync and "warning" or "ok", "no time service keeps this clock right"
  end
  local status = host.metric("offset", clock.offset_seconds, { unit = "s", warn = args.warn, crit = args.crit })
  host.metric("estimated_error", clock.estimated_error_seconds, { unit = "s", min = 0 })
  host.metric("max_error", clock.max_error_seconds, { unit = "s", min = 0 })
  return status, string.format("%+.6f s by the kernel's estimate, at most %.3f s off", clock.offset_seconds, clock.max_error_seconds)
end

return check
