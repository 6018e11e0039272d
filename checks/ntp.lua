local check = {
  summary = "A time server answers and knows the time; the offset of this clock",
  needs = { "udp" },
  timeout = "15s",
  args = {
    host = { type = "string", default = "localhost", help = "name or address" },
    port = { type = "integer", default = 123, min = 1, max = 65535, help = "the port" },
    warn = { type = "range", default = "-0.1:0.1", help = "offset in seconds" },
    crit = { type = "range", default = "-1:1", help = "offset in seconds" },
    stratum_warn = { type = "range", default = "1:5", help = "steps from a reference clock" },
    stratum_crit = { type = "range", default = "1:12", help = "steps from a reference clock" },
    dispersion_warn = { type = "range", default = "1", help = "seconds that the server may be off itself" },
    dispersion_crit = { type = "range", default = "5", help = "seconds that the server may be off itself" },
  },
}

function check.run(args, host)
  local worse = require("status").worse
  local time, code, text = require("ntp").ask(host, args.host, args.port)
  if not time then
    if code == "denied" or code == "bad-arguments" then return "unknown", text end
    return "critical", text
  end
  local labels = { host = args.host }
  local worst = host.metric("offset", time.offset, { unit = "s", warn = args.warn, crit = args.crit, labels = labels })
  local function judged(name, value, unit, warn, crit)
    worst = worse(worst, host.metric(name, value, { unit = unit, warn = warn, crit = crit, min = 0, labels = labels }))
  end
  judged("stratum", time.stratum, "", args.stratum_warn, args.stratum_crit)
  judged("root_dispersion", time.root_dispersion, "s", args.dispersion_warn, args.dispersion_crit)
  host.metric("root_delay", time.root_delay, { unit = "s", labels = labels })
  host.metric("delay", time.delay, { unit = "s", min = 0, labels = labels })
  local leap = time.leap ~= 0 and ", a leap second is announced" or ""
  return worst, string.format("%+.4f s, stratum %d from %s, root dispersion %.3f s%s", time.offset, time.stratum, time.source, time.root_dispersion, leap)
end

return check
