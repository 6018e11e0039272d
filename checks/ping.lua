local check = {
  summary = "A host answers pings: loss and round trip time",
  needs = { "icmp" },
  timeout = "40s",
  args = {
    host = { type = "string", required = true, help = "name or address" },
    count = { type = "integer", default = 5, min = 1, max = 20, help = "how many pings" },
    loss_warn = { type = "range", default = "20", help = "lost pings in percent" },
    loss_crit = { type = "range", default = "60", help = "lost pings in percent" },
    warn = { type = "range", default = "0.2", help = "mean round trip in seconds" },
    crit = { type = "range", default = "0.5", help = "mean round trip in seconds" },
  },
}

function check.run(args, host)
  local words, status = require "words", require "status"
  local answer, code, text = host.icmp { host = args.host, count = args.count }
  if not answer then
    if code == "unreachable" or code == "not-found" then return "critical", text end
    return "unknown", text
  end
  local labels = { host = args.host }
  local worst = host.metric("loss", answer.lost_percent,
    { unit = "%", warn = args.loss_warn, crit = args.loss_crit, min = 0, max = 100, labels = labels })
  if answer.received == 0 then return "critical", string.format("%s answers none of %d pings", args.host, answer.sent) end
  worst = status.worse(worst, host.metric("time", answer.average_seconds,
    { unit = "s", warn = args.warn, crit = args.crit, min = 0, labels = labels }))
  host.metric("time_max", answer.maximum_seconds, { unit = "s", min = 0, labels = labels })
  return worst, string.format("%s answers %d of %d pings, mean %s, longest %s", args.host, answer.received, answer.sent,
    words.duration(answer.average_seconds), words.duration(answer.maximum_seconds))
end

return check
