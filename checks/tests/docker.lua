local HEAD = "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n"
local VERSION = {
  args = { { path = "/run/docker.sock", send = "GET /version HTTP/1.0\r\nHost: localhost\r\nAccept: application/json\r\n\r\n" } },
  value = { connect_seconds = 0.0001, seconds = 0.002, received = HEAD .. '{"Version":"20.10.24","ApiVersion":"1.41","Os":"linux"}\n', closed = true },
}
local MIXED = HEAD .. '[{"Id":"a1","Names":["/web"],"Image":"nginx","State":"running","Status":"Up 3 hours (healthy)","Ports":[]},'
  .. '{"Id":"b2","Names":["/db-1"],"Image":"postgres","State":"running","Status":"Up 2 days","Ports":null},'
  .. '{"Id":"c3","Names":["/old"],"Image":"nginx","State":"exited","Status":"Exited (0) 5 days ago"}]\n'
local ILL = HEAD .. '[{"Names":["/web"],"State":"running","Status":"Up 3 hours (unhealthy)"},{"Names":["/loop"],"State":"restarting","Status":"Restarting (1) 2 seconds ago"}]'
local PODMAN = HEAD .. '[{"Names":["/web"],"State":"Running","Status":"Up"},{"Names":[],"Id":"e5","State":"created","Status":"Created"}]'

return {
  {
    name = "two of three run",
    host = { unix = { VERSION, { value = { seconds = 0.003, received = MIXED, closed = true } } } },
    expect = {
      status = "ok", summary = "version 20.10.24, 2 containers running, 1 stopped",
      metrics = { running = { value = 2, unit = "containers" }, stopped = 1, paused = 0, restarting = 0, unhealthy = 0 },
    },
  },
  {
    name = "those that have to run do",
    args = { containers = { "web", "db-*" } },
    host = { unix = { VERSION, { value = { seconds = 0.003, received = MIXED, closed = true } } } },
    expect = { status = "ok" },
  },
  {
    name = "one has stopped and one is not there",
    args = { containers = { "old", "mail" } },
    host = { unix = { VERSION, { value = { seconds = 0.003, received = MIXED, closed = true } } } },
    expect = { status = "critical", summary = "old is exited, there is no container mail" },
  },
  {
    name = "one of several that fit a pattern has stopped",
    args = { containers = { "d*", "o?d", "*d" } },
    host = { unix = { VERSION, { value = { seconds = 0.003, received = MIXED, closed = true } } } },
    expect = { status = "critical", summary = "old is exited" },
  },
  {
    name = "of all that have to run two do not",
    args = { containers = { "*" } },
    host = { unix = { VERSION, { value = { seconds = 0.003, closed = true, received = HEAD
      .. '[{"Names":["/a"],"State":"paused"},{"Names":["/b"],"State":"running"},{"Names":["/c"],"State":"exited"}]' } } } },
    expect = { status = "critical", summary = "a is paused, c is exited" },
  },
  {
    name = "too many have stopped",
    args = { warn = "0" },
    host = { unix = { VERSION, { value = { seconds = 0.003, received = MIXED, closed = true } } } },
    expect = { status = "warning" },
  },
  {
    name = "one is unhealthy",
    host = { unix = { VERSION, { value = { seconds = 0.003, received = ILL, closed = true } } } },
    expect = { status = "critical", summary = "web is unhealthy", metrics = { unhealthy = 1, running = 1, restarting = 1 } },
  },
  {
    name = "one restarts, and nobody asks for the health of the other",
    args = { ignore = { "web" } },
    host = { unix = { VERSION, { value = { seconds = 0.003, received = ILL, closed = true } } } },
    expect = { status = "warning", summary = "loop restarts" },
  },
  {
    name = "Podman says it in other words",
    args = { containers = { "web" } },
    host = { unix = { VERSION, { value = { seconds = 0.003, received = PODMAN, closed = true } } } },
    expect = { status = "ok", metrics = { running = 1, stopped = 1 } },
  },
  {
    name = "no container at all",
    host = { unix = { VERSION, { value = { seconds = 0.003, received = HEAD .. "[]\n", closed = true } } } },
    expect = { status = "ok", summary = "version 20.10.24, 0 containers running, 0 stopped" },
  },
  {
    name = "the service is down",
    host = { unix = { code = "refused", text = "/run/docker.sock refused the connection" } },
    expect = { status = "critical", summary = "/run/docker.sock refused the connection", metrics = {} },
  },
  {
    name = "the policy does not grant it",
    host = { unix = { code = "denied", text = "/run/docker.sock is not granted" } },
    expect = { status = "unknown", summary = "/run/docker.sock is not granted", metrics = {} },
  },
  {
    name = "it answers with a fault",
    host = { unix = { value = { seconds = 0.003, received = 'HTTP/1.0 500 Internal Server Error\r\n\r\n{"message":"no"}', closed = true } } },
    expect = { status = "critical", summary = "/run/docker.sock answers 500 to /version", metrics = {} },
  },
  {
    name = "the list is broken off",
    host = { unix = { VERSION, { value = { seconds = 0.003, received = HEAD .. '[{"Names":["/we', closed = true } } } },
    expect = { status = "critical", metrics = {},
      summary = "/run/docker.sock answers /containers/json?all=1 with what is no JSON (a text without an end at byte 12)" },
  },
  {
    name = "more containers than can be read",
    host = { unix = { VERSION, { value = { seconds = 0.003, received = HEAD .. "[", closed = false } } } },
    expect = { status = "unknown", summary = "the answer to /containers/json?all=1 is not over after 1 bytes", metrics = {} },
  },
  {
    name = "something else listens there",
    host = { unix = { value = { seconds = 0.003, received = "220 mail ESMTP\r\n", closed = true } } },
    expect = { status = "critical", summary = "/run/docker.sock does not speak HTTP", metrics = {} },
  },
}
