local check = {
  summary = "A Kubernetes cluster: its API, nodes that are not ready, workloads and pods in trouble",
  needs = { "http" },
  timeout = "60s",
  args = {
    url = { type = "string", default = "https://kubernetes.default.svc", help = "the address of the API server, without a path" },
    token = { type = "string", help = "a secret with the token of a service account that may list nodes, pods and workloads: { secret = \"NAME\" }" },
    verify = { type = "boolean", default = true, help = "the certificate of the API server must be valid" },
    ca = { type = "string", help = "PEM text of the cluster's authority (ca.crt)" },
    namespaces = { type = "list", default = {}, help = "namespaces to look at; all, if there are none" },
    nodes = { type = "boolean", default = true, help = "look at the nodes" },
    ignore = { type = "list", default = {}, help = "names of nodes, workloads and pods that are not judged; * and ? are wildcards" },
    pods_warn = { type = "range", default = "0", help = "pods in trouble" },
    pods_crit = { type = "range", help = "pods in trouble" },
    pending_warn = { type = "range", help = "pods that are pending" },
    pending_crit = { type = "range", help = "pods that are pending" },
  },
}

-- The API server makes tables, as for `kubectl get`: a row has some hundred bytes, an object many thousand.
local TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
local PAGE = 500
local MOST_PAGES = 40
local WORKLOADS = { "deployments", "statefulsets", "daemonsets" }
-- Words for a pod that does its work, is done, or is on its way. Any other word is a trouble.
local FINE = { Running = true, Completed = true, Succeeded = true, Pending = true, ContainerCreating = true, PodInitializing = true, Terminating = true, NotReady = true }

local function escaped(text)
  return (text:gsub("[^%w._-]", function(one) return string.format("%%%02X", one:byte()) end))
end

-- Returns the position of each named column of a table, or nil if one is missing.
local function columns_of(document, names)
  local fields, found = require "fields", {}
  for index, column in ipairs(fields.list(document, "columnDefinitions")) do
    for _, name in ipairs(names) do
      if fields.text(column, "name") == name then found[name] = index end
    end
  end
  for _, name in ipairs(names) do
    if not found[name] then return nil end
  end
  return found
end

-- Calls take(row) for each row of a list, which has the named columns as texts. Returns true, or nil, code, text.
local function each_row(args, host, path, names, take)
  local api, fields, onward = require "api", require "fields", ""
  for _ = 1, MOST_PAGES do
    local query = string.format("%s?limit=%d&includeObject=None%s", path, PAGE, onward ~= "" and "&continue=" .. escaped(onward) or "")
    local document, code, text = api.get(host, args, query, { headers = { accept = TABLE } })
    if not document then return nil, code, text end
    local columns = columns_of(document, names)
    if not columns or type(document.rows) ~= "table" then return nil, "protocol", path .. " does not answer with a table: that is no Kubernetes" end
    for _, row in ipairs(document.rows) do
      local read = {}
      for name, index in pairs(columns) do read[name] = tostring(fields.at(row, "cells", index) or "") end
      take(read)
    end
    onward = fields.text(document, "metadata", "continue") or ""
    if onward == "" then return true end
  end
  return nil, "too-large", string.format("%s has more than %d rows: name namespaces", path, PAGE * MOST_PAGES)
end

-- Calls take(row) for the rows of a kind in all namespaces that matter. `seen` gets the namespaces that have any.
local function each_of(args, host, seen, group, kind, names, take)
  if #args.namespaces == 0 then return each_row(args, host, group .. "/" .. kind, names, take) end
  for _, namespace in ipairs(args.namespaces) do
    local path = string.format("%s/namespaces/%s/%s", group, escaped(namespace), kind)
    local done, code, text = each_row(args, host, path, names, function(row)
      seen[namespace] = true
      take(row)
    end)
    if not done then return nil, code, text end
  end
  return true
end

local function judged(args, name)
  return not require("patterns").any(name, args.ignore)
end

-- Looks at the nodes. Returns true, or nil, code, text; what it finds goes into `found`.
local function look_at_nodes(args, host, found)
  local total, ready = 0, 0
  local done, code, text = each_row(args, host, "/api/v1/nodes", { "Name", "Status" }, function(row)
    total = total + 1
    if row.Status:find("^Ready%f[,%z]") then
      ready = ready + 1
    elseif judged(args, row.Name) then
      found.critical[#found.critical + 1] = string.format("node %s is %s", row.Name, row.Status)
    end
  end)
  if not done then return nil, code, text end
  if total == 0 then return nil, "unsupported", "the cluster tells no node" end
  host.metric("nodes", total, { unit = "nodes", min = 0 })
  host.metric("nodes_ready", ready, { unit = "nodes", min = 0, max = total })
  found.nodes = string.format("%d of %d nodes ready", ready, total)
  return true
end

-- Looks at one kind of workload: no pod of it ready is critical, fewer than wanted a warning.
local function look_at_workloads(args, host, found, kind)
  local total, short = 0, 0
  local names = kind == "daemonsets" and { "Name", "Desired", "Ready" } or { "Name", "Ready" }
  local done, code, text = each_of(args, host, found.seen, "/apis/apps/v1", kind, names, function(row)
    total = total + 1
    local ready, wanted = row.Ready:match("^(%d+)/(%d+)$")
    if row.Desired then ready, wanted = row.Ready:match("^%d+$"), row.Desired:match("^%d+$") end
    ready, wanted = tonumber(ready), tonumber(wanted)
    if not judged(args, row.Name) then return end
    if not (ready and wanted) then
      found.odd[#found.odd + 1] = string.format("%s %s: %q", kind, row.Name, row.Ready:sub(1, 20))
    elseif ready < wanted then
      short = short + 1
      local list = ready == 0 and found.critical or found.warning
      list[#list + 1] = string.format("%s has %.0f of %.0f pods ready", row.Name, ready, wanted)
    end
  end)
  if not done then return nil, code, text end
  host.metric("workloads", total, { unit = "workloads", min = 0, labels = { kind = kind } })
  host.metric("workloads_short", short, { unit = "workloads", min = 0, labels = { kind = kind } })
  return true
end

-- Looks at the pods. "Init:0/2" is on its way, "Init:Error" is a trouble.
local function look_at_pods(args, host, found)
  local counts, ills = { running = 0, pending = 0, trouble = 0 }, {}
  local done, code, text = each_of(args, host, found.seen, "/api/v1", "pods", { "Name", "Status" }, function(row)
    local word = row.Status
    if word == "Running" then
      counts.running = counts.running + 1
    elseif word == "Pending" or word == "ContainerCreating" or word == "PodInitializing" or word:find("^Init:%d") then
      counts.pending = counts.pending + 1
    elseif not FINE[word] and judged(args, row.Name) then
      counts.trouble = counts.trouble + 1
      ills[#ills + 1] = string.format("%s: %s", row.Name, word)
    end
  end)
  if not done then return nil, code, text end
  local worse = require("status").worse
  host.metric("pods", counts.running, { unit = "pods", min = 0 })
  local worst = host.metric("pods_pending", counts.pending, { unit = "pods", warn = args.pending_warn, crit = args.pending_crit, min = 0 })
  worst = worse(worst, host.metric("pods_in_trouble", counts.trouble, { unit = "pods", warn = args.pods_warn, crit = args.pods_crit, min = 0 }))
  found.pods = string.format("%d pods run, %d pending", counts.running, counts.pending)
  if #ills > 0 then found.pods = require("words").list(ills, 4) .. ", " .. found.pods end
  found.worst = worse(found.worst, worst)
  return true
end

-- Asks for all parts, and returns the failures as texts with the worst of their statuses.
local function look(args, host, found)
  local parts, faults, worst, told = { look_at_pods }, {}, "ok", {}
  for _, kind in ipairs(WORKLOADS) do
    table.insert(parts, 1, function() return look_at_workloads(args, host, found, kind) end)
  end
  if args.nodes then table.insert(parts, 1, look_at_nodes) end
  for _, part in ipairs(parts) do
    local done, code, text = part(args, host, found)
    if not done then
      local status, sentence = require("api").verdict(code, text)
      worst = require("status").worse(worst, status)
      if not told[sentence] then faults[#faults + 1], told[sentence] = sentence, true end
    end
  end
  -- The API answers with an empty list of a namespace that there is not.
  for _, namespace in ipairs(#faults == 0 and args.namespaces or {}) do
    if not found.seen[namespace] then
      worst, faults[#faults + 1] = "unknown", string.format("the namespace %s has no workload and no pod, or there is none of that name", namespace)
    end
  end
  return worst, faults
end

function check.run(args, host)
  local api, worse, words = require "api", require("status").worse, require "words"
  local answer, code, text = api.send(host, args, "/readyz")
  if not answer then return api.verdict(code, text) end
  host.metric("time", answer.seconds, { unit = "s", min = 0 })
  local found = { critical = {}, warning = {}, odd = {}, seen = {}, worst = "ok" }
  local status, parts = look(args, host, found)
  status = worse(status, found.worst)
  if #found.odd > 0 then status, parts[#parts + 1] = worse(status, "unknown"), "cannot be read: " .. words.list(found.odd, 3) end
  if #found.warning > 0 then status, parts[#parts + 1] = worse(status, "warning"), words.list(found.warning, 4) end
  if #found.critical > 0 then
    status = "critical"
    table.insert(parts, 1, words.list(found.critical, 4))
  end
  if found.nodes then parts[#parts + 1] = found.nodes end
  if found.pods then parts[#parts + 1] = found.pods end
  return status, table.concat(parts, ", ")
end

return check
