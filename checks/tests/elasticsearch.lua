local GREEN = '{"cluster_name":"logs","status":"green","timed_out":false,"number_of_nodes":3,"number_of_data_nodes":3,"active_primary_shards":10,"active_shards":20,'
  .. '"relocating_shards":0,"initializing_shards":0,"unassigned_shards":0,"delayed_unassigned_shards":0,"number_of_pending_tasks":2}'
local YELLOW = '{"cluster_name":"logs","status":"yellow","timed_out":false,"number_of_nodes":1,"active_shards":10,"unassigned_shards":10}'
local RED = '{"cluster_name":"logs","status":"red","timed_out":true,"number_of_nodes":2,"active_shards":9,"unassigned_shards":1}'
local OTHERS = ',"x2":{"name":"es-2","jvm":{"mem":{"heap_used_percent":31}},"fs":{"total":{"total_in_bytes":1000,"available_in_bytes":700}}}'
  .. ',"x3":{"name":"es-3","jvm":{"mem":{"heap_used_percent":32}},"fs":{"total":{"total_in_bytes":1000,"available_in_bytes":600}}}}}'
local STATS = '{"nodes":{"x1":{"name":"es-1","jvm":{"mem":{"heap_used_percent":40}},"fs":{"total":{"total_in_bytes":1000,"available_in_bytes":400}}}' .. OTHERS
local FULL = '{"nodes":{"x1":{"name":"es-1","jvm":{"mem":{"heap_used_percent":96}},"fs":{"total":{"total_in_bytes":1000,"available_in_bytes":120}}}' .. OTHERS
local URL = "http://localhost:9200/_nodes/stats/jvm,fs?filter_path=nodes.*.name,nodes.*.jvm.mem.heap_used_percent,nodes.*.fs.total.total_in_bytes,nodes.*.fs.total.available_in_bytes"
local NODES = { args = { { url = URL } }, value = { status = 200, reason = "OK", body = STATS, seconds = 0.01 } }

return {
  {
    name = "green",
    host = { http = { { args = { { url = "http://localhost:9200/_cluster/health" } }, value = { status = 200, reason = "OK", body = GREEN, seconds = 0.02 } }, NODES } },
    expect = {
      status = "ok", summary = "logs is green, 3 nodes",
      metrics = {
        nodes = { value = 3, unit = "nodes" }, ["shards{state=active}"] = { value = 20, unit = "shards" }, ["shards{state=unassigned}"] = 0,
        ["heap_used{node=es-1}"] = { value = 40, unit = "%", warn = "85", crit = "95" }, ["disk_used{node=es-1}"] = { value = 60, unit = "%" },
        ["disk_free{node=es-1}"] = { value = 400, unit = "B" }, pending_tasks = 2, time = 0.02,
      },
    },
  },
  {
    name = "yellow",
    host = { http = { { value = { status = 200, reason = "OK", body = YELLOW, seconds = 0.02 }, once = true }, NODES } },
    expect = { status = "warning", summary = "logs is yellow, 10 shards unassigned, 1 node" },
  },
  {
    name = "yellow, as a single node always is",
    args = { yellow = "ok" },
    host = { http = { { value = { status = 200, reason = "OK", body = YELLOW, seconds = 0.02 }, once = true }, NODES } },
    expect = { status = "ok" },
  },
  {
    name = "red",
    host = { http = { { value = { status = 200, reason = "OK", body = RED, seconds = 0.02 }, once = true }, NODES } },
    expect = { status = "critical", summary = "logs is red, 1 shard unassigned, 2 nodes, its master did not answer in time" },
  },
  {
    name = "a full disk and heap",
    host = { http = { { value = { status = 200, reason = "OK", body = GREEN, seconds = 0.02 }, once = true }, { value = { status = 200, reason = "OK", body = FULL, seconds = 0.01 } } } },
    expect = { status = "critical", metrics = { ["disk_used{node=es-1}"] = { value = 88, warn = "85", crit = "90" }, ["heap_used{node=es-1}"] = 96 } },
  },
  {
    name = "fewer nodes than there were",
    args = { nodes_crit = "5:" },
    host = { http = { { value = { status = 200, reason = "OK", body = GREEN, seconds = 0.02 }, once = true }, NODES } },
    expect = { status = "critical" },
  },
  {
    name = "nodes that the user may not ask",
    host = { http = { { value = { status = 200, reason = "OK", body = GREEN, seconds = 0.02 }, once = true }, { value = { status = 403, reason = "Forbidden", body = "{}", seconds = 0.01 } } } },
    expect = { status = "unknown" },
  },
  {
    name = "nodes without figures",
    host = { http = { { value = { status = 200, reason = "OK", body = GREEN, seconds = 0.02 }, once = true }, { value = { status = 200, reason = "OK", body = "{}", seconds = 0.01 } } } },
    expect = { status = "unknown", summary = "logs is green, 3 nodes, its nodes tell no figures" },
  },
  {
    name = "no master",
    host = { http = { value = { status = 503, reason = "Service Unavailable", body = '{"error":{"type":"master_not_discovered_exception"},"status":503}', seconds = 0.02 } } },
    expect = { status = "critical", summary = "http://localhost:9200/_cluster/health answers 503 Service Unavailable", metrics = {} },
  },
  {
    name = "a colour that there is not",
    host = { http = { value = { status = 200, reason = "OK", body = '{"status":"blue","number_of_nodes":3}', seconds = 0.02 } } },
    expect = { status = "unknown", summary = "http://localhost:9200 is no Elasticsearch: its health has no colour", metrics = {} },
  },
  {
    name = "a document that is cut off",
    host = { http = { value = { status = 200, reason = "OK", body = '{"status":"green","numb', seconds = 0.02 } } },
    expect = { status = "critical", metrics = {},
      summary = "http://localhost:9200/_cluster/health answers with what is no JSON document (a text without an end at byte 19)" },
  },
  {
    name = "it wants a login",
    host = { http = { value = { status = 401, reason = "Unauthorized", body = "{}", seconds = 0.02 } } },
    expect = { status = "unknown", summary = "http://localhost:9200/_cluster/health refuses access (401): give a login", metrics = {} },
  },
  {
    name = "it does not run",
    host = { http = { code = "refused", text = "127.0.0.1:9200 refused the connection" } },
    expect = { status = "critical", summary = "127.0.0.1:9200 refused the connection", metrics = {} },
  },
  {
    name = "two of three nodes do not answer",
    host = { http = { { value = { status = 200, reason = "OK", body = GREEN, seconds = 0.02 }, once = true },
      { value = { status = 200, reason = "OK", body = '{"nodes":{"x1":{"name":"es-1","jvm":{"mem":{"heap_used_percent":40}},"fs":{"total":{"total_in_bytes":1000,"available_in_bytes":400}}}}}', seconds = 0.01 } } } },
    expect = { status = "unknown", summary = "logs is green, 3 nodes, only 1 of them tell their heap" },
  },
  {
    name = "a node without a heap",
    host = { http = { { value = { status = 200, reason = "OK", body = GREEN, seconds = 0.02 }, once = true },
      { value = { status = 200, reason = "OK", body = '{"nodes":{"x1":{"name":"es-1","jvm":{"mem":{"heap_used_percent":40}},"fs":{"total":{"total_in_bytes":1000,"available_in_bytes":400}}},'
      .. '"x2":{"name":"es-2","fs":{"total":{"total_in_bytes":1000,"available_in_bytes":700}}},"x3":{"name":"es-3","jvm":{"mem":{"heap_used_percent":32}},"fs":{"total":{"total_in_bytes":1000,"available_in_bytes":600}}}}}', seconds = 0.01 } } } },
    expect = { status = "unknown", summary = "logs is green, 3 nodes, only 2 of them tell their heap", metrics = { ["disk_used{node=es-2}"] = 30 } },
  },
  {
    name = "a node with data and without a disk",
    host = { http = { { value = { status = 200, reason = "OK", body = GREEN, seconds = 0.02 }, once = true },
      { value = { status = 200, reason = "OK", body = '{"nodes":{"x1":{"name":"es-1","jvm":{"mem":{"heap_used_percent":40}},"fs":{"total":{"total_in_bytes":1000,"available_in_bytes":400}}},'
      .. '"x2":{"name":"es-2","jvm":{"mem":{"heap_used_percent":31}},"fs":{"total":{"total_in_bytes":1000,"available_in_bytes":700}}},"x3":{"name":"es-3","jvm":{"mem":{"heap_used_percent":32}},"fs":{"total":{}}}}}', seconds = 0.01 } } } },
    expect = { status = "unknown", summary = "logs is green, 3 nodes, only 2 of 3 with data tell their disk" },
  },
}
