local check = {
  summary = "An LDAP server: it takes a login and answers a search; the number of entries that are found",
  needs = { "tcp" },
  timeout = "40s",
  args = {
    host = { type = "string", default = "localhost", help = "name or address" },
    port = { type = "integer", default = 389, min = 1, max = 65535, help = "the port; 636 for TLS from the start" },
    tls = { type = "string", default = "off", choices = { "off", "on", "verify" }, help = "on accepts any certificate, verify a valid one" },
    starttls = { type = "boolean", default = false, help = "TLS begins by the request StartTLS" },
    ca = { type = "string", help = "PEM text of the authorities to trust with tls = \"verify\" instead of the system's" },
    user = { type = "string", help = "the name to log in with, such as cn=monitoring,dc=example,dc=org; without it, nobody logs in" },
    password = { type = "string", help = "a secret: { secret = \"NAME\" }" },
    base = { type = "string", default = "", help = "where to search; without it, the server is asked for its own entry" },
    filter = { type = "string", default = "(objectClass=*)", help = "what to search for: (NAME=VALUE), or (NAME=*) for any value" },
    entries_warn = { type = "range", help = "entries that are found below base, 1,000 at most" },
    entries_crit = { type = "range", default = "1:", help = "entries that are found below base" },
    warn = { type = "range", default = "2", help = "seconds for the dialogue" },
    crit = { type = "range", default = "10", help = "seconds for the dialogue" },
  },
}

-- Tags of the operations, and of what is in them.
local BIND, BOUND, UNBIND, SEARCH, ENTRY, DONE, REFERENCE, EXTENDED, EXTENDED_DONE = 0x60, 0x61, 0x42, 0x63, 0x64, 0x65, 0x73, 0x77, 0x78
local SIMPLE, REQUEST_NAME, EQUAL, PRESENT = 0x80, 0x80, 0xa3, 0x87
local START_TLS = "1.3.6.1.4.1.1466.20037"
local OK, TOO_MANY = 0, 4
local LONGEST, MOST_ENTRIES, STEP = 262144, 1000, 8
local RESULTS = {
  [1] = "an operation has failed", [2] = "it is no LDAP", [7] = "it does not take this kind of login", [8] = "it wants a stronger login",
  [13] = "it wants TLS: set starttls, and tls to \"on\" or \"verify\"", [32] = "there is no such entry", [34] = "that is no name of an entry",
  [48] = "it does not take this kind of login", [49] = "name or password are wrong", [50] = "the account may not do that", [51] = "the server is busy",
  [52] = "the server is not available", [53] = "the server is not willing",
}

-- Sends an operation.
local function send(connection, operation)
  local ber = require "ber"
  connection.turn = (connection.turn or 0) + 1
  connection:send(ber.element(ber.SEQUENCE, ber.integer(connection.turn), operation))
end

-- Returns the tag of the next answer and a reader of what is in it.
local function receive(connection)
  local ber, stream = require "ber", require "stream"
  local tag, length = connection:take(2):byte(1, 2)
  if tag ~= ber.SEQUENCE then stream.fail("protocol", "that is no LDAP server") end
  if length >= 0x80 then
    local count = length & 0x7f
    if count == 0 or count > 4 then stream.fail("protocol", "that is no LDAP server") end
    length = string.unpack(">I" .. count, connection:take(count))
  end
  if length > LONGEST then stream.fail("too-large", string.format("the server answers with %d bytes", length)) end
  local reader = ber.reader(connection:take(length))
  if reader:integer() ~= connection.turn then stream.fail("protocol", "the server ends the connection, or answers another question") end
  local kind, contents = reader:next()
  return kind, ber.reader(contents)
end

-- Reads a result. Fails unless it is good; `what` is what was asked for.
local function check_result(reader, what, also)
  local ber, stream = require "ber", require "stream"
  local code = reader:integer(ber.ENUMERATED)
  if code == OK or code == also then return code end
  reader:take(ber.TEXT)
  local said = reader:take(ber.TEXT)
  local why = RESULTS[code] or "result " .. code
  stream.fail(code == 13 and "unsupported" or "failed", string.format("the server refuses %s: %s%s", what, why, said ~= "" and " (" .. said:sub(1, 120) .. ")" or ""))
end

local function ask(connection, operation, answer, what)
  send(connection, operation)
  local kind, reader = receive(connection)
  if kind ~= answer then require("stream").fail("protocol", "the server answers another question") end
  check_result(reader, what)
end

-- Returns the filter of the arguments, encoded, or nil. A byte that may not be written stands as \28.
local function filter_of(text)
  local ber = require "ber"
  local name, value = text:match("^%(([%w;.-]+)=([^()]*)%)$")
  if not name then return nil end
  if value == "*" then return ber.element(PRESENT, name) end
  if value:find("*", 1, true) then return nil end
  value = value:gsub("\\(%x%x)", function(digits) return string.char(tonumber(digits, 16)) end)
  return ber.element(EQUAL, ber.element(ber.TEXT, name), ber.element(ber.TEXT, value))
end

-- Searches, and returns the number of entries, and true if there are more.
local function search(connection, args)
  local ber, stream = require "ber", require "stream"
  local scope = args.base == "" and 0 or 2 -- the server's own entry, or all below the base
  send(connection, ber.element(SEARCH, ber.element(ber.TEXT, args.base), ber.integer(scope, ber.ENUMERATED), ber.integer(0, ber.ENUMERATED), ber.integer(MOST_ENTRIES),
    ber.integer(STEP), ber.boolean(true), filter_of(args.filter), ber.element(ber.SEQUENCE, ber.element(ber.TEXT, "1.1"))))
  local count = 0
  while count <= MOST_ENTRIES do
    local kind, reader = receive(connection)
    if kind == DONE then return count, check_result(reader, "the search", TOO_MANY) == TOO_MANY end
    if kind ~= ENTRY and kind ~= REFERENCE then stream.fail("protocol", "the server answers another question") end
    if kind == ENTRY then count = count + 1 end
  end
  return count, true
end

-- Holds the whole dialogue. Returns { entries, more, took }.
local function asked(args, host)
  local ber, stream = require "ber", require "stream"
  local connection = stream.open(host.tcp, args, STEP)
  if args.tls ~= "off" and args.starttls then ask(connection, ber.element(EXTENDED, ber.element(REQUEST_NAME, START_TLS)), EXTENDED_DONE, "StartTLS") end
  if args.tls ~= "off" then connection:secure(args.tls, args.ca) end
  if args.user then
    if not connection:is_private() then
      stream.fail("unsupported", 'the password would go to another host unencrypted, or to anybody: use tls = "verify", with ca for an authority of your own')
    end
    ask(connection, ber.element(BIND, ber.integer(3), ber.element(ber.TEXT, args.user), ber.element(SIMPLE, args.password)), BOUND, "the login")
  end
  local entries, more = search(connection, args)
  local took = connection.took
  connection:close(ber.element(ber.SEQUENCE, ber.integer(connection.turn + 1), ber.element(UNBIND)))
  return { entries = entries, more = more, took = took }
end

-- Returns why the arguments cannot be used, or nil.
local function fault_of(args)
  if (args.user == nil) ~= (args.password == nil) then return "a login needs both user and password" end
  if args.password == "" then return "an empty password is no login: servers take it for nobody" end
  if args.starttls and args.tls == "off" then return 'starttls begins TLS by a request: set tls to "on" or "verify" as well' end
  if not filter_of(args.filter) then return "filter: it is (NAME=VALUE), or (NAME=*) for any value" end
end

function check.run(args, host)
  local stream, words, worse = require "stream", require "words", require("status").worse
  local fault = fault_of(args)
  if fault then return "unknown", fault end
  local found, code, text = stream.guarded(asked, args, host)
  if not found then
    if code == "denied" or code == "bad-arguments" or code == "unsupported" or code == "budget" then return "unknown", text end
    return "critical", text
  end
  local labels = { host = args.host, port = tostring(args.port) }
  local worst = host.metric("time", found.took, { unit = "s", warn = args.warn, crit = args.crit, min = 0, labels = labels })
  local searched = args.base ~= ""
  worst = worse(worst, host.metric("entries", found.entries, {
    unit = "entries", warn = searched and args.entries_warn or nil, crit = searched and args.entries_crit or nil, min = 0, labels = labels,
  }))
  if not searched and found.entries ~= 1 then return worse(worst, "unknown"), "the server does not show its own entry: name a base" end
  local entries = searched and string.format("%s%s below %s", found.more and "at least " or "", words.count(found.entries, "entry", "entries"), args.base) or "it answers"
  return worst, string.format("%s%s, in %s", args.user and "logged in, " or "", entries, words.duration(found.took))
end

return check
