local check = {
  summary = "A NATS server: healthy, connections, messages, slow consumers, JetStream, from its monitoring port",
  needs = { "http" },
  timeout = "30s",
  args = {
    url = { type = "string", default = "http://localhost:8222", help = "the monitoring port (-m), without a path" },
    verify = { type = "boolean", default = true, help = "the certificate of an https url must be valid" },
    ca = { type = "string", help = "PEM text of the authorities to trust instead of the system's" },
    warn = { type = "range", default = "80", help = "connections in percent of what the server takes" },
    crit = { type = "range", default = "95", help = "connections in percent of what the server takes" },
    slow_warn = { type = "range", default = "0", help = "consumers that were dropped as too slow in the last minutes" },
    slow_crit = { type = "range", help = "consumers that were dropped as too slow in the last minutes" },
    storage_warn = { type = "range", default = "80", help = "files of JetStream in percent of their limit" },
    storage_crit = { type = "range", default = "95", help = "files of JetStream in percent of their limit" },
    routes_warn = { type = "range", help = "routes to other servers of the cluster, such as 2:" },
    routes_crit = { type = "range", help = "routes to other servers of the cluster" },
  },
}

local COUNTERS = { received_messages = "in_msgs", sent_messages = "out_msgs", received = "in_bytes", sent = "out_bytes", accepted = "total_connections" }

-- Returns the sentence of an unhealthy server, or nil; then code, text if it cannot be asked. /healthz answers 503 with a document.
local function illness_of(args, host)
  local answer, code, text = host.http { url = args.url:gsub("/+$", "") .. "/healthz", verify = args.verify, ca = args.ca, redirects = 0, timeout = 8 }
  if not answer then return nil, code, text end
  if answer.status == 404 then return nil end -- a server before 2.7
  local document = require("json").decode(answer.body)
  local word = require("fields").text(document, "status")
  if answer.status == 200 and word == "ok" then return nil end
  return require("fields").text(document, "error") or string.format("/healthz answers %d %s", answer.status, word or answer.reason)
end

-- Adds the metrics of JetStream, if it runs, and returns the status of its storage; adds to `lacking` what is not told.
local function measure_jetstream(args, host, varz, lacking)
  local number, worst = require("fields").number, "ok"
  local runs = next(require("fields").list(varz, "jetstream")) ~= nil
  for kind, names in pairs { file = { "storage", "max_storage" }, memory = { "memory", "max_memory" } } do
    local used, limit = number(varz, "jetstream", "stats", names[1]), number(varz, "jetstream", "config", names[2])
    if used then host.metric("jetstream", used, { unit = "B", min = 0, labels = { storage = kind } }) end
    if runs and not (used and limit) then lacking[#lacking + 1] = "JetStream's " .. kind end
    if used and limit and limit > 0 then
      local status = host.metric("jetstream_used", used * 100 / limit, {
        unit = "%", warn = args.storage_warn, crit = args.storage_crit, min = 0, labels = { storage = kind },
      })
      worst = require("status").worse(worst, status)
    end
  end
  return worst
end

-- Adds the metrics. Returns the worst status of their thresholds, how many consumers were slow lately, and names of figures that are not told.
local function measure(args, host, varz, connections)
  local number, worse, worst, lacking = require("fields").number, require("status").worse, "ok", {}
  local places, slow = number(varz, "max_connections"), number(varz, "slow_consumers")
  if not places then lacking[1] = "how many connections it takes" end
  if not slow then lacking[#lacking + 1] = "slow consumers" end
  if places and places > 0 then
    worst = host.metric("connections_used", connections * 100 / places, { unit = "%", warn = args.warn, crit = args.crit, min = 0 })
  end
  host.metric("connections", connections, { unit = "connections", min = 0 })
  for metric, field in pairs { subscriptions = "subscriptions", leafnodes = "leafnodes" } do
    if number(varz, field) then host.metric(metric, number(varz, field), { unit = metric, min = 0 }) end
  end
  if number(varz, "mem") then host.metric("memory", number(varz, "mem"), { unit = "B", min = 0 }) end
  local routes = number(varz, "routes") or 0
  worst = worse(worst, host.metric("routes", routes, { unit = "routes", warn = args.routes_warn, crit = args.routes_crit, min = 0 }))
  for metric, field in pairs(COUNTERS) do
    local value = number(varz, field)
    if value then host.metric(metric, value, { unit = (metric == "received" or metric == "sent") and "B" or "c", kind = "counter" }) end
  end
  local since = require("recent").growth(host, "slow consumers", slow or 0)
  worst = worse(worst, host.metric("slow_consumers", since, { unit = "consumers", warn = args.slow_warn, crit = args.slow_crit, min = 0 }))
  return worse(worst, measure_jetstream(args, host, varz, lacking)), since, lacking
end

function check.run(args, host)
  local api, fields, words = require "api", require "fields", require "words"
  local varz, seconds, text = api.get(host, args, "/varz")
  if not varz then return api.verdict(seconds, text) end
  local connections = fields.number(varz, "connections")
  if not (fields.text(varz, "server_id") and connections) then return "unknown", args.url .. " is no monitoring port of NATS" end
  local ill, code, why = illness_of(args, host)
  local worst, slow, lacking = measure(args, host, varz, connections)
  host.metric("time", seconds, { unit = "s", min = 0 })
  local summary = string.format("version %s, %s", fields.text(varz, "version") or "?", words.count(connections, "connection", "connections"))
  worst, summary = require("lacking").verdict(worst, lacking, summary)
  if slow > 0 then summary = summary .. ", " .. words.count(slow, "consumer was", "consumers were") .. " dropped as too slow" end
  if ill then return "critical", "not healthy: " .. ill .. ", " .. summary end
  if code then
    local status, sentence = api.verdict(code, why)
    return require("status").worse(worst, status), sentence .. ", " .. summary
  end
  return worst, summary
end

return check
