local VARZ = '{"server_id":"NDX","version":"2.9.10","max_connections":100,"connections":12,"total_connections":40,"routes":2,"leafnodes":0,"subscriptions":43,"mem":11776000,'
  .. '"in_msgs":500,"out_msgs":900,"in_bytes":1000,"out_bytes":2000,"slow_consumers":7,'
  .. '"jetstream":{"config":{"max_memory":1000,"max_storage":2000},"stats":{"memory":100,"storage":1900}}}'
local PLAIN = '{"server_id":"NDX","version":"2.9.10","max_connections":100,"connections":96,"routes":0,"slow_consumers":0,"jetstream":{}}'
local HEALTHY = { args = { { url = "http://localhost:8222/healthz" } }, value = { status = 200, reason = "OK", body = '{"status":"ok"}', seconds = 0.001 } }
local FIGURES = { args = { { url = "http://localhost:8222/varz" } }, value = { status = 200, reason = "OK", body = VARZ, seconds = 0.002 } }

return {
  {
    name = "with JetStream, whose files are many",
    host = { http = { FIGURES, HEALTHY } },
    expect = {
      status = "warning", summary = "version 2.9.10, 12 connections",
      metrics = {
        connections_used = { value = 12, unit = "%", warn = "80", crit = "95" }, connections = { value = 12, unit = "connections" }, routes = 2,
        ["jetstream_used{storage=file}"] = { value = 95, unit = "%", crit = "95" }, ["jetstream{storage=memory}"] = { value = 100, unit = "B" },
        received_messages = { value = 500, unit = "c", kind = "counter" }, received = { value = 1000, unit = "B", kind = "counter" },
        slow_consumers = { value = 0, unit = "consumers" }, memory = { value = 11776000, unit = "B" },
      },
    },
  },
  {
    name = "well",
    args = { storage_warn = "96" },
    host = { http = { FIGURES, HEALTHY } },
    expect = { status = "ok", state = { ["recent slow consumers"] = { older = 7, newer = 7, at = 1700000000 } } },
  },
  {
    name = "slow consumers since a while",
    args = { storage_warn = "96" },
    host = { http = { FIGURES, HEALTHY }, state = { ["recent slow consumers"] = { older = 3, newer = 5, at = 1699999900 } } },
    expect = { status = "warning", summary = "version 2.9.10, 12 connections, 4 consumers were dropped as too slow", metrics = { slow_consumers = 4 },
      state = { ["recent slow consumers"] = { older = 3, newer = 5, at = 1699999900 } } },
  },
  {
    name = "slow consumers, and the older part of the time is over",
    args = { storage_warn = "96" },
    host = { http = { FIGURES, HEALTHY }, state = { ["recent slow consumers"] = { older = 3, newer = 5, at = 1699999700 } } },
    expect = { status = "warning", metrics = { slow_consumers = 2 }, state = { ["recent slow consumers"] = { older = 5, newer = 7, at = 1700000000 } } },
  },
  {
    name = "slow consumers of a server that was restarted",
    args = { storage_warn = "96" },
    host = { http = { FIGURES, HEALTHY }, state = { ["recent slow consumers"] = { older = 90, newer = 95, at = 1699999900 } } },
    expect = { status = "warning", metrics = { slow_consumers = 7 } },
  },
  {
    name = "too many connections",
    host = { http = { { args = { { url = "http://localhost:8222/varz" } }, value = { status = 200, reason = "OK", body = PLAIN, seconds = 0.002 } }, HEALTHY } },
    expect = { status = "critical", metrics = { connections_used = 96 } },
  },
  {
    name = "not healthy",
    host = { http = { FIGURES, { value = { status = 503, reason = "Service Unavailable", body = '{"status":"unavailable","error":"JetStream has not established contact with a meta leader"}', seconds = 0.001 } } } },
    expect = { status = "critical", summary = "not healthy: JetStream has not established contact with a meta leader, version 2.9.10, 12 connections" },
  },
  {
    name = "a health that is none",
    host = { http = { FIGURES, { value = { status = 200, reason = "OK", body = "fine", seconds = 0.001 } } } },
    expect = { status = "critical", summary = "not healthy: /healthz answers 200 OK, version 2.9.10, 12 connections" },
  },
  {
    name = "an old server, without a page of its health",
    args = { storage_warn = "96" },
    host = { http = { FIGURES, { value = { status = 404, reason = "Not Found", body = "", seconds = 0.001 } } } },
    expect = { status = "ok" },
  },
  {
    name = "the health does not come",
    host = { http = { FIGURES, { code = "timeout", text = "http://localhost:8222/healthz did not answer within 8 s" } } },
    expect = { status = "critical" },
  },
  {
    name = "something else answers",
    host = { http = { value = { status = 200, reason = "OK", body = '{"hello":1}', seconds = 0.001 } } },
    expect = { status = "unknown", summary = "http://localhost:8222 is no monitoring port of NATS", metrics = {} },
  },
  {
    name = "the policy forbids it",
    args = { url = "http://192.0.2.1:8222" },
    host = { http = { code = "denied", text = "192.0.2.1 port 8222 is not granted to http" } },
    expect = { status = "unknown", metrics = {} },
  },
  {
    name = "it does not run",
    host = { http = { code = "refused", text = "127.0.0.1:8222 refused the connection" } },
    expect = { status = "critical", summary = "127.0.0.1:8222 refused the connection", metrics = {} },
  },
}
