local OVERVIEW = '{"management_version":"3.12.1","rabbitmq_version":"3.12.1","cluster_name":"rabbit@a","object_totals":{"channels":4,"connections":3,"consumers":5,"queues":2},'
  .. '"queue_totals":{"messages":120,"messages_ready":100,"messages_unacknowledged":20},"message_stats":{"publish":5000,"deliver_get":4800,"ack":4700}}'
local NODE = '"running":true,"mem_used":400000000,"mem_limit":1000000000,"mem_alarm":false,"disk_free":50000000000,"disk_free_limit":50000000,'
  .. '"disk_free_alarm":false,"fd_used":30,"fd_total":1000,"proc_used":400,"proc_total":1048576,'
local GOOD = '[{"name":"rabbit@a",' .. NODE .. '"partitions":[]},{"name":"rabbit@b",' .. NODE .. '"partitions":[]}]'
local ALARMED = '[{"name":"rabbit@a","running":true,"mem_used":1000000001,"mem_limit":1000000000,"mem_alarm":true,"disk_free_alarm":true,"partitions":["rabbit@b"]},'
  .. '{"name":"rabbit@b","running":false}]'
local QUEUES = '{"page":1,"page_count":1,"items":[{"name":"mail","vhost":"/","messages":90,"consumers":2},{"name":"mail-dead","vhost":"/","messages":30,"consumers":0},'
  .. '{"name":"other","vhost":"shop","messages":999,"consumers":0}]}'
local NODES = "http://localhost:15672/api/nodes?columns=name,running,mem_used,mem_limit,mem_alarm,disk_free,disk_free_limit,disk_free_alarm,fd_used,fd_total,proc_used,proc_total,partitions"
local FIRST = { args = { { url = "http://localhost:15672/api/overview", headers = { authorization = "Basic bW9uaXRvcmluZzpjb3JyZWN0IGhvcnNl", accept = "application/json" } } },
  value = { status = 200, reason = "OK", body = OVERVIEW, seconds = 0.01 } }
local SECOND = { args = { { url = NODES } }, value = { status = 200, reason = "OK", body = GOOD, seconds = 0.01 } }
local THIRD = { args = { { url = "http://localhost:15672/api/queues?page_size=500&columns=name,vhost,messages,consumers&page=1" } },
  value = { status = 200, reason = "OK", body = QUEUES, seconds = 0.01 } }

return {
  {
    name = "two nodes",
    args = { password = "correct horse" },
    host = { http = { FIRST, SECOND } },
    expect = {
      status = "ok", summary = "version 3.12.1, 2 of 2 nodes run, 120 messages",
      metrics = {
        ["memory_used{node=rabbit@a}"] = { value = 40, unit = "%", warn = "80", crit = "95" }, ["handles_used{node=rabbit@b}"] = 3,
        ["disk_free{node=rabbit@a}"] = { value = 50000000000, unit = "B" }, ["memory{node=rabbit@a}"] = 400000000,
        messages = { value = 120, unit = "messages" }, messages_ready = 100, connections = { value = 3, unit = "connections" },
        published = { value = 5000, unit = "c", kind = "counter" }, acknowledged = 4700,
      },
    },
  },
  {
    name = "alarms, a partition, a node that is down",
    args = { password = "correct horse" },
    host = { http = { FIRST, { value = { status = 200, reason = "OK", body = ALARMED, seconds = 0.01 } } } },
    expect = { status = "critical", summary = "rabbit@a has used up its memory and stops publishers, rabbit@a has used up its disk and stops publishers, "
      .. "rabbit@a is cut off from 1 of its cluster, rabbit@b does not run, version 3.12.1, 1 of 2 nodes run, 120 messages" },
  },
  {
    name = "a queue is long, and one has no consumer",
    args = { password = "correct horse", queues = { "mail*" }, messages_warn = "50", consumers_crit = "1:" },
    host = { http = { FIRST, SECOND, THIRD } },
    expect = { status = "critical", metrics = {
      ["queue_messages{queue=mail,vhost=/}"] = { value = 90, unit = "messages", warn = "50" }, ["queue_consumers{queue=mail-dead,vhost=/}"] = { value = 0, crit = "1:" },
    } },
  },
  {
    name = "a queue is long",
    args = { password = "correct horse", queues = { "mail" }, messages_warn = "50" },
    host = { http = { FIRST, SECOND, THIRD } },
    expect = { status = "warning" },
  },
  {
    name = "a queue is not there",
    args = { password = "correct horse", queues = { "bills" } },
    host = { http = { FIRST, SECOND, THIRD } },
    expect = { status = "critical", summary = "there is no queue bills, version 3.12.1, 2 of 2 nodes run, 120 messages" },
  },
  {
    name = "no figures of a queue",
    args = { password = "correct horse", queues = { "mail" } },
    host = { http = { FIRST, SECOND, { value = { status = 200, reason = "OK", body = '{"items":[{"name":"mail","vhost":"/"}],"page_count":1}', seconds = 0.01 } } } },
    expect = { status = "unknown", summary = "there are no figures of the queue mail, version 3.12.1, 2 of 2 nodes run, 120 messages" },
  },
  {
    name = "queues on two pages",
    args = { password = "correct horse", queues = { "a", "b" } },
    host = { http = { FIRST, SECOND,
      { args = { { url = "http://localhost:15672/api/queues?page_size=500&columns=name,vhost,messages,consumers&page=1" } }, value = { status = 200, reason = "OK",
        body = '{"items":[{"name":"a","vhost":"/","messages":1,"consumers":1}],"page_count":2}', seconds = 0.01 } },
      { args = { { url = "http://localhost:15672/api/queues?page_size=500&columns=name,vhost,messages,consumers&page=2" } }, value = { status = 200, reason = "OK",
        body = '{"items":[{"name":"b","vhost":"/","messages":2,"consumers":1}],"page_count":2}', seconds = 0.01 } },
    } },
    expect = { status = "ok", metrics = { ["queue_messages{queue=b,vhost=/}"] = 2 } },
  },
  {
    name = "the user may not read it",
    args = { password = "correct horse" },
    host = { http = { value = { status = 401, reason = "Unauthorized", body = '{"error":"not_authorized","reason":"Not management user"}', seconds = 0.01 } } },
    expect = { status = "unknown", metrics = {},
      summary = "http://localhost:15672/api/overview refuses access (401): check the login, and what it may read" },
  },
  {
    name = "something else answers",
    args = { password = "correct horse" },
    host = { http = { value = { status = 200, reason = "OK", body = "[]", seconds = 0.01 } } },
    expect = { status = "unknown", summary = "http://localhost:15672 is no management API of RabbitMQ", metrics = {} },
  },
  {
    name = "a page, and no document",
    args = { password = "correct horse" },
    host = { http = { value = { status = 200, reason = "OK", body = "<html>", seconds = 0.01 } } },
    expect = { status = "critical", summary = "http://localhost:15672/api/overview answers with what is no JSON document (no value at byte 1)", metrics = {} },
  },
  {
    name = "nodes that say nothing",
    args = { password = "correct horse" },
    host = { http = { FIRST, { value = { status = 200, reason = "OK", body = '[{"name":"rabbit@a"}]', seconds = 0.01 } } } },
    expect = { status = "unknown", metrics = {} },
  },
  {
    name = "it is down",
    host = { http = { code = "refused", text = "127.0.0.1:15672 refused the connection" } },
    expect = { status = "critical", summary = "127.0.0.1:15672 refused the connection", metrics = {} },
  },
}
