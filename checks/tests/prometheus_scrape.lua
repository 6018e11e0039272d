local page = [[
# HELP http_requests_total Requests.
# TYPE http_requests_total counter
http_requests_total{method="post",code="200"} 1027 1395066363000
http_requests_total{method="post",code="400"}    3
# TYPE process_resident_memory_bytes gauge
process_resident_memory_bytes 2.5e+07
msdos_file_access_time_seconds{path="C:\\DIR\\FILE.TXT",error="a \"quoted\" {brace}"} 1.458255915e9
rpc_duration_seconds{quantile="0.5"} 4773
temperature NaN
broken{a="1 5
]]
local answer = { status = 200, reason = "OK", url = "http://localhost:9100/metrics", body = page, body_bytes = 500, truncated = false, seconds = 0.01 }

return {
  {
    name = "counters and gauges with their units",
    args = { url = "http://localhost:9100/metrics", names = { "http_*", "process_*" } },
    host = { http = { args = { { url = "http://localhost:9100/metrics" } }, value = answer } },
    expect = {
      status = "ok", summary = "3 samples of http://localhost:9100/metrics",
      metrics = {
        ["http_requests_total{code=200,method=post}"] = { value = 1027, unit = "c", kind = "counter" },
        ["http_requests_total{code=400,method=post}"] = 3, process_resident_memory_bytes = { value = 25000000, unit = "B", kind = "gauge" },
      },
    },
  },
  {
    name = "escapes and braces in labels",
    args = { url = "http://localhost:9100/metrics", names = { "msdos*" } },
    host = { http = { value = answer } },
    expect = {
      status = "ok", metrics = { ['msdos_file_access_time_seconds{error=a "quoted" {brace},path=C:\\DIR\\FILE.TXT}'] = { value = 1458255915, unit = "s" } },
    },
  },
  {
    name = "a limit for one of them",
    args = { url = "http://localhost:9100/metrics", names = { "*" }, watch = "process_resident_memory_bytes", warn = "1000000", most = 3 },
    host = { http = { value = answer } },
    expect = { status = "warning", summary = "3 samples of http://localhost:9100/metrics, 2 more left out" },
  },
  {
    name = "none of that name",
    args = { url = "http://localhost:9100/metrics", names = { "node_*" } },
    host = { http = { value = answer } },
    expect = { status = "unknown", summary = "http://localhost:9100/metrics has none of the metrics asked for", metrics = {} },
  },
  {
    name = "no page",
    args = { url = "http://localhost:9100/metrics", names = { "*" } },
    host = { http = { value = { status = 404, reason = "Not Found", body = "", body_bytes = 0, truncated = false, seconds = 0.01 } } },
    expect = { status = "critical", summary = "http://localhost:9100/metrics answers 404 Not Found", metrics = {} },
  },
  {
    name = "the policy forbids it",
    args = { url = "http://192.0.2.1/", names = { "*" } },
    host = { http = { code = "denied", text = "192.0.2.1 port 80 is not granted to http" } },
    expect = { status = "unknown", metrics = {} },
  },
}
