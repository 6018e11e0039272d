local check = {
  summary = "Interfaces of a switch or router by SNMP: up or down, traffic, use, errors, discards",
  needs = { "udp", "crypto" },
  timeout = "30s",
  args = {
    host = { type = "string", default = "localhost", help = "name or address" },
    port = { type = "integer", default = 161, min = 1, max = 65535, help = "the port" },
    version = { type = "string", default = "2c", choices = { "1", "2c", "3" }, help = "of SNMP; 3 proves and encrypts" },
    community = { type = "string", default = "public", help = "for 1 and 2c, a secret: { secret = \"NAME\" }" },
    user = { type = "string", default = "", help = "for 3" },
    auth = { type = "string", default = "sha", choices = { "md5", "sha", "sha224", "sha256", "sha384", "sha512" }, help = "for 3: proves by" },
    auth_password = { type = "string", help = "for 3, a secret; without it nothing is proved" },
    privacy = { type = "string", default = "aes", choices = { "des", "aes", "aes192", "aes256", "aes192c", "aes256c" }, help = "for 3: encrypts by; c: Cisco's keys" },
    privacy_password = { type = "string", help = "for 3, a secret; without it nothing is encrypted" },
    context = { type = "string", default = "", help = "for 3" },
    wait = { type = "duration", default = "2s", min = 0.1, max = 20, help = "for each answer" },
    retries = { type = "integer", default = 2, min = 0, max = 5, help = "of a datagram that is not answered" },
    interfaces = { type = "list", default = { "*" }, help = "names or patterns (* and ?) of interfaces to look at" },
    exclude = { type = "list", default = { "lo", "Loopback*", "Null*" }, help = "interfaces to leave out" },
    up = { type = "list", help = "names or patterns of interfaces that must be up, also of those that are left out; one that is switched off by its operator is not" },
    most = { type = "integer", default = 120, min = 1, max = 500, help = "interfaces that the device may have" },
    error_warn = { type = "range", default = "1", help = "errors a second" },
    error_crit = { type = "range", default = "100", help = "errors a second" },
    discard_warn = { type = "range", help = "discards a second" },
    discard_crit = { type = "range", help = "discards a second" },
    use_warn = { type = "range", help = "use of the interface's speed in percent, where the speed is known" },
    use_crit = { type = "range", help = "use of the interface's speed in percent" },
  },
}

-- Metrics of traffic, and the tables' columns that they are.
local OCTETS = { { "received", "octets_in" }, { "sent", "octets_out" } }
-- Metrics of errors and discards, with the tables' columns that they are sums of, and the arguments that judge them.
local SUMS = {
  { "errors_rate", "error", "errors_in", "errors_out", "%.4g errors/s" }, { "discards_rate", "discard", "discards_in", "discards_out", "%.4g discards/s" },
}

-- Adds the metrics of an interface that is up. Returns their worst status, what is bad or its traffic, and how much that is.
local function measure(args, host, since, one)
  local worse, words, labels, worst, bad = require("status").worse, require "words", { interface = one.name }, "ok", {}
  local function judged(name, value, unit, kind, said)
    local status = host.metric(name, value, { unit = unit, warn = args[kind .. "_warn"], crit = args[kind .. "_crit"], min = 0, labels = labels })
    worst = worse(worst, status)
    if status ~= "ok" then bad[#bad + 1] = string.format(said, value) end
  end
  local rates = {}
  for _, pair in ipairs(OCTETS) do
    local metric, way = table.unpack(pair)
    local entry = one[way]
    rates[way] = entry and since:rate(one.index .. way, entry, one.mark)
    -- A 32-bit counter wraps every few minutes: what reads the history would take that for a restart.
    if entry and entry.type == "counter64" then
      host.metric(metric, require("snmp").number(entry), { unit = "B", kind = "counter", labels = labels })
    end
    if rates[way] then host.metric(metric .. "_rate", rates[way], { unit = "B/s", min = 0, labels = labels }) end
  end
  for _, sum in ipairs(SUMS) do
    local into = one[sum[3]] and since:rate(one.index .. sum[3], one[sum[3]], one.mark)
    local out = one[sum[4]] and since:rate(one.index .. sum[4], one[sum[4]], one.mark)
    if into or out then judged(sum[1], (into or 0) + (out or 0), "1/s", sum[2], sum[5]) end
  end
  local into, out = rates.octets_in, rates.octets_out
  if into and out and one.speed then judged("use", math.max(into, out) * 800 / one.speed, "%", "use", "%.0f %% in use") end
  if worst ~= "ok" then return worst, string.format("%s: %s", one.name, table.concat(bad, ", ")), 0 end
  if not into or not out then return worst end
  local text = string.format("%s in %s/s out %s/s", one.name, words.bytes(math.floor(into)), words.bytes(math.floor(out)))
  return worst, text, math.max(into, out)
end

-- Returns the interfaces, and the time since the device's start.
local function asked(args, host)
  local snmp = require "snmp"
  return require("snmp_tables").interfaces(snmp.open(host, args), args.most)
end

local function is_wanted(args, one)
  local any = require("patterns").any
  return any(one.name, args.interfaces) and not any(one.name, args.exclude)
end

-- Judges all interfaces. Returns the worst status, those that are bad, all traffic, and their numbers.
local function judge(args, host, list, since)
  local worse, any = require("status").worse, require("patterns").any
  local found = { worst = "ok", bad = {}, traffic = {}, up = 0, all = 0 }
  for _, one in ipairs(list) do
    local is_wanted, must_be_up = is_wanted(args, one), args.up ~= nil and any(one.name, args.up)
    if is_wanted or must_be_up then
      found.all = found.all + (is_wanted and 1 or 0)
      host.metric("up", one.is_up and 1 or 0, { labels = { interface = one.name }, unit = "", min = 0, max = 1 })
      local status, text, size = "ok", nil, nil
      if one.is_up and is_wanted then
        found.up = found.up + 1
        status, text, size = measure(args, host, since, one)
      end
      if must_be_up and not one.is_up then
        status, text = "critical", string.format("%s is %s", one.name, one.is_off and "switched off" or one.state)
      end
      if text then table.insert(status == "ok" and found.traffic or found.bad, { text = text, size = size or 0 }) end
      found.worst = worse(found.worst, status)
    end
  end
  return found
end

-- Returns the texts of a list, the largest first.
local function texts(list)
  table.sort(list, function(one, other) return one.size > other.size or (one.size == other.size and one.text < other.text) end)
  local told = {}
  for at, one in ipairs(list) do told[at] = one.text end
  return require("words").list(told)
end

-- Returns the patterns that must be up and fit no interface.
local function missing(args, list)
  local fits, gone = require("patterns").fits, {}
  for _, pattern in ipairs(args.up or {}) do
    local found = false
    for _, one in ipairs(list) do found = found or fits(one.name, pattern) end
    if not found then gone[#gone + 1] = pattern end
  end
  return gone
end

function check.run(args, host)
  local words = require "words"
  local list, code, text = require("faults").guarded(asked, args, host)
  if not list then return require("snmp").verdict(code, text) end
  local since = require("snmp_counters").open(host, "interfaces", code)
  local found, gone = judge(args, host, list, since), missing(args, list)
  local is_kept = since:keep()
  if #gone > 0 then return "critical", string.format("%s has no interface %s", args.host, words.list(gone)) end
  if found.all == 0 and #found.bad == 0 then return "unknown", string.format("%s has %s, and none of the names that are wanted", args.host, words.count(#list, "interface", "interfaces")) end
  local summary = string.format("%d of %s up", found.up, words.count(found.all, "interface", "interfaces"))
  if since.restarted then summary = summary .. ", the device has restarted" end
  if not is_kept then found.worst, summary = require("status").worse(found.worst, "unknown"), summary .. ", no rates: too many counters to keep, so look at fewer interfaces" end
  if #found.bad > 0 then return found.worst, texts(found.bad) .. "; " .. summary end
  if #found.traffic > 0 then summary = summary .. "; " .. texts(found.traffic) end
  return found.worst, summary
end

return check
