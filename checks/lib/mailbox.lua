-- Opens a connection to a server of IMAP or POP3, and judges what became of it. The dialogue between is that of the check.
local stream = require "stream"

local mailbox = {}

-- Seconds of each step of the dialogue.
local STEP = 8
-- Codes that lie with the check or its arguments, and say nothing about the server.
local OURS = { denied = true, ["bad-arguments"] = true, unsupported = true, budget = true }

-- Connects, and starts TLS at once unless the arguments want it after the greeting.
function mailbox.open(host, args)
  if args.starttls and args.tls == "off" then
    stream.fail("bad-arguments", 'starttls begins TLS after the greeting: set tls to "on" or "verify" as well')
  end
  local connection = stream.open(host.tcp, args, STEP)
  if args.tls ~= "off" and not args.starttls then connection:secure(args.tls, args.ca) end
  return connection
end

-- Fails unless a password may be sent: no other host can read it on its way.
function mailbox.needs_privacy(connection)
  if connection:is_private() then return end
  stream.fail("unsupported", 'the password would go to another host unencrypted, or to anybody: use tls = "verify", with ca for an authority of your own')
end

-- Runs the dialogue, adds the metrics, and returns the status and the summary. `talk(args, host)` returns { greeting, took,
-- messages, unseen }, of which the last two are there after a login.
function mailbox.checked(args, host, talk)
  local words, worse = require "words", require("status").worse
  if (args.user == nil) ~= (args.password == nil) then return "unknown", "a login needs both user and password" end
  local found, code, text = stream.guarded(talk, args, host)
  if not found then return OURS[code] and "unknown" or "critical", text end
  local labels = { host = args.host, port = tostring(args.port) }
  local status = host.metric("time", found.took, { unit = "s", warn = args.warn, crit = args.crit, min = 0, labels = labels })
  local summary = found.greeting:sub(1, 80)
  if found.messages then
    local metric = { unit = "messages", warn = args.messages_warn, crit = args.messages_crit, min = 0, labels = labels }
    status = worse(status, host.metric("messages", found.messages, metric))
    summary = string.format("%s, logged in, %s", summary, words.count(found.messages, "message", "messages"))
  end
  if found.unseen then host.metric("unseen", found.unseen, { unit = "messages", min = 0, labels = labels }) end
  return status, string.format("%s, answered in %s", summary, words.duration(found.took))
end

return mailbox
