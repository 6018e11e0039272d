local check = {
  summary = "An IMAP server greets; with an account it logs in and counts the messages of a mailbox",
  needs = { "tcp" },
  timeout = "40s",
  args = {
    host = { type = "string", default = "localhost", help = "name or address" },
    port = { type = "integer", default = 143, min = 1, max = 65535, help = "the port; 993 for TLS from the start" },
    tls = { type = "string", default = "off", choices = { "off", "on", "verify" }, help = "on accepts any certificate, verify a valid one" },
    starttls = { type = "boolean", default = false, help = "TLS begins after the greeting" },
    ca = { type = "string", help = "PEM text of the authorities to trust with tls = \"verify\" instead of the system's" },
    user = { type = "string", help = "the account to log in with" },
    password = { type = "string", help = "a secret: { secret = \"NAME\" }" },
    mailbox = { type = "string", default = "INBOX", help = "the mailbox whose messages are counted; none is marked as read" },
    messages_warn = { type = "range", help = "messages in the mailbox" },
    messages_crit = { type = "range", help = "messages in the mailbox" },
    warn = { type = "range", default = "2", help = "seconds for the dialogue" },
    crit = { type = "range", default = "10", help = "seconds for the dialogue" },
  },
}

-- Lines without a tag before the answer of a command: capabilities, alerts, flags of a mailbox.
local MOST_LINES = 200

local function quoted(text)
  return '"' .. text:gsub('[\\"]', "\\%0") .. '"'
end

-- Sends a command. Returns its lines without a tag, and the text of its answer; fails if that is not OK.
local function command(connection, tag, text, what)
  local stream = require "stream"
  connection:send(tag .. " " .. text .. "\r\n")
  local lines = {}
  for _ = 1, MOST_LINES do
    local line = connection:line()
    local word, rest = line:match("^" .. tag .. " (%u+) ?(.*)$")
    if word == "OK" then return lines, rest end
    if word then stream.fail("failed", string.format("the server refuses %s: %s", what, rest ~= "" and rest or word)) end
    if line:sub(1, 1) ~= "*" and line:sub(1, 1) ~= "+" then stream.fail("protocol", string.format("that is no IMAP server: it sends %q", line:sub(1, 60))) end
    lines[#lines + 1] = line
  end
  stream.fail("protocol", "the server answers without an end")
end

local function capabilities_of(connection, tag)
  return (" " .. table.concat(command(connection, tag, "CAPABILITY", "to tell what it can"), " ") .. " "):upper()
end

-- Logs in and counts. Returns the number of messages and of those that nobody has read.
local function look(connection, args, can)
  local stream = require "stream"
  require("mailbox").needs_privacy(connection)
  if can:find(" LOGINDISABLED ", 1, true) then
    stream.fail("unsupported", 'the server takes no login without TLS: set starttls, and tls to "on" or "verify"')
  end
  command(connection, "c", "LOGIN " .. quoted(args.user) .. " " .. quoted(args.password), "the login")
  local lines = command(connection, "d", "STATUS " .. quoted(args.mailbox) .. " (MESSAGES UNSEEN)", "the mailbox " .. args.mailbox)
  local text = table.concat(lines, " "):upper()
  local messages, unseen = tonumber(text:match("[( ]MESSAGES (%d+)")), tonumber(text:match("[( ]UNSEEN (%d+)"))
  if not messages then stream.fail("protocol", "the server does not tell the number of messages") end
  return messages, unseen
end

local function talk(args, host)
  local connection = require("mailbox").open(host, args)
  local greeting = connection:line()
  local word, text = greeting:match("^%* (%u+) ?(.*)$")
  if word ~= "OK" and word ~= "PREAUTH" then
    require("stream").fail("protocol", string.format("%s port %d is no ready IMAP server: it sends %q", args.host, args.port, greeting:sub(1, 60)))
  end
  if args.starttls then
    command(connection, "a", "STARTTLS", "STARTTLS")
    connection:secure(args.tls, args.ca)
  end
  local can = capabilities_of(connection, "b")
  if not can:find(" IMAP4", 1, true) then require("stream").fail("protocol", "the server does not offer IMAP4") end
  local found = { greeting = text:gsub("^%[[^%]]*%] *", ""), messages = nil, unseen = nil }
  if args.user then found.messages, found.unseen = look(connection, args, can) end
  found.took = connection.took
  connection:close("z LOGOUT\r\n")
  return found
end

function check.run(args, host)
  return require("mailbox").checked(args, host, talk)
end

return check
