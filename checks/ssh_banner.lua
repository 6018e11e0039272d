local check = {
  summary = "An SSH server greets, with the expected version",
  needs = { "tcp" },
  timeout = "20s",
  args = {
    host = { type = "string", default = "localhost", help = "name or address" },
    port = { type = "integer", default = 22, min = 1, max = 65535, help = "the port" },
    expect = { type = "string", help = "plain text that the greeting must contain, such as OpenSSH_9" },
    warn = { type = "range", default = "1", help = "seconds until the greeting" },
    crit = { type = "range", default = "5", help = "seconds until the greeting" },
  },
}

function check.run(args, host)
  local words = require "words"
  local answer, code, text = host.tcp { host = args.host, port = args.port, ["until"] = "\n", limit = 1024, timeout = 8 }
  if not answer then
    if code == "denied" or code == "bad-arguments" then return "unknown", text end
    return "critical", text
  end
  local labels = { host = args.host, port = tostring(args.port) }
  local status = host.metric("time", answer.seconds, { unit = "s", warn = args.warn, crit = args.crit, min = 0, labels = labels })
  local protocol, software = answer.received:match("^SSH%-([%d.]+)%-([^\r\n]*)")
  if not protocol then
    return "critical", string.format("%s port %d is no SSH server: it sends %q", args.host, args.port, answer.received:sub(1, 60))
  end
  if args.expect and not software:find(args.expect, 1, true) then
    return "critical", string.format("the server is %s, not %s", software, args.expect)
  end
  return status, string.format("%s (protocol %s) in %s", software, protocol, words.duration(answer.seconds))
end

return check
