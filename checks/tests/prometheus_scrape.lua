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
local odd = [[
# TYPE job:requests:rate5m gauge
job:requests:rate5m{job="a"} 0.5
cap{n="1"} 1
cap{n="2"} +Inf
low -inf
watched{path="/x}y"} 99
watched{path="a=\"b\",c={d}, e"} 1 1700000000000
spaced { a = "1" , b="2", } 7 # {trace="x"} 1
gone NaN
half{a="1
half{a="2"} many
many{a="1",b="1",c="1",d="1",e="1",f="1",g="1",h="1",i="1",j="1",k="1",l="1",m="1",n="1",o="1",p="1",q="1",r="1"} 18
last 12]]
local odd_page = { status = 200, reason = "OK", url = "http://localhost:9100/metrics", body = odd, body_bytes = 500, truncated = false, seconds = 0.01 }
local cut_page = { status = 200, reason = "OK", url = "http://localhost:9100/metrics", body = odd, body_bytes = 500, truncated = true, seconds = 0.01 }
local packed_page = { status = 200, reason = "OK", url = "http://localhost:9100/metrics", body = "", body_fault = "its encoding is br", body_bytes = 500,
  truncated = false, seconds = 0.01 }
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
    expect = { status = "warning", summary = "3 samples of http://localhost:9100/metrics, 3 more left out, 1 line cannot be read" },
  },
  {
    name = "infinity is above each limit",
    args = { url = "http://localhost:9100/metrics", names = { "cap" }, watch = "cap", crit = "10" },
    host = { http = { value = odd_page } },
    expect = { status = "critical", summary = "2 samples of http://localhost:9100/metrics", metrics = { ["cap{n=1}"] = 1 } },
  },
  {
    name = "and minus infinity below",
    args = { url = "http://localhost:9100/metrics", names = { "low" }, watch = "low", warn = "~:10", crit = "-5:" },
    host = { http = { value = odd_page } },
    expect = { status = "critical" },
  },
  {
    name = "what is no number is in no range",
    args = { url = "http://localhost:9100/metrics", names = { "gone" }, watch = "gone", crit = "10" },
    host = { http = { value = odd_page } },
    expect = { status = "unknown", summary = "1 sample of http://localhost:9100/metrics" },
  },
  {
    name = "braces, commas and equals signs in labels",
    args = { url = "http://localhost:9100/metrics", names = { "watched", "spaced" }, watch = "watched", crit = "10" },
    host = { http = { value = odd_page } },
    expect = {
      status = "critical", summary = "3 samples of http://localhost:9100/metrics",
      metrics = { ["watched{path=/x}y}"] = 99, ['watched{path=a="b",c={d}, e}'] = 1, ["spaced{a=1,b=2}"] = 7 },
    },
  },
  {
    name = "more labels than a metric may have",
    args = { url = "http://localhost:9100/metrics", names = { "many" }, watch = "many", crit = "10" },
    host = { http = { value = odd_page } },
    expect = { status = "critical", summary = "1 sample of http://localhost:9100/metrics, 2 labels left out" },
  },
  {
    name = "a colon in a name",
    args = { url = "http://localhost:9100/metrics", names = { "job:*" }, watch = "job:requests:rate5m", warn = "0.1" },
    host = { http = { value = odd_page } },
    expect = { status = "warning", metrics = { ["job.requests.rate5m{job=a}"] = 0.5 } },
  },
  {
    name = "a colon that was a point before",
    args = { url = "http://localhost:9100/metrics", names = { "job.requests.*" }, watch = "job.requests.rate5m", warn = "0.1" },
    host = { http = { value = odd_page } },
    expect = { status = "warning" },
  },
  {
    name = "lines that cannot be read",
    args = { url = "http://localhost:9100/metrics", names = { "half", "last" } },
    host = { http = { value = odd_page } },
    expect = { status = "ok", summary = "1 sample of http://localhost:9100/metrics, 2 lines cannot be read", metrics = { last = 12 } },
  },
  {
    name = "one of them is watched",
    args = { url = "http://localhost:9100/metrics", names = { "half", "last" }, watch = "half", crit = "10" },
    host = { http = { value = odd_page } },
    expect = { status = "unknown" },
  },
  {
    name = "a watched sample behind many others",
    args = { url = "http://localhost:9100/metrics", names = { "*" }, watch = "many", crit = "10", most = 1 },
    host = { http = { value = odd_page } },
    expect = { status = "critical" },
  },
  {
    name = "a page that was cut",
    args = { url = "http://localhost:9100/metrics", names = { "cap", "last" } },
    host = { http = { value = cut_page } },
    expect = { status = "ok", summary = "2 samples of http://localhost:9100/metrics, the page was not read whole: it is longer than 1 MiB" },
  },
  {
    name = "what is watched may be behind the cut",
    args = { url = "http://localhost:9100/metrics", names = { "spaced" }, watch = "spaced", crit = "10" },
    host = { http = { value = cut_page } },
    expect = { status = "unknown" },
  },
  {
    name = "a page that cannot be read",
    args = { url = "http://localhost:9100/metrics", names = { "*" } },
    host = { http = { value = packed_page } },
    expect = { status = "unknown", summary = "0 samples of http://localhost:9100/metrics, the page was not read whole: its encoding is br" },
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
