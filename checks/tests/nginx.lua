local page = "Active connections: 291 \nserver accepts handled requests\n 16630948 16630948 31070465 \nReading: 6 Writing: 179 Waiting: 106 \n"

return {
  {
    name = "busy",
    host = { http = { args = { { url = "http://localhost/nginx_status" } }, value = { status = 200, reason = "OK", body = page, body_bytes = 110, seconds = 0.01 } } },
    expect = {
      status = "ok", summary = "291 active connections (6 reading, 179 writing, 106 waiting)",
      metrics = {
        active = { value = 291, unit = "connections" }, reading = 6, writing = 179, waiting = 106, requests = { value = 31070465, unit = "c", kind = "counter" },
      },
    },
  },
  {
    name = "too busy",
    args = { warn = "100", crit = "1000" },
    host = { http = { value = { status = 200, reason = "OK", body = page, body_bytes = 110, seconds = 0.01 } } },
    expect = { status = "warning" },
  },
  {
    name = "no such page",
    host = { http = { value = { status = 404, reason = "Not Found", body = "", body_bytes = 0, seconds = 0.01 } } },
    expect = { status = "unknown", summary = "http://localhost/nginx_status is no stub_status page (404 Not Found)", metrics = {} },
  },
  {
    name = "closed",
    host = { http = { code = "refused", text = "127.0.0.1:80 refused the connection" } },
    expect = { status = "critical", summary = "127.0.0.1:80 refused the connection", metrics = {} },
  },
  {
    name = "the policy forbids it",
    args = { url = "http://192.0.2.1/" },
    host = { http = { code = "denied", text = "192.0.2.1 port 80 is not granted to http" } },
    expect = { status = "unknown", metrics = {} },
  },
}
