local check = {
  summary = "Time since the host started; warns after a restart",
  needs = { "host" },
  every = "5m",
  timeout = "10s",
  attempts = 1,  -- the next run is good again: what is told later would never be told
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
