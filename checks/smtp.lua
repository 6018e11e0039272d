local check = {
  summary = "A mail server greets and answers EHLO",
  needs = { "tcp" },
  timeout = "20s",
  args = {
    host = { type = "string", default = "localhost", help = "name or address" },
    port = { type = "integer", default = 25, min = 1, max = 65535, help = "the port" },
    starttls = { type = "boolean", default = false, help = "the server must offer STARTTLS" },
    tls = { type = "boolean", default = false, help = "TLS from the start (port 465)" },
    warn = { type = "range", default = "2", help = "seconds for the dialogue" },
    crit = { type = "range", default = "10", help = "seconds for the dialogue" },
  },
}

function check.run(args, host)
  local words = require "words"
  -- Each further line is sent after the server has ended another of its own.
  local answer, code, text = host.tcp {
    host = args.host, port = args.port, tls = args.tls, send = { "EHLO monitoring.invalid\r\n", "QUIT\r\n" },
    ["until"] = "\n", expect = "221", limit = 8192, timeout = 12,
  }
  if not answer then
    if code == "denied" or code == "bad-arguments" then return "unknown", text end
    return "critical", text
  end
  local labels = { host = args.host, port = tostring(args.port) }
  local status = host.metric("time", answer.seconds, { unit = "s", warn = args.warn, crit = args.crit, min = 0, labels = labels })
  print(answer.received)
  local greeting = answer.received:match("^220[ -]([^\r\n]*)")
  if not greeting then
    return "critical", string.format("%s port %d is no ready mail server: it says %q", args.host, args.port, answer.received:sub(1, 60))
  end
  if not answer.received:find("\n250[ -]") then return "critical", "the server does not answer EHLO" end
  if args.starttls and not answer.received:find("\n250[ -]STARTTLS") then return "critical", "the server offers no STARTTLS" end
  return status, string.format("%s, answered in %s", greeting:sub(1, 100), words.duration(answer.seconds))
end

return check
