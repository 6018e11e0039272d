local check = {
  summary = "A TCP port accepts connections, and sends an expected text",
  needs = { "tcp" },
  timeout = "20s",
  args = {
    host = { type = "string", default = "localhost", help = "name or address" },
    port = { type = "integer", required = true, min = 1, max = 65535, help = "the port" },
    send = { type = "string", help = "text to send after connecting" },
    expect = { type = "string", help = "plain text that must come back" },
    tls = { type = "boolean", default = false, help = "use TLS, with any certificate" },
    limit = { type = "duration", default = "5s", max = 15, help = "time the answer may take; more is critical" },
    warn = { type = "range", default = "1", help = "seconds until the connection is open" },
    crit = { type = "range", default = "3", help = "seconds until the connection is open" },
  },
}

function check.run(args, host)
  local words = require "words"
  local place = string.format("%s port %d", args.host, args.port)
  local answer, code, text = host.tcp {
    host = args.host, port = args.port, send = args.send, expect = args.expect, tls = args.tls, timeout = args.limit,
  }
  if not answer then
    if code == "denied" or code == "bad-arguments" then return "unknown", text end
    return "critical", text
  end
  local labels = { host = args.host, port = tostring(args.port) }
  local status = host.metric("connect_time", answer.connect_seconds,
    { unit = "s", warn = args.warn, crit = args.crit, min = 0, labels = labels })
  host.metric("time", answer.seconds, { unit = "s", min = 0, labels = labels })
  if #answer.received > 0 then print(answer.received) end
  if args.expect and not answer.matched then
    return "critical", string.format("%s did not send %q within %s", place, args.expect, words.duration(args.limit))
  end
  local sent = args.expect and string.format(" and sent %q", args.expect) or ""
  return status, string.format("%s answered in %s%s", place, words.duration(answer.connect_seconds), sent)
end

return check
