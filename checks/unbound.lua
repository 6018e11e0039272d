local check = {
  summary = "Unbound: queries, cache, failures, time of recursion, from its control socket",
  needs = { "unix" },
  timeout = "20s",
  args = {
    socket = { type = "string", default = "/run/unbound.ctl", help = "control-interface of unbound.conf; the host's policy has to grant it" },
    warn = { type = "range", default = "10", help = "answers SERVFAIL in percent, of the last minutes (needs extended-statistics)" },
    crit = { type = "range", default = "50", help = "answers SERVFAIL in percent, of the last minutes" },
    recursion_warn = { type = "range", default = "2", help = "seconds that a recursion takes on average" },
    recursion_crit = { type = "range", help = "seconds that a recursion takes on average" },
    exceeded_warn = { type = "range", default = "0", help = "queries that were dropped in the last minutes because the list of requests was full" },
    exceeded_crit = { type = "range", help = "queries that were dropped in the last minutes because the list of requests was full" },
  },
}

local COUNTERS = {
  queries = "total.num.queries", cache_hits = "total.num.cachehits", cache_misses = "total.num.cachemiss", prefetches = "total.num.prefetch",
  rate_limited = "total.num.queries_ip_ratelimited", servfail = "num.answer.rcode.SERVFAIL", nxdomain = "num.answer.rcode.NXDOMAIN",
}

-- Returns the figures as texts by name and the seconds it took, or nil, code, text.
local function fetch(args, host)
  local answer, code, text = host.unix { path = args.socket, send = "UBCT1 stats_noreset\n", limit = 262144, timeout = 8 }
  if not answer then return nil, code, text end
  if not answer.closed then return nil, "protocol", args.socket .. " does not end its answer" end
  local fault = answer.received:match("^error ([^\r\n]*)")
  if fault then return nil, "failed", "Unbound refuses: " .. fault end
  local found = {}
  for name, value in answer.received:gmatch("([%w_.-]+)=([%d.]+)\n") do found[name] = value end
  return found, answer.seconds
end

-- Figures that are judged. Answers by their code are told with extended-statistics alone.
local JUDGED = { "total.recursion.time.avg", "total.requestlist.exceeded" }
local FAILED = "num.answer.rcode.SERVFAIL"

-- Adds the metrics. Returns the worst status of their thresholds, and names of figures that are not told.
local function measure(args, host, figures, took)
  local number, worse, recent, lacking = require("words").number, require("status").worse, require "recent", {}
  for _, name in ipairs(JUDGED) do
    if not number(figures[name]) then lacking[#lacking + 1] = name end
  end
  if figures["num.answer.rcode.NOERROR"] and not number(figures[FAILED]) then lacking[#lacking + 1] = FAILED end
  local worst = host.metric("recursion_time", number(figures[JUDGED[1]]) or 0, {
    unit = "s", warn = args.recursion_warn, crit = args.recursion_crit, min = 0,
  })
  local dropped = recent.growth(host, "exceeded", number(figures[JUDGED[2]]) or 0)
  worst = worse(worst, host.metric("exceeded", dropped, { unit = "queries", warn = args.exceeded_warn, crit = args.exceeded_crit, min = 0 }))
  local failed = number(figures[FAILED])
  local share = failed and recent.share(host, "servfail", failed, number(figures["total.num.queries"]) or 0)
  if share then worst = worse(worst, host.metric("servfail_share", share, { unit = "%", warn = args.warn, crit = args.crit, min = 0, max = 100 })) end
  for name, field in pairs(COUNTERS) do
    local value = number(figures[field])
    if value then host.metric(name, value, { unit = "c", kind = "counter" }) end
  end
  local waiting = number(figures["total.requestlist.current.all"])
  if waiting then host.metric("requests", waiting, { unit = "requests", min = 0 }) end
  host.metric("time", took, { unit = "s", min = 0 })
  return worst, lacking
end

function check.run(args, host)
  local words = require "words"
  local figures, took, text = fetch(args, host)
  if not figures then
    if took == "denied" or took == "bad-arguments" or took == "budget" then return "unknown", text end
    return "critical", text
  end
  local queries, hits, up = words.number(figures["total.num.queries"]), words.number(figures["total.num.cachehits"]), words.number(figures["time.up"])
  if not (queries and hits and up) then return "unknown", args.socket .. " is no control socket of Unbound" end
  local worst, lacking = measure(args, host, figures, took)
  host.metric("uptime", up, { unit = "s", min = 0 })
  local share = queries > 0 and string.format(", %.0f %% of them from the cache", hits * 100 / queries) or ""
  return require("lacking").verdict(worst, lacking, string.format("%s%s, up for %s", words.count(queries, "query", "queries"), share, words.duration(up)))
end

return check
