local check = {
  summary = "The Helen of this network: its own problems, connected agents, messages that wait",
  needs = { "http", "unix" },
  timeout = "30s",
  args = {
    url = { type = "string", default = "http://localhost:4167", help = "the address of its API, without a path" },
    token = { type = "string", help = "a secret with a token of its API: { secret = \"NAME\" }" },
    socket = { type = "string", help = "path of its STATE/control.sock, instead of url and token" },
    verify = { type = "boolean", default = true, help = "the certificate of an https url must be valid" },
    away_warn = { type = "range", help = "agents that are not connected, in percent" },
    away_crit = { type = "range", help = "agents that are not connected, in percent" },
    backlog_warn = { type = "range", default = "33554432", help = "bytes of results that wait for the disk" },
    backlog_crit = { type = "range", help = "bytes of results that wait for the disk" },
    dead_warn = { type = "range", default = "0", help = "messages that were given up" },
    dead_crit = { type = "range", help = "messages that were given up" },
  },
}

local PATH = "/api/v1/status"

-- Returns the status document and the seconds it took, or nil, code, text.
local function ask(args, host)
  if args.socket then
    local before = host.now()
    local status, body, text = require("unix_http").get(host, args.socket, PATH, 10)
    if not status then return nil, body, text end
    if status ~= 200 then return nil, "failed", string.format("Helen answers %d", status) end
    local document, why = require("json").decode(body)
    if type(document) ~= "table" then return nil, "protocol", "the answer of Helen is no JSON: " .. (why or "no table") end
    return document, host.now() - before
  end
  local name, scheme = require("private").parts(args.url)
  if args.token and scheme ~= "https" and not require("private").is_here(name) then
    return nil, "bad-arguments", "the token would go to another host in plain text: give an https url"
  end
  local headers = args.token and { authorization = "Bearer " .. args.token } or {}
  local answer, code, text = host.http { url = args.url .. PATH, headers = headers, verify = args.verify, redirects = 0, timeout = 10 }
  if not answer then return nil, code, text end
  if answer.status == 401 then return nil, "bad-arguments", "Helen refuses access: " .. (args.token and "the token is not valid there" or "give a token") end
  if answer.status ~= 200 then return nil, "failed", string.format("Helen answers %d %s", answer.status, answer.reason) end
  local document, why = require("json").decode(answer.body)
  if type(document) ~= "table" then return nil, "protocol", args.url .. " is no Helen: " .. (why or "no table") end
  return document, answer.seconds
end

-- Returns a trouble of journal or database (critical), or nil and a fault of the settings (warning).
local function troubles_of(document)
  local function sentence(part, field)
    local text = type(document[part]) == "table" and document[part][field]
    return type(text) == "string" and text or nil
  end
  local trouble = sentence("journal", "trouble") or sentence("store", "trouble")
  if trouble then return trouble end
  local wrong = sentence("assignments", "fault")
  if wrong then return nil, "the assignments are not in force: " .. wrong end
  wrong = sentence("notifications", "fault")
  return nil, wrong and "the notifications are not as written: " .. wrong
end

local function measure(args, host, document, seconds)
  local worse, agents = require("status").worse, document.agents
  local known, connected, lacking = agents.known or 0, agents.connected or 0, {}
  if not (agents.known and agents.connected) then lacking[1] = "its agents" end
  local worst = host.metric("away", known > 0 and (known - connected) * 100 / known or 0, { unit = "%", warn = args.away_warn, crit = args.away_crit, min = 0, max = 100 })
  host.metric("agents", known, { unit = "agents", min = 0 })
  host.metric("connected", connected, { unit = "agents", min = 0 })
  local backlog = type(document.journal) == "table" and document.journal.backlog
  if backlog then
    worst = worse(worst, host.metric("backlog", backlog, { unit = "B", warn = args.backlog_warn, crit = args.backlog_crit, min = 0 }))
  end
  if not backlog then lacking[#lacking + 1] = "results that wait for the disk" end
  for _, word in ipairs { "ok", "warning", "critical", "unknown" } do
    local count = type(document.checks) == "table" and document.checks[word]
    if count then host.metric("checks", count, { unit = "checks", min = 0, labels = { status = word } }) end
  end
  local outbox = type(document.notifications) == "table" and document.notifications or {}
  if outbox.waiting then host.metric("messages_waiting", outbox.waiting, { unit = "messages", min = 0 }) end
  if outbox.dead then
    worst = worse(worst, host.metric("messages_given_up", outbox.dead, { unit = "messages", warn = args.dead_warn, crit = args.dead_crit, min = 0 }))
  end
  if not outbox.dead then lacking[#lacking + 1] = "messages that were given up" end
  host.metric("time", seconds, { unit = "s", min = 0 })
  return worst, known, connected, lacking
end

function check.run(args, host)
  local worse = require("status").worse
  local document, seconds, text = ask(args, host)
  if not document then
    if seconds == "denied" or seconds == "bad-arguments" then return "unknown", text end
    return "critical", text
  end
  if type(document.agents) ~= "table" then return "critical", "that is no Helen: its status names no agents" end
  local worst, known, connected, lacking = measure(args, host, document, seconds)
  local trouble, fault = troubles_of(document)
  if trouble then return "critical", trouble end
  if fault then return worse(worst, "warning"), fault end
  return require("lacking").verdict(worst, lacking, string.format("version %s, %d of %d agents connected", tostring(document.version or "?"), connected, known))
end

return check
