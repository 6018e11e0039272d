local check = {
  summary = "An MQTT broker: it takes a client; its own figures, and the value of a retained message",
  needs = { "tcp", "crypto" },
  timeout = "40s",
  args = {
    host = { type = "string", default = "localhost", help = "name or address" },
    port = { type = "integer", default = 1883, min = 1, max = 65535, help = "the port; 8883 for TLS" },
    tls = { type = "string", default = "off", choices = { "off", "on", "verify" }, help = "on accepts any certificate, verify a valid one" },
    ca = { type = "string", help = "PEM text of the authorities to trust with tls = \"verify\" instead of the system's" },
    user = { type = "string", help = "the account to log in with" },
    password = { type = "string", help = "a secret: { secret = \"NAME\" }" },
    topic = { type = "string", help = "a topic that has to have a retained message; no wildcards" },
    equals = { type = "string", help = "what that message must be" },
    value_warn = { type = "range", help = "for a message that is a number" },
    value_crit = { type = "range", help = "for a message that is a number" },
    clients_warn = { type = "range", help = "connected clients, where the broker tells their number" },
    clients_crit = { type = "range", help = "connected clients, where the broker tells their number" },
    warn = { type = "range", default = "2", help = "seconds for the dialogue" },
    crit = { type = "range", default = "10", help = "seconds for the dialogue" },
  },
}

-- Topics of Mosquitto and of those that follow it; other brokers have none of them.
local CLIENTS = "$SYS/broker/clients/connected"
local COUNTERS = {
  received_messages = "$SYS/broker/messages/received", sent_messages = "$SYS/broker/messages/sent",
  received = "$SYS/broker/bytes/received", sent = "$SYS/broker/bytes/sent",
}
local VERSION = "$SYS/broker/version"

-- Returns what was found: retained and refused by topic, and the seconds it took.
local function asked(args, host)
  local stream, mqtt = require "stream", require "mqtt"
  local connection = stream.open(host.tcp, args, 8)
  if args.tls ~= "off" then connection:secure(args.tls, args.ca) end
  if args.password and not connection:is_private() then
    stream.fail("unsupported", 'the password would go to another host unencrypted, or to anybody: use tls = "verify", with ca for an authority of your own')
  end
  local random, code, text = host.crypto.random(8)
  if not random then stream.fail(code, text) end
  mqtt.connect(connection, "monitoring" .. random, args)
  local topics = { CLIENTS, VERSION, args.topic }
  for _, topic in pairs(COUNTERS) do table.insert(topics, 1, topic) end
  local retained, refused = mqtt.retained(connection, topics)
  local took = connection.took
  connection:close("\xe0\0")
  return { retained = retained, refused = refused, took = took }
end

-- Judges the message that the arguments name. Returns the status and its sentence.
local function judge(args, host, found)
  if found.refused[args.topic] then return "unknown", string.format("the account may not read %s", args.topic) end
  local message = found.retained[args.topic]
  if not message then return "critical", string.format("%s has no retained message", args.topic) end
  local shown = string.format("%s is %s", args.topic, message:sub(1, 60):gsub("[^%g ]", "?"))
  if args.equals and message ~= args.equals then return "critical", string.format("%s, not %s", shown, args.equals) end
  local value = require("words").number(message:match("^%s*(%S+)"))
  if value then return host.metric("value", value, { unit = "", warn = args.value_warn, crit = args.value_crit, labels = { topic = args.topic } }), shown end
  if args.value_warn or args.value_crit then return "unknown", shown .. ", which is no number" end
  return "ok", shown
end

function check.run(args, host)
  local stream, words, worse = require "stream", require "words", require("status").worse
  if args.topic and (args.topic == "" or args.topic:find("[#+%z]") or #args.topic > 1000) then
    return "unknown", "topic: it is the name of one topic, without # and +"
  end
  if args.password and not args.user then return "unknown", "a password needs a user" end
  local found, code, text = stream.guarded(asked, args, host)
  if not found then
    if code == "denied" or code == "bad-arguments" or code == "unsupported" or code == "budget" then return "unknown", text end
    return "critical", text
  end
  local worst = host.metric("time", found.took, { unit = "s", warn = args.warn, crit = args.crit, min = 0 })
  local parts = { "it answers in " .. words.duration(found.took) }
  local version = found.retained[VERSION]
  if version then table.insert(parts, 1, version:sub(1, 60)) end
  local clients = words.number(found.retained[CLIENTS])
  if clients then
    worst = worse(worst, host.metric("clients", clients, { unit = "clients", warn = args.clients_warn, crit = args.clients_crit, min = 0 }))
    parts[#parts + 1] = words.count(clients, "client", "clients")
  elseif args.clients_warn or args.clients_crit then
    worst, parts[#parts + 1] = worse(worst, "unknown"), "it does not tell the number of its clients"
  end
  for name, topic in pairs(COUNTERS) do
    local value = words.number(found.retained[topic])
    if value then host.metric(name, value, { unit = (name == "received" or name == "sent") and "B" or "c", kind = "counter" }) end
  end
  if not args.topic then return worst, table.concat(parts, ", ") end
  local status, sentence = judge(args, host, found)
  return worse(worst, status), sentence .. ", " .. table.concat(parts, ", ")
end

return check
