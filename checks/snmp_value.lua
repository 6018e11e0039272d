local check = {
  summary = "A value of a device by SNMP, or all values of a table's column: limits, rates, expected texts",
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
    oid = { type = "string", required = true, help = "in numbers or by name: 1.3.6.1.2.1.1.5.0, sysName.0, ifInErrors.3; with each = true that of a column" },
    each = { type = "boolean", default = false, help = "all values below oid, each with its index as a label" },
    most = { type = "integer", default = 100, min = 1, max = 1000, help = "values with each = true" },
    name = { type = "string", default = "value", help = "of the metric" },
    unit = { type = "string", default = "", help = "of the metric: s, B, %, c or another word" },
    factor = { type = "number", default = 1, help = "by which values are multiplied: 0.01 makes seconds of TimeTicks" },
    rate = { type = "boolean", default = false, help = "judge how much a counter grows in a second" },
    warn = { type = "range", help = "of the value times factor" },
    crit = { type = "range", help = "of the value times factor" },
    expect = { type = "list", help = "texts or patterns (* and ?) of which one must fit the value; else it is critical" },
  },
}

-- Returns the value multiplied, and its text; nil where it is no number.
local function figure(args, entry)
  local snmp, words = require "snmp", require "words"
  local number = snmp.number(entry) or (entry.type == "text" and words.number(snmp.text(entry)))
  return number and (args.factor == 1 and number or number * args.factor)
end

-- Returns the values as a list of { index, entry }, and the time since the device's start.
local function asked(args, host)
  local snmp = require "snmp"
  local oid, fault = require("snmp_names").oid(args.oid, args.each)
  if not oid then require("faults").fail("bad-arguments", fault) end
  local session = snmp.open(host, args)
  if args.each then
    local all, heads = session:walk({ oid }, args.most, { snmp.UPTIME:sub(1, -3) })
    local rows, list = all[oid], {}
    for at, index in ipairs(snmp.indexes(rows)) do list[at] = { index = index, entry = rows[index] } end
    return list, heads[snmp.UPTIME:sub(1, -3)]
  end
  local found = session:get(oid == snmp.UPTIME and { oid } or { oid, snmp.UPTIME })
  return { { entry = found[oid] } }, found[snmp.UPTIME]
end

-- Adds a metric for a value. Returns a sentence if it can't be judged; or nil, its status and the number, where there is one.
local function measure(args, host, since, one)
  local options = { unit = args.unit, warn = args.warn, crit = args.crit, labels = { index = one.index } }
  local number, entry = figure(args, one.entry), one.entry
  local is_counter = entry.type == "counter32" or entry.type == "counter64"
  if args.rate then
    if not is_counter then return "is no counter" end
    number = since:rate(one.index or "", entry)
    if not number then return end
    number = number * args.factor
    options.unit = (args.unit == "" and "1" or args.unit) .. "/s"
  elseif is_counter and not args.warn and not args.crit then
    options.kind = "counter"
  end
  if number then
    return nil, host.metric(args.name, number, options), number
  elseif args.warn or args.crit then
    return "is no number: " .. require("snmp").text(entry)
  end
end

-- Returns the values that are not as expected, as "1.2 is down".
local function unexpected(args, list)
  local snmp, patterns, wrong = require "snmp", require "patterns", {}
  for _, one in ipairs(list) do
    local text = snmp.text(one.entry)
    if not patterns.any(text, args.expect) then wrong[#wrong + 1] = string.format("%s is %s", one.index or args.oid, text) end
  end
  return wrong
end

function check.run(args, host)
  local snmp, words = require "snmp", require "words"
  local list, code, text = require("faults").guarded(asked, args, host)
  if not list then return snmp.verdict(code, text) end
  local missing = #list == 0 or snmp.ABSENT[list[1].entry.type] or list[1].entry.type == "null"
  if missing then return "unknown", string.format("%s has no value %s%s", args.host, args.each and "below " or "", args.oid) end
  local since, faults = require("snmp_counters").open(host, "counters", code and code.value), {}
  local fresh, rates, worst = {}, { ok = {} }, "ok"
  for _, one in ipairs(list) do
    local fault, status, number = measure(args, host, since, one)
    if status then
      worst, rates[status] = require("status").worse(worst, status), rates[status] or {}
      table.insert(rates[status], string.format("%s %s/s", one.index or args.oid, words.short(number)))
    else
      fresh[#fresh + 1] = one.index or args.oid
    end
    if fault then faults[#faults + 1] = string.format("%s %s", one.index or args.oid, fault) end
  end
  local is_kept = not args.rate or since:keep()
  local wrong = args.expect and unexpected(args, list) or {}
  if #wrong > 0 then return "critical", words.list(wrong) .. ", expected " .. table.concat(args.expect, " or ") end
  if #faults > 0 then return "unknown", words.list(faults) end
  if not is_kept then return require("status").worse(worst, "unknown"), "no rates: too many counters to keep, so ask for fewer (most)" end
  if args.rate and #fresh == #list then return "ok", "the rate is known from the second run on" end
  if args.rate and #fresh > 0 then
    return worst, string.format("%s; no rate yet of %s", words.list(rates[worst], 5), words.list(fresh, 5))
  end
  if not figure(args, list[1].entry) then return "ok", args.each and words.count(#list, "value", "values") or snmp.text(list[1].entry) end
end

return check
