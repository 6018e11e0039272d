local check = {
  summary = "Time since the host started; tells of a restart for a while",
  needs = { "host" },
  every = "5m",
  timeout = "10s",
  args = {
    warn = { type = "range", default = "600:", help = "seconds since the start; 600: warns for ten minutes after a restart" },
    crit = { type = "range", help = "seconds since the start" },
  },
}

function check.run(args, host)
  local words = require "words"
  local uptime, _, text = host.uptime()
  if not uptime then return "unknown", text end
  local status = host.metric("uptime", uptime.seconds, { unit = "s", warn = args.warn, crit = args.crit, min = 0 })
  return status, "up for " .. words.duration(uptime.seconds)
end

return check
