local check = {
  summary = "Elasticsearch or OpenSearch: state of the cluster, shards, disks and heap of its nodes",
  needs = { "http" },
  timeout = "40s",
  args = {
    url = { type = "string", default = "http://localhost:9200", help = "the address of one node, without a path" },
    user = { type = "string", help = "the user to log in with; it needs the privilege monitor" },
    password = { type = "string", help = "a secret: { secret = \"NAME\" }" },
    token = { type = "string", help = "a secret with a bearer token, instead of user and password" },
    verify = { type = "boolean", default = true, help = "the certificate of an https url must be valid" },
    ca = { type = "string", help = "PEM text of the authorities to trust instead of the system's" },
    yellow = { type = "string", default = "warning", choices = { "ok", "warning", "critical" }, help = "what a yellow cluster is; a single node with replicas always is yellow" },
    warn = { type = "range", default = "85", help = "disk of a node in percent; from 85 on it gets no further shards" },
    crit = { type = "range", default = "90", help = "disk of a node in percent; from 90 on shards leave it, from 95 on indices are read-only" },
    heap_warn = { type = "range", default = "85", help = "heap of a node in percent" },
    heap_crit = { type = "range", default = "95", help = "heap of a node in percent" },
    nodes_warn = { type = "range", help = "number of nodes, such as 3:" },
    nodes_crit = { type = "range", help = "number of nodes" },
  },
}

local STATS = "/_nodes/stats/jvm,fs?filter_path=nodes.*.name,nodes.*.jvm.mem.heap_used_percent,nodes.*.fs.total.total_in_bytes,nodes.*.fs.total.available_in_bytes"
local COLOURS = { green = "ok", yellow = "warning", red = "critical" }
local SHARDS = { active = "active_shards", relocating = "relocating_shards", initializing = "initializing_shards", unassigned = "unassigned_shards" }
-- Nodes with metrics; a cluster has some dozen.
local MOST_NODES = 200

-- Adds the metrics of the nodes. Returns the worst status of their thresholds, how many tell their heap, how many tell their disk,
-- and how many were left out.
local function measure_nodes(args, host, stats)
  local fields, worse = require "fields", require("status").worse
  local worst, count, disks, left, listed = "ok", 0, 0, 0, 0
  for id, node in pairs(fields.list(stats, "nodes")) do
    local labels = { node = fields.text(node, "name") or tostring(id) }
    listed = listed + 1
    local heap = fields.number(node, "jvm", "mem", "heap_used_percent")
    local whole, free = fields.number(node, "fs", "total", "total_in_bytes"), fields.number(node, "fs", "total", "available_in_bytes")
    if count >= MOST_NODES then
      left = left + 1
    elseif heap then
      count = count + 1
      worst = worse(worst, host.metric("heap_used", heap, { unit = "%", warn = args.heap_warn, crit = args.heap_crit, min = 0, max = 100, labels = labels }))
    end
    -- Nodes that hold no data may have no disk of their own.
    if left == 0 and whole and free and whole > 0 then
      disks = disks + 1
      worst = worse(worst, host.metric("disk_used", (whole - free) * 100 / whole, { unit = "%", warn = args.warn, crit = args.crit, min = 0, max = 100, labels = labels }))
      host.metric("disk_free", free, { unit = "B", min = 0, labels = labels })
    end
  end
  return left > 0 and worse(worst, "unknown") or worst, count, disks, left, listed
end

-- Adds the metrics of the cluster, and returns the worst status of their thresholds.
local function measure(args, host, health, nodes, seconds)
  local number = require("fields").number
  local worst = host.metric("nodes", nodes, { unit = "nodes", warn = args.nodes_warn, crit = args.nodes_crit, min = 0 })
  for state, field in pairs(SHARDS) do
    local value = number(health, field)
    if value then host.metric("shards", value, { unit = "shards", min = 0, labels = { state = state } }) end
  end
  local pending = number(health, "number_of_pending_tasks")
  if pending then host.metric("pending_tasks", pending, { unit = "tasks", min = 0 }) end
  host.metric("time", seconds, { unit = "s", min = 0 })
  return worst
end

-- Asks the nodes. Returns the worst status of their thresholds, and a sentence if figures of some are missing.
local function look_at_nodes(args, host, health, nodes)
  local api, number, worse = require "api", require("fields").number, require("status").worse
  local stats, code, text = api.get(host, args, STATS)
  if not stats then return api.verdict(code, text) end
  local worst, measured, disks, left, listed = measure_nodes(args, host, stats)
  if measured == 0 then return worse(worst, "unknown"), "its nodes tell no figures" end
  if left > 0 then return worst, string.format("%d further nodes are not measured", left) end
  if measured < math.max(nodes, listed) then return worse(worst, "unknown"), string.format("only %d of them tell their heap", measured) end
  local with_data = number(health, "number_of_data_nodes") or 0
  if disks < with_data then return worse(worst, "unknown"), string.format("only %d of %d with data tell their disk", disks, with_data) end
  return worst
end

function check.run(args, host)
  local api, fields, words, worse = require "api", require "fields", require "words", require("status").worse
  local health, seconds, text = api.get(host, args, "/_cluster/health")
  if not health then return api.verdict(seconds, text) end
  local colour, nodes = fields.text(health, "status"), fields.number(health, "number_of_nodes")
  local status = COLOURS[(colour or ""):lower()]
  if not (status and nodes) then return "unknown", args.url .. " is no Elasticsearch: its health has no colour" end
  if status == "warning" then status = args.yellow end
  status = worse(status, measure(args, host, health, nodes, seconds))
  local parts = { string.format("%s is %s", fields.text(health, "cluster_name") or "the cluster", colour:lower()) }
  local missing = fields.number(health, "unassigned_shards") or 0
  if missing > 0 then parts[#parts + 1] = words.count(missing, "shard", "shards") .. " unassigned" end
  parts[#parts + 1] = words.count(nodes, "node", "nodes")
  if health.timed_out == true then
    status, parts[#parts + 1] = worse(status, "warning"), "its master did not answer in time"
  end
  local bad, why = look_at_nodes(args, host, health, nodes)
  if why then parts[#parts + 1] = why end
  return worse(status, bad), table.concat(parts, ", ")
end

return check
