local check = {
  summary = "A POP3 server greets; with an account it logs in and counts the messages",
  needs = { "tcp" },
  timeout = "40s",
  args = {
    host = { type = "string", default = "localhost", help = "name or address" },
    port = { type = "integer", default = 110, min = 1, max = 65535, help = "the port; 995 for TLS from the start" },
    tls = { type = "string", default = "off", choices = { "off", "on", "verify" }, help = "on accepts any certificate, verify a valid one" },
    starttls = { type = "boolean", default = false, help = "TLS begins after the greeting (STLS)" },
    ca = { type = "string", help = "PEM text of the authorities to trust with tls = \"verify\" instead of the system's" },
    user = { type = "string", help = "the account to log in with; the server locks its mailbox for the time of the check" },
    password = { type = "string", help = "a secret: { secret = \"NAME\" }" },
    messages_warn = { type = "range", help = "messages in the mailbox" },
    messages_crit = { type = "range", help = "messages in the mailbox" },
    warn = { type = "range", default = "2", help = "seconds for the dialogue" },
    crit = { type = "range", default = "10", help = "seconds for the dialogue" },
  },
}

-- Sends a command, and returns the text of its answer; fails if the server does not take it.
local function command(connection, text, what)
  connection:send(text .. "\r\n")
  local line = connection:line()
  local rest = line:match("^%+OK ?(.*)$")
  if rest then return rest end
  rest = line:match("^%-ERR ?(.*)$")
  if rest then require("stream").fail("failed", string.format("the server refuses %s: %s", what, rest ~= "" and rest or "without a word")) end
  require("stream").fail("protocol", string.format("that is no POP3 server: it sends %q", line:sub(1, 60)))
end

-- Logs in and returns the number of messages.
local function look(connection, args)
  require("mailbox").needs_privacy(connection)
  command(connection, "USER " .. args.user, "the user")
  command(connection, "PASS " .. args.password, "the login")
  local messages = command(connection, "STAT", "to count"):match("^(%d+) %d+")
  if not messages then require("stream").fail("protocol", "the server does not tell the number of messages") end
  return tonumber(messages)
end

local function talk(args, host)
  local connection = require("mailbox").open(host, args)
  local greeting = connection:line()
  local text = greeting:match("^%+OK ?(.*)$")
  if not text then
    require("stream").fail("protocol", string.format("%s port %d is no ready POP3 server: it sends %q", args.host, args.port, greeting:sub(1, 60)))
  end
  if args.starttls then
    command(connection, "STLS", "STLS")
    connection:secure(args.tls, args.ca)
  end
  local found = { greeting = text ~= "" and text or "ready", messages = nil }
  if args.user then found.messages = look(connection, args) end
  -- A server that greets and no more is none that works: this is the least that it has to answer.
  command(connection, "QUIT", "to part")
  found.took = connection.took
  connection:close("")
  return found
end

function check.run(args, host)
  return require("mailbox").checked(args, host, talk)
end

return check
