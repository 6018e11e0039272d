local check = {
  summary = "BIND: queries, failures, recursion, from its statistics channel",
  needs = { "http" },
  timeout = "20s",
  args = {
    url = { type = "string", default = "http://localhost:8053", help = "the statistics channel, without a path" },
    verify = { type = "boolean", default = true, help = "the certificate of an https url must be valid" },
    ca = { type = "string", help = "PEM text of the authorities to trust instead of the system's" },
    warn = { type = "range", default = "10", help = "answers SERVFAIL in percent, of the last minutes" },
    crit = { type = "range", default = "50", help = "answers SERVFAIL in percent, of the last minutes" },
    dropped_warn = { type = "range", default = "0", help = "queries that were dropped in the last minutes" },
    dropped_crit = { type = "range", help = "queries that were dropped in the last minutes" },
  },
}

local COUNTERS = {
  succeeded = "QrySuccess", nxdomain = "QryNXDOMAIN", servfail = "QrySERVFAIL", recursions = "QryRecursion", rejected = "AuthQryRej", recursion_rejected = "RecQryRej", dropped = "QryDropped",
  truncated = "TruncatedResp",
}

-- Adds the metrics, and returns the worst status of their thresholds.
local function measure(args, host, figures, queries)
  local number, worse, recent = require("fields").number, require("status").worse, require "recent"
  local share = recent.share(host, "servfail", number(figures, "QrySERVFAIL") or 0, queries)
  local worst = share and host.metric("servfail_share", share, { unit = "%", warn = args.warn, crit = args.crit, min = 0, max = 100 }) or "ok"
  local dropped = recent.growth(host, "dropped", number(figures, "QryDropped") or 0)
  worst = worse(worst, host.metric("dropped_lately", dropped, { unit = "queries", warn = args.dropped_warn, crit = args.dropped_crit, min = 0 }))
  host.metric("queries", queries, { unit = "c", kind = "counter" })
  for name, field in pairs(COUNTERS) do
    host.metric(name, number(figures, field) or 0, { unit = "c", kind = "counter" })
  end
  -- A gauge among the counters: queries that wait for the answers of others.
  local waiting = number(figures, "RecursClients")
  if waiting then host.metric("recursive_clients", waiting, { unit = "clients", min = 0 }) end
  return worst
end

function check.run(args, host)
  local api, fields, words = require "api", require "fields", require "words"
  local document, seconds, text = api.get(host, args, "/json/v1/server")
  if not document then
    if text and text:find("no JSON document", 1, true) then text = text .. ": BIND has to be built with json-c" end
    return api.verdict(seconds, text)
  end
  local version, figures = fields.text(document, "version"), fields.at(document, "nsstats")
  if not version or type(document.opcodes) ~= "table" then return "unknown", args.url .. " is no statistics channel of BIND" end
  -- A server that was asked nothing yet has no figures. QUERY counts all of them, over UDP and TCP, v4 and v6.
  local queries = fields.number(document, "opcodes", "QUERY") or 0
  if queries > 0 and not next(fields.list(document, "nsstats")) then
    return "unknown", string.format("%s tells of %s, and nothing of what became of them (nsstats)", args.url, words.count(queries, "query", "queries"))
  end
  for _, field in pairs(COUNTERS) do -- counters that are zero are left out
    if queries == 0 and (fields.number(figures, field) or 0) > 0 then
      return "unknown", string.format("%s tells what became of queries (%s), and not how many there were (opcodes)", args.url, field)
    end
  end
  local worst = measure(args, host, figures, queries)
  host.metric("time", seconds, { unit = "s", min = 0 })
  local booted, now = require("times").of(document["boot-time"]), require("times").of(document["current-time"])
  local up = ""
  if booted and now and now >= booted then
    host.metric("uptime", now - booted, { unit = "s", min = 0 })
    up = ", up for " .. words.duration(now - booted)
  end
  return worst, string.format("version %s, %s%s", version:match("^%S+"), words.count(queries, "query", "queries"), up)
end

return check
