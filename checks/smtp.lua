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

-- Seconds of the whole dialogue, and of the goodbye, which counts for nothing.
local LONGEST, GOODBYE = 12, 2
-- An EHLO answer has a line for each extension: some dozen.
local MOST_LINES = 100
local LONGEST_REPLY = 8192

-- Sends a text, if there is one, and reads what comes up to the end of a line. Returns true, or nil, code, text.
local function exchange(host, talk, text)
  local fields = { ["until"] = "\n", limit = LONGEST_REPLY, timeout = math.max(0.1, talk.limit - talk.seconds), keep = true, send = text }
  if talk.connection then
    fields.connection = talk.connection
  else
    fields.host, fields.port, fields.tls = talk.args.host, talk.args.port, talk.args.tls
  end
  local answer, code, why = host.tcp(fields)
  if not answer then return nil, code, why end
  talk.connection, talk.seconds = answer.connection, talk.seconds + answer.seconds
  talk.ahead = talk.ahead .. answer.received
  return true
end

-- Sends a text, if there is one, and reads one reply. All of its lines but the last have a hyphen behind the code; a server
-- may pause between two of them, and refuse a client that talks before the last one. Returns the lines, or nil, code, text.
local function reply(host, talk, text)
  local lines = {}
  while #lines < MOST_LINES do
    local line, behind = talk.ahead:match("^([^\n]*)\n()")
    if line then
      lines[#lines + 1] = line:gsub("\r$", "")
      talk.ahead = talk.ahead:sub(behind)
      if not line:find("^%d%d%d%-") then return lines end
    elseif talk.begun and not talk.connection or #talk.ahead >= LONGEST_REPLY or talk.seconds >= talk.limit then
      lines[#lines + 1] = talk.ahead
      return lines
    else
      local read, code, why = exchange(host, talk, text)
      if not read then return nil, code, why end
      talk.begun, text = true, nil
    end
  end
  return lines
end

-- True if all lines have the code, and the last one is the end of the reply.
local function is_reply(lines, code)
  for _, line in ipairs(lines) do
    if line:sub(1, 3) ~= code then return false end
  end
  return lines[#lines]:find("^%d%d%d%-") == nil
end

-- Holds the whole dialogue. Returns { greeting, extensions, seconds }, or nil, code, text.
local function converse(args, host)
  local talk = { args = args, ahead = "", seconds = 0, limit = LONGEST }
  local greeting, code, why = reply(host, talk)
  if not greeting then return nil, code, why end
  local extensions = {}
  if is_reply(greeting, "220") then
    extensions, code, why = reply(host, talk, "EHLO monitoring.invalid\r\n")
    if not extensions then return nil, code, why end
  end
  local answer = { greeting = greeting, extensions = extensions, seconds = talk.seconds }
  talk.limit = talk.seconds + GOODBYE
  if talk.connection then reply(host, talk, "QUIT\r\n") end
  return answer
end

-- Returns the verdict on the replies, and its sentence.
local function evaluate(args, answer)
  if not is_reply(answer.greeting, "220") then
    local text = table.concat(answer.greeting, " ")
    return "critical", string.format("%s port %d is no ready mail server: it sends %q", args.host, args.port, text:sub(1, 60))
  end
  if not is_reply(answer.extensions, "250") then
    return "critical", string.format("the server does not answer EHLO: it sends %q", table.concat(answer.extensions, " "):sub(1, 60))
  end
  if not args.starttls then return "ok" end
  for _, line in ipairs(answer.extensions) do
    if line:upper():find("^250[ -]STARTTLS%f[%W]") then return "ok" end
  end
  return "critical", "the server offers no STARTTLS"
end

function check.run(args, host)
  local words, status = require "words", require "status"
  local answer, code, text = converse(args, host)
  if not answer then
    if code == "denied" or code == "bad-arguments" then return "unknown", text end
    return "critical", text
  end
  local labels = { host = args.host, port = tostring(args.port) }
  local time = host.metric("time", answer.seconds, { unit = "s", warn = args.warn, crit = args.crit, min = 0, labels = labels })
  print(table.concat(answer.greeting, "\n"))
  print(table.concat(answer.extensions, "\n"))
  local state, sentence = evaluate(args, answer)
  local greeting = answer.greeting[1]:sub(5)
  sentence = sentence or string.format("%s, answered in %s", greeting:sub(1, 100), words.duration(answer.seconds))
  return status.worse(state, time), sentence
end

return check
