local check = {
  summary = "Offset of the clock: by the kernel's own estimate, or compared with a time server",
  needs = { "host", "udp" },
  timeout = "15s",
  args = {
    server = { type = "string", help = "NTP server to compare with; without it the kernel's estimate counts" },
    port = { type = "integer", default = 123, min = 1, max = 65535, help = "its port" },
    warn = { type = "range", default = "-0.1:0.1", help = "offset in seconds" },
    crit = { type = "range", default = "-1:1", help = "offset in seconds" },
    require_sync = { type = "boolean", default = true, help = "a clock that is not synchronized is a warning" },
  },
}

function check.run(args, host)
  if args.server then
    local time, _, text = require("ntp").ask(host, args.server, args.port)
    if not time then return "unknown", text end
    local status = host.metric("offset", time.offset, { unit = "s", warn = args.warn, crit = args.crit })
    host.metric("delay", time.delay, { unit = "s", min = 0 })
    host.metric("stratum", time.stratum, { unit = "", min = 0, max = 16 })
    return status, string.format("%+.4f s against %s (stratum %d)", time.offset, args.server, time.stratum)
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
