local check = {
  summary = "A server of OpenVPN: its clients, and those that have to be connected, from its management interface",
  needs = { "tcp", "unix" },
  timeout = "20s",
  args = {
    host = { type = "string", default = "localhost", help = "where its management interface listens" },
    port = { type = "integer", default = 7505, min = 1, max = 65535, help = "the port (management 127.0.0.1 7505)" },
    socket = { type = "string", help = "path of its socket (management PATH unix), instead of host and port; the host's policy has to grant it" },
    required = { type = "list", default = {}, help = "common names of clients that have to be connected; * and ? are wildcards" },
    warn = { type = "range", help = "number of clients" },
    crit = { type = "range", help = "number of clients" },
  },
}

local MOST_LINES = 5000

-- Returns { name, received, sent, since } of a line of the list, by the columns of its header; nil if it cannot be read.
local function client_of(line, columns)
  local number, values = require("words").number, {}
  for value in (line .. ","):gmatch("([^,]*),") do values[#values + 1] = value end
  local function field(name) return values[(columns[name] or 0)] end
  local name, received, sent = field("Common Name"), number(field("Bytes Received")), number(field("Bytes Sent"))
  if not (name and name ~= "" and received and sent) then return nil end
  return { name = name, received = received, sent = sent, since = number(field("Connected Since (time_t)")) }
end

-- Holds the dialogue. Returns { title, clients, took }.
local function asked(args, host)
  local stream = require "stream"
  local connection = stream.open(args.socket and host.unix or host.tcp, args, 8)
  local hello = connection:take(5)
  if hello == "ENTER" then -- and a prompt behind it, which is no line
    stream.fail("unsupported", "the management interface wants a password: bind it to a socket that only root and the agent can open")
  end
  hello = hello .. connection:line()
  if not hello:find("^>INFO:OpenVPN") then stream.fail("protocol", string.format("that is no management interface of OpenVPN: it sends %q", hello:sub(1, 60))) end
  connection:send("status 2\n")
  local found, columns = { clients = {} }, nil
  for _ = 1, MOST_LINES do
    local line = connection:line()
    local fault = line:match("^ERROR: *(.*)$")
    if fault then stream.fail("failed", "OpenVPN refuses: " .. fault) end
    if line == "END" then
      if not columns then stream.fail("unsupported", "this OpenVPN is no server: it has no list of clients") end
      found.took = connection.took
      connection:close("quit\n")
      return found
    end
    found.title = found.title or line:match("^TITLE,(OpenVPN %S+)")
    local header = line:match("^HEADER,(CLIENT_LIST,.*)$")
    if header then
      local place = 0
      columns = {}
      for name in (header .. ","):gmatch("([^,]*),") do
        place = place + 1
        columns[name] = place
      end
    elseif line:find("^CLIENT_LIST,") then
      local client = client_of(line, columns or {})
      if not client then stream.fail("unsupported", "the list has a client that cannot be read") end
      found.clients[#found.clients + 1] = client
    end
  end
  stream.fail("too-large", string.format("the status has more than %d lines", MOST_LINES))
end

function check.run(args, host)
  local stream, words, worse, patterns = require "stream", require "words", require("status").worse, require "patterns"
  local found, code, text = stream.guarded(asked, args, host)
  if not found then
    if code == "denied" or code == "bad-arguments" or code == "unsupported" or code == "too-large" or code == "budget" then return "unknown", text end
    return "critical", text
  end
  local received, sent, parts = 0, 0, {}
  for _, client in ipairs(found.clients) do
    received, sent = received + client.received, sent + client.sent
    if client.since and patterns.any(client.name, args.required) then
      host.metric("connected", math.max(0, host.now() - client.since), { unit = "s", min = 0, labels = { client = client.name } })
    end
  end
  local worst = host.metric("clients", #found.clients, { unit = "clients", warn = args.warn, crit = args.crit, min = 0 })
  -- Bytes of the sessions that are open now: the sum falls when one ends.
  for name, value in pairs { received = received, sent = sent } do host.metric(name, value, { unit = "B", min = 0 }) end
  host.metric("time", found.took, { unit = "s", min = 0 })
  for _, wanted in ipairs(args.required) do
    local seen = false
    for _, client in ipairs(found.clients) do seen = seen or patterns.fits(client.name, wanted) end
    if not seen then worst, parts[#parts + 1] = "critical", wanted .. " is not connected" end
  end
  parts[#parts + 1] = string.format("%s, %s", found.title or "OpenVPN", words.count(#found.clients, "client", "clients"))
  return worst, words.list(parts, 6)
end

return check
