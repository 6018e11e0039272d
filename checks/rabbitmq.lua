local check = {
  summary = "RabbitMQ: nodes, alarms, partitions, memory, queues, from its management API",
  needs = { "http" },
  timeout = "40s",
  args = {
    url = { type = "string", default = "http://localhost:15672", help = "the management plugin, without a path" },
    user = { type = "string", default = "monitoring", help = "a user with the tag monitoring" },
    password = { type = "string", help = "a secret: { secret = \"NAME\" }" },
    verify = { type = "boolean", default = true, help = "the certificate of an https url must be valid" },
    ca = { type = "string", help = "PEM text of the authorities to trust instead of the system's" },
    warn = { type = "range", default = "80", help = "memory of a node in percent of its high watermark, where publishers are stopped" },
    crit = { type = "range", default = "95", help = "memory of a node in percent of its high watermark" },
    handles_warn = { type = "range", default = "80", help = "file handles of a node in percent" },
    handles_crit = { type = "range", default = "95", help = "file handles of a node in percent" },
    queues = { type = "list", default = {}, help = "names of queues to judge, each of which has to be there; * and ? are wildcards" },
    messages_warn = { type = "range", help = "messages of such a queue" },
    messages_crit = { type = "range", help = "messages of such a queue" },
    consumers_warn = { type = "range", help = "consumers of such a queue, such as 1:" },
    consumers_crit = { type = "range", help = "consumers of such a queue" },
  },
}

local NODES = "/api/nodes?columns=name,running,mem_used,mem_limit,mem_alarm,disk_free,disk_free_limit,disk_free_alarm,fd_used,fd_total,proc_used,proc_total,partitions"
local QUEUES = "/api/queues?page_size=500&columns=name,vhost,messages,consumers&page="
-- Pages of 500 queues, and queues with metrics of their own.
local MOST_PAGES, MOST_QUEUES = 20, 100

-- Adds the metrics of a node, and returns the worst status of their thresholds.
local function measure_node(args, host, node, name)
  local worse, number = require("status").worse, require("fields").number
  local labels, worst, lacking = { node = name }, "ok", {}
  local function share(metric, used, whole, warn, crit, needed)
    used, whole = number(node, used), number(node, whole)
    if not (used and whole) and (needed or used or whole) then lacking[#lacking + 1] = metric:gsub("_used", "") end
    if used and whole and whole > 0 then
      worst = worse(worst, host.metric(metric, used * 100 / whole, { unit = "%", warn = warn, crit = crit, min = 0, labels = labels }))
    end
  end
  share("memory_used", "mem_used", "mem_limit", args.warn, args.crit, true)
  share("handles_used", "fd_used", "fd_total", args.handles_warn, args.handles_crit)
  share("processes_used", "proc_used", "proc_total")
  for metric, field in pairs { memory = "mem_used", disk_free = "disk_free" } do
    if number(node, field) then host.metric(metric, number(node, field), { unit = "B", min = 0, labels = labels }) end
  end
  return worst, lacking
end

-- Judges the nodes. Returns the status, sentences on what is wrong, how many run, and names of figures that are not told; or nil if that is no list of nodes.
local function judge_nodes(args, host, nodes)
  local fields, worse = require "fields", require("status").worse
  local worst, ills, running, unsaid = "ok", {}, 0, {}
  for _, node in ipairs(nodes) do
    local name = fields.text(node, "name")
    if not name or type(node.running) ~= "boolean" then return nil end
    running = running + (node.running and 1 or 0)
    if not node.running then
      ills[#ills + 1] = name .. " does not run"
    else
      local status, lacking = measure_node(args, host, node, name)
      worst = worse(worst, status)
      if #lacking > 0 then unsaid[#unsaid + 1] = string.format("%s of %s", table.concat(lacking, ", "), name) end
      if node.mem_alarm == true then ills[#ills + 1] = name .. " has used up its memory and stops publishers" end
      if node.disk_free_alarm == true then ills[#ills + 1] = name .. " has used up its disk and stops publishers" end
      local lost = #fields.list(node, "partitions")
      if lost > 0 then ills[#ills + 1] = string.format("%s is cut off from %d of its cluster", name, lost) end
    end
  end
  if #nodes == 0 then return nil end
  return worst, ills, running, unsaid
end

-- Returns all queues, or nil, code, text.
local function queues_of(args, host)
  local api, fields, found = require "api", require "fields", {}
  for page = 1, MOST_PAGES do
    local document, code, text = api.get(host, args, QUEUES .. page)
    if not document then return nil, code, text end
    if type(document.items) ~= "table" then return nil, "protocol", "the list of queues has no items" end
    for _, queue in ipairs(document.items) do found[#found + 1] = queue end
    if page >= (fields.number(document, "page_count") or 1) then return found end
  end
  return nil, "too-large", string.format("there are more than %d queues", MOST_PAGES * 500)
end

-- Judges the queues that the arguments name. Returns the status and sentences, or nil, code, text.
local function judge_queues(args, host)
  local fields, patterns, worse = require "fields", require "patterns", require("status").worse
  local queues, code, text = queues_of(args, host)
  if not queues then return nil, code, text end
  local worst, ills, seen, count = "ok", {}, {}, 0
  local function judged(metric, value, unit, warn, crit, labels)
    worst = worse(worst, host.metric(metric, value, { unit = unit, warn = warn, crit = crit, min = 0, labels = labels }))
  end
  for _, queue in ipairs(queues) do
    local name, wanted = fields.text(queue, "name") or "", false
    for _, pattern in ipairs(args.queues) do
      if patterns.fits(name, pattern) then wanted, seen[pattern] = true, true end
    end
    local messages, consumers = fields.number(queue, "messages"), fields.number(queue, "consumers")
    if wanted then count = count + 1 end
    if wanted and count > MOST_QUEUES then
      return nil, "too-large", string.format("more than %d queues have such names: name fewer", MOST_QUEUES)
    elseif wanted and not (messages and consumers) then
      worst, ills[#ills + 1] = worse(worst, "unknown"), "there are no figures of the queue " .. name
    elseif wanted then
      local labels = { queue = name, vhost = fields.text(queue, "vhost") or "" }
      judged("queue_messages", messages, "messages", args.messages_warn, args.messages_crit, labels)
      judged("queue_consumers", consumers, "consumers", args.consumers_warn, args.consumers_crit, labels)
    end
  end
  for _, pattern in ipairs(args.queues) do
    if not seen[pattern] then worst, ills[#ills + 1] = "critical", "there is no queue " .. pattern end
  end
  return worst, ills
end

-- Adds the metrics of the whole cluster.
local function measure(host, overview)
  local number = require("fields").number
  for metric, unit in pairs { connections = "connections", channels = "channels", queues = "queues", consumers = "consumers" } do
    local value = number(overview, "object_totals", metric)
    if value then host.metric(metric, value, { unit = unit, min = 0 }) end
  end
  for _, metric in ipairs { "messages", "messages_ready", "messages_unacknowledged" } do
    local value = number(overview, "queue_totals", metric)
    if value then host.metric(metric, value, { unit = "messages", min = 0 }) end
  end
  for metric, field in pairs { published = "publish", delivered = "deliver_get", acknowledged = "ack" } do
    local value = number(overview, "message_stats", field)
    if value then host.metric(metric, value, { unit = "c", kind = "counter" }) end
  end
end

function check.run(args, host)
  local api, fields, words, worse = require "api", require "fields", require "words", require("status").worse
  local overview, code, text = api.get(host, args, "/api/overview")
  local nodes
  if overview then nodes, code, text = api.get(host, args, NODES) end
  if not nodes then return api.verdict(code, text) end
  local version = fields.text(overview, "rabbitmq_version")
  local worst, ills, running, unsaid = judge_nodes(args, host, nodes)
  if not (version and worst) then return "unknown", args.url .. " is no management API of RabbitMQ" end
  measure(host, overview)
  if #ills > 0 then worst = "critical" end
  if #args.queues > 0 then
    local bad, more, why = judge_queues(args, host)
    if not bad then
      bad, why = api.verdict(more, why)
      more = { why }
    end
    worst = worse(worst, bad)
    table.move(more, 1, #more, #ills + 1, ills)
  end
  ills[#ills + 1] = string.format("version %s, %d of %s run, %s", version, running, words.count(#nodes, "node", "nodes"),
    words.count(fields.number(overview, "queue_totals", "messages") or 0, "message", "messages"))
  return require("lacking").verdict(worst, unsaid, table.concat(ills, ", "))
end

return check
