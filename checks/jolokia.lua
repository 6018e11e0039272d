local check = {
  summary = "A Java virtual machine by Jolokia: heap, threads, garbage collection, files, and a value of any MBean",
  needs = { "http" },
  timeout = "30s",
  args = {
    url = { type = "string", default = "http://localhost:8778/jolokia", help = "the address of Jolokia; that of Spring's actuator ends with /actuator/jolokia" },
    user = { type = "string", help = "the user to log in with" },
    password = { type = "string", help = "a secret: { secret = \"NAME\" }" },
    token = { type = "string", help = "a secret with a bearer token, instead of user and password" },
    verify = { type = "boolean", default = true, help = "the certificate of an https url must be valid" },
    ca = { type = "string", help = "PEM text of the authorities to trust instead of the system's" },
    warn = { type = "range", default = "90", help = "heap in percent of its limit" },
    crit = { type = "range", default = "97", help = "heap in percent of its limit" },
    gc_warn = { type = "range", default = "20", help = "time in garbage collection in percent, of the last minutes" },
    gc_crit = { type = "range", default = "50", help = "time in garbage collection in percent, of the last minutes" },
    threads_warn = { type = "range", help = "number of threads" },
    threads_crit = { type = "range", help = "number of threads" },
    files_warn = { type = "range", default = "80", help = "open files in percent of their limit" },
    files_crit = { type = "range", default = "95", help = "open files in percent of their limit" },
    mbean = { type = "string", help = "an MBean of the application, such as Catalina:type=ThreadPool,name=\"http-nio-8080\"" },
    attribute = { type = "string", help = "its attribute" },
    path = { type = "string", help = "the part of an attribute that is no single value, such as used; inner parts behind a slash" },
    equals = { type = "string", help = "what that value must be" },
    value_warn = { type = "range", help = "for a value that is a number" },
    value_crit = { type = "range", help = "for a value that is a number" },
  },
}

-- What is asked of every machine, in one request.
local READS = {
  { "java.lang:type=Memory", "HeapMemoryUsage", "NonHeapMemoryUsage" }, { "java.lang:type=Threading", "ThreadCount", "DaemonThreadCount" },
  { "java.lang:type=Runtime", "Uptime", "VmName", "VmVersion" }, { "java.lang:type=GarbageCollector,*", "CollectionCount", "CollectionTime" },
  { "java.lang:type=OperatingSystem", "OpenFileDescriptorCount", "MaxFileDescriptorCount" },
}

-- Returns the body of the request: a list of reads.
local function request_of(args)
  local quoted, items = require("json").quoted, {}
  for _, read in ipairs(READS) do
    local names = {}
    for index = 2, #read do names[#names + 1] = quoted(read[index]) end
    items[#items + 1] = string.format('{"type":"read","mbean":%s,"attribute":[%s]}', quoted(read[1]), table.concat(names, ","))
  end
  if args.mbean then
    items[#items + 1] = string.format('{"type":"read","mbean":%s,"attribute":%s%s}', quoted(args.mbean), quoted(args.attribute),
      args.path and ',"path":' .. quoted(args.path) or "")
  end
  return "[" .. table.concat(items, ",") .. "]"
end

-- Adds the metrics of the machine. Returns the worst status of their thresholds, and the sentence; nil if that is no machine.
local function measure(args, host, answers)
  local fields, words, worse = require "fields", require "words", require("status").worse
  local number, worst = fields.number, "ok"
  local used, limit = number(answers[1], "value", "HeapMemoryUsage", "used"), number(answers[1], "value", "HeapMemoryUsage", "max")
  local uptime, threads = number(answers[3], "value", "Uptime"), number(answers[2], "value", "ThreadCount")
  if not (used and uptime and threads) then return nil end
  local function add(name, value, unit, warn, crit)
    if value then worst = worse(worst, host.metric(name, value, { unit = unit, warn = warn, crit = crit, min = 0 })) end
  end
  if limit and limit > 0 then add("heap_used", used * 100 / limit, "%", args.warn, args.crit) end -- -1: it has no limit
  add("heap", used, "B")
  add("non_heap", number(answers[1], "value", "NonHeapMemoryUsage", "used"), "B")
  add("threads", threads, "threads", args.threads_warn, args.threads_crit)
  add("uptime", uptime / 1000, "s")
  local count, spent = 0, 0
  for _, collector in pairs(fields.list(answers[4], "value")) do
    count, spent = count + (number(collector, "CollectionCount") or 0), spent + (number(collector, "CollectionTime") or 0)
  end
  host.metric("collections", count, { unit = "c", kind = "counter" })
  host.metric("collection_time", spent / 1000, { unit = "s", kind = "counter" })
  local share = require("recent").share(host, "collection", spent, uptime)
  add("collection_share", share, "%", args.gc_warn, args.gc_crit)
  local lacking = {}
  if not limit then lacking[1] = "the limit of its heap" end
  if number(answers[4], "status") ~= 200 then lacking[#lacking + 1] = "its garbage collection" end
  local open, most = number(answers[5], "value", "OpenFileDescriptorCount"), number(answers[5], "value", "MaxFileDescriptorCount")
  if not (open and most) and number(answers[5], "status") ~= 404 then lacking[#lacking + 1] = "its files" end -- 404: a machine on Windows
  if #lacking > 0 then worst = worse(worst, "unknown") end
  if open and most and most > 0 then add("files_used", open * 100 / most, "%", args.files_warn, args.files_crit) end
  local heap = limit and limit > 0 and string.format(" of %s", words.bytes(limit)) or ""
  local unsaid = #lacking > 0 and "nothing is told of " .. table.concat(lacking, " and ") .. ", " or ""
  return worst, string.format("%s%s, heap %s%s, %s, up for %s", unsaid, fields.text(answers[3], "value", "VmName") or "a machine", words.bytes(used), heap,
    words.count(threads, "thread", "threads"), words.duration(uptime / 1000))
end

-- Judges the value that the arguments name. Returns the status and its sentence.
local function judge(args, host, answer)
  local fields = require "fields"
  local name = args.attribute .. (args.path and "/" .. args.path or "")
  if fields.number(answer, "status") ~= 200 then
    local why = fields.text(answer, "error") or "without a word"
    return fields.number(answer, "status") == 404 and "critical" or "unknown", string.format("%s cannot be read: %s", name, why:sub(1, 200))
  end
  local value = fields.at(answer, "value")
  if type(value) == "table" or value == nil then return "unknown", name .. " is no single value: name a part of it (path)" end
  local shown = string.format("%s is %s", name, tostring(value):sub(1, 60))
  if args.equals and tostring(value) ~= args.equals then return "critical", string.format("%s, not %s", shown, args.equals) end
  if type(value) == "number" and fields.number(answer, "value") then
    return host.metric("value", value, { unit = "", warn = args.value_warn, crit = args.value_crit, labels = { attribute = name } }), shown
  end
  if args.value_warn or args.value_crit then return "unknown", shown .. ", which is no number" end
  return "ok", shown
end

function check.run(args, host)
  local api, fields, worse = require "api", require "fields", require("status").worse
  if (args.mbean == nil) ~= (args.attribute == nil) then return "unknown", "a value needs both mbean and attribute" end
  local answers, seconds, text = api.get(host, args, "", { method = "POST", body = request_of(args), headers = { ["content-type"] = "application/json" } })
  if not answers then return api.verdict(seconds, text) end
  local worst, summary = measure(args, host, answers)
  if not worst then
    local why = fields.text(answers[1], "error") or fields.text(answers, "error")
    return "unknown", args.url .. (why and " answers: " .. why:sub(1, 200) or " is no Jolokia of a Java virtual machine")
  end
  host.metric("time", seconds, { unit = "s", min = 0 })
  if not args.mbean then return worst, summary end
  local status, sentence = judge(args, host, answers[#READS + 1])
  return worse(worst, status), sentence .. ", " .. summary
end

return check
