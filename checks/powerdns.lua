local check = {
  summary = "PowerDNS, authoritative server or recursor: queries, failures, latency, cache, from its API",
  needs = { "http" },
  timeout = "20s",
  args = {
    url = { type = "string", default = "http://localhost:8081", help = "the web server of the API, without a path; a recursor has 8082" },
    key = { type = "string", required = true, help = "a secret with the api-key: { secret = \"NAME\" }" },
    verify = { type = "boolean", default = true, help = "the certificate of an https url must be valid" },
    ca = { type = "string", help = "PEM text of the authorities to trust instead of the system's" },
    warn = { type = "range", default = "10", help = "answers SERVFAIL in percent, of the last minutes" },
    crit = { type = "range", default = "50", help = "answers SERVFAIL in percent, of the last minutes" },
    latency_warn = { type = "range", default = "0.5", help = "seconds for an answer, on average" },
    latency_crit = { type = "range", help = "seconds for an answer, on average" },
  },
}

-- Names of the figures: an authoritative server counts udp-queries, a recursor questions.
local KINDS = {
  { kind = "authoritative server", mark = "udp-queries", queries = { "udp-queries", "tcp-queries" }, failed = "servfail-packets", latency = "latency",
    hits = "packetcache-hit", misses = "packetcache-miss", dropped = "overload-drops" },
  { kind = "recursor", mark = "questions", queries = { "questions" }, failed = "servfail-answers", latency = "qa-latency",
    hits = "cache-hits", misses = "cache-misses", dropped = "over-capacity-drops" },
}

-- Returns the figures as numbers by name. Some items are lists (a map of sizes), which this check does not take.
local function figures_of(document)
  local fields, found = require "fields", {}
  for _, item in ipairs(document) do
    local name = fields.text(item, "name")
    if name then found[name] = fields.number(item, "value") end
  end
  return found
end

-- Adds the metrics, and returns the worst status of their thresholds.
local function measure(args, host, figures, kind, queries)
  local worse, worst = require("status").worse, "ok"
  local share = figures[kind.failed] and require("recent").share(host, "servfail", figures[kind.failed], queries)
  if share then worst = host.metric("servfail_share", share, { unit = "%", warn = args.warn, crit = args.crit, min = 0, max = 100 }) end
  local latency = figures[kind.latency]
  if latency then -- microseconds
    worst = worse(worst, host.metric("latency", latency / 1000000, { unit = "s", warn = args.latency_warn, crit = args.latency_crit, min = 0 }))
  end
  host.metric("queries", queries, { unit = "c", kind = "counter" })
  for name, field in pairs { servfail = kind.failed, cache_hits = kind.hits, cache_misses = kind.misses, dropped = kind.dropped } do
    if figures[field] then host.metric(name, figures[field], { unit = "c", kind = "counter" }) end
  end
  if figures["real-memory-usage"] then host.metric("memory", figures["real-memory-usage"], { unit = "B", min = 0 }) end
  if figures.uptime then host.metric("uptime", figures.uptime, { unit = "s", min = 0 }) end
  return worst
end

function check.run(args, host)
  local api, words = require "api", require "words"
  local name, scheme = require("private").parts(args.url)
  if scheme ~= "https" and not require("private").is_here(name) then return "unknown", "the key would go to another host in plain text: give an https url" end
  local document, seconds, text = api.get(host, args, "/api/v1/servers/localhost/statistics", { headers = { ["x-api-key"] = args.key } })
  if not document then return api.verdict(seconds, text) end
  local figures, kind = figures_of(document), nil
  for _, one in ipairs(KINDS) do
    if not kind and figures[one.mark] then kind = one end
  end
  if not kind then return "unknown", args.url .. " is no API of PowerDNS" end
  local queries, lacking = 0, {}
  for _, field in ipairs(kind.queries) do
    if not figures[field] then lacking[#lacking + 1] = field end
    queries = queries + (figures[field] or 0)
  end
  if not figures[kind.latency] then lacking[#lacking + 1] = kind.latency end
  local worst = measure(args, host, figures, kind, queries)
  host.metric("time", seconds, { unit = "s", min = 0 })
  if not figures[kind.failed] then return require("status").worse(worst, "unknown"), string.format("%s tells nothing of queries that failed (%s)", args.url, kind.failed) end
  local up = figures.uptime and ", up for " .. words.duration(figures.uptime) or ""
  return require("lacking").verdict(worst, lacking, string.format("%s, %s%s", kind.kind, words.count(queries, "query", "queries"), up))
end

return check
