local page = "localhost\nServerVersion: Apache/2.4.57 (Debian)\nTotal Accesses: 4711\nTotal kBytes: 1024\nUptime: 600\nBusyWorkers: 9\nIdleWorkers: 1\n"
local full = page .. "Scoreboard: WWWWWWWWW_\n"
local roomy = page .. "Scoreboard: WWWWWWWWW_" .. "........................................\n"

return {
  {
    name = "room for more workers",
    host = { http = { args = { { url = "http://localhost/server-status?auto" } }, value = { status = 200, reason = "OK", body = roomy, seconds = 0.01 } } },
    expect = {
      status = "ok", summary = "9 workers busy, 1 idle, 18 % of what there can be",
      metrics = {
        busy = { value = 18, unit = "%", warn = "80", crit = "95" }, busy_workers = 9, idle_workers = { value = 1, unit = "workers" },
        requests = { value = 4711, unit = "c", kind = "counter" }, sent = { value = 1048576, unit = "B", kind = "counter" },
      },
    },
  },
  {
    name = "one left of ten",
    host = { http = { value = { status = 200, reason = "OK", body = full, seconds = 0.01 } } },
    expect = { status = "warning", summary = "9 workers busy, 1 idle, 90 % of what there can be" },
  },
  {
    name = "a tighter limit",
    args = { crit = "85" },
    host = { http = { value = { status = 200, reason = "OK", body = full, seconds = 0.01 } } },
    expect = { status = "critical" },
  },
  {
    name = "another page",
    host = { http = { value = { status = 403, reason = "Forbidden", body = "<html>", seconds = 0.01 } } },
    expect = { status = "unknown", summary = "http://localhost/server-status?auto is no page of mod_status (403 Forbidden)", metrics = {} },
  },
  {
    name = "closed",
    host = { http = { code = "refused", text = "127.0.0.1:80 refused the connection" } },
    expect = { status = "critical", summary = "127.0.0.1:80 refused the connection", metrics = {} },
  },
}
