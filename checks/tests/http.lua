local page = {
  status = 200, reason = "OK", url = "http://app.example/", address = "192.0.2.1", http_version = "1.1", headers = {}, body = "all is well",
  body_bytes = 11, truncated = false, redirects = 0, connect_seconds = 0.001, first_byte_seconds = 0.04, seconds = 0.05,
}
local health = {
  status = 200, reason = "OK", url = "http://app.example/health", address = "192.0.2.1", http_version = "1.1", headers = {}, body = "{}",
  body_bytes = 2, truncated = false, redirects = 0, connect_seconds = 0.001, first_byte_seconds = 0.04, seconds = 0.05,
  json = { state = "green", queue = { depth = 120 }, nodes = { { name = "a", up = true }, { name = "b", up = false } } },
}

return {
  {
    name = "a good page",
    args = { url = "http://app.example/", contains = "well", headers = { "Accept: text/plain" } },
    host = { http = { args = { { url = "http://app.example/", method = "GET", headers = { Accept = "text/plain" }, json = false } }, value = page } },
    expect = {
      status = "ok", summary = "200 OK, 11 B in 50 ms",
      metrics = {
        ["time{url=http://app.example/}"] = { value = 0.05, unit = "s", warn = "2", crit = "5" },
        ["size{url=http://app.example/}"] = { value = 11, unit = "B" }, ["status{url=http://app.example/}"] = 200,
      },
    },
  },
  {
    name = "an error of the server",
    args = { url = "http://app.example/" },
    host = { http = { value = { status = 503, reason = "Service Unavailable", url = "http://app.example/", body = "", body_bytes = 0, headers = {},
      redirects = 0, first_byte_seconds = 0.01, seconds = 0.01 } } },
    expect = { status = "critical", summary = "503 Service Unavailable, expected 2xx or 3xx, 0 B in 10 ms" },
  },
  {
    name = "a status that is expected",
    args = { url = "http://app.example/admin", status = { "401", "403" } },
    host = { http = { value = { status = 401, reason = "Unauthorized", url = "http://app.example/admin", body = "", body_bytes = 0, headers = {},
      redirects = 0, first_byte_seconds = 0.01, seconds = 0.01 } } },
    expect = { status = "ok" },
  },
  {
    name = "slow",
    args = { url = "http://app.example/", warn = "0.01" },
    host = { http = { value = page } },
    expect = { status = "warning", summary = "200 OK, 11 B in 50 ms" },
  },
  {
    name = "not the text",
    args = { url = "http://app.example/", contains = "welcome" },
    host = { http = { value = page } },
    expect = { status = "critical", summary = '200 OK, the body does not hold "welcome", 11 B in 50 ms' },
  },
  {
    name = "a text that must not be there",
    args = { url = "http://app.example/", lacks = "well" },
    host = { http = { value = page } },
    expect = { status = "critical", summary = '200 OK, the body holds "well", 11 B in 50 ms' },
  },
  {
    name = "a word in JSON",
    args = { url = "http://app.example/health", json_path = "state", json_equals = "green" },
    host = { http = { args = { { json = true } }, value = health } },
    expect = { status = "ok", summary = "200 OK, state is green, 2 B in 50 ms" },
  },
  {
    name = "a figure in JSON",
    args = { url = "http://app.example/health", json_path = "queue.depth", json_warn = "100", json_crit = "1000" },
    host = { http = { value = health } },
    expect = {
      status = "warning", summary = "200 OK, queue.depth is 120, 2 B in 50 ms",
      metrics = { ["value{path=queue.depth}"] = { value = 120, warn = "100" } },
    },
  },
  {
    name = "an entry of a list in JSON",
    args = { url = "http://app.example/health", json_path = "nodes.2.up", json_equals = "true" },
    host = { http = { value = health } },
    expect = { status = "critical", summary = "200 OK, nodes.2.up is false, not true, 2 B in 50 ms" },
  },
  {
    name = "no such value",
    args = { url = "http://app.example/health", json_path = "nodes.3.up" },
    host = { http = { value = health } },
    expect = { status = "critical", summary = "200 OK, the JSON has no nodes.3.up, 2 B in 50 ms" },
  },
  {
    name = "after a redirect",
    args = { url = "http://app.example/old" },
    host = { http = { value = { status = 200, reason = "OK", url = "http://app.example/new", body = "x", body_bytes = 1, headers = {},
      redirects = 1, first_byte_seconds = 0.01, seconds = 0.02 } } },
    expect = { status = "ok", summary = "200 OK, 1 B in 20 ms, after a redirect to http://app.example/new" },
  },
  {
    name = "redirects without an end",
    args = { url = "http://app.example/loop" },
    host = { http = { value = { status = 302, reason = "Found", url = "http://app.example/loop", body = "", body_bytes = 0, redirects = 3,
      headers = { location = "/loop" }, first_byte_seconds = 0.01, seconds = 0.02 } } },
    expect = {
      status = "critical",
      summary = "302 Found, the redirects go in a circle or exceed the limit of 3, 0 B in 20 ms, after a redirect to http://app.example/loop",
    },
  },
  {
    name = "a redirect that is asked for",
    args = { url = "http://app.example/old", status = { "301" } },
    host = { http = { value = { status = 301, reason = "Moved", url = "http://app.example/old", body = "", body_bytes = 0, redirects = 3,
      headers = { location = "/x" }, first_byte_seconds = 0.01, seconds = 0.02 } } },
    expect = { status = "ok" },
  },
  {
    name = "another redirect than is asked for",
    args = { url = "http://app.example/old", status = { "200", "301" } },
    host = { http = { value = { status = 307, reason = "Temporary Redirect", url = "http://app.example/old", body = "", body_bytes = 0, redirects = 3,
      headers = { location = "/x" }, first_byte_seconds = 0.01, seconds = 0.02 } } },
    expect = { status = "critical" },
  },
  {
    name = "a redirect that is not to be followed",
    args = { url = "http://app.example/old", redirects = 0 },
    host = { http = { value = { status = 308, reason = "Moved", url = "http://app.example/old", body = "", body_bytes = 0, redirects = 0,
      headers = { location = "/x" }, first_byte_seconds = 0.01, seconds = 0.02 } } },
    expect = { status = "ok" },
  },
  {
    name = "a redirect to nowhere",
    args = { url = "http://app.example/old" },
    host = { http = { value = { status = 303, reason = "See Other", url = "http://app.example/old", body = "", body_bytes = 0, redirects = 0,
      headers = {}, first_byte_seconds = 0.01, seconds = 0.02 } } },
    expect = { status = "ok" },
  },
  {
    name = "a body that was not read whole lacks nothing for certain",
    args = { url = "http://app.example/", lacks = "ERROR" },
    host = { http = { value = { status = 200, reason = "OK", url = "http://app.example/", body = "?", body_bytes = 9, body_fault = "its encoding is br",
      headers = {}, redirects = 0, first_byte_seconds = 0.01, seconds = 0.02 } } },
    expect = { status = "unknown", summary = '200 OK, lacks "ERROR": the body cannot be read whole: its encoding is br, 9 B in 20 ms' },
  },
  {
    name = "what was read of it is enough",
    args = { url = "http://app.example/", contains = "well", lacks = "bad" },
    host = { http = { value = { status = 200, reason = "OK", url = "http://app.example/", body = "well, bad", body_bytes = 9, truncated = true,
      headers = {}, redirects = 0, first_byte_seconds = 0.01, seconds = 0.02 } } },
    expect = { status = "critical", summary = '200 OK, the body holds "bad", 9 B in 20 ms' },
  },
  {
    name = "an agent that does not unpack",
    args = { url = "http://app.example/", lacks = "ERROR" },
    host = { http = { value = { status = 200, reason = "OK", url = "http://app.example/", body = "?", body_bytes = 9, truncated = false,
      headers = { ["content-encoding"] = "gzip" }, redirects = 0, first_byte_seconds = 0.01, seconds = 0.02 } } },
    expect = { status = "unknown", summary = '200 OK, lacks "ERROR": the body cannot be read whole: its encoding is gzip, 9 B in 20 ms' },
  },
  {
    name = "bytes of no charset",
    args = { url = "http://app.example/", contains = "Größe" },
    host = { http = { value = { status = 200, reason = "OK", url = "http://app.example/", body = "Gr\xEF\xBF\xBD\xEF\xBF\xBDe", body_bytes = 9,
      truncated = false, headers = {}, redirects = 0, first_byte_seconds = 0.01, seconds = 0.02 } } },
    expect = { status = "unknown" },
  },
  {
    name = "JSON that cannot be read",
    args = { url = "http://app.example/", json_path = "a" },
    host = { http = { code = "unsupported", text = "the body of http://app.example/ cannot be read: its encoding is br" } },
    expect = { status = "unknown", summary = "the body of http://app.example/ cannot be read: its encoding is br" },
  },
  {
    name = "refused",
    args = { url = "http://app.example/" },
    host = { http = { code = "refused", text = "192.0.2.1:80 refused the connection" } },
    expect = { status = "critical", summary = "192.0.2.1:80 refused the connection", metrics = {} },
  },
  {
    name = "the policy forbids it",
    args = { url = "http://169.254.169.254/" },
    host = { http = { code = "denied", text = "169.254.169.254 is never reached" } },
    expect = { status = "unknown", summary = "169.254.169.254 is never reached", metrics = {} },
  },
  {
    name = "a header that is none",
    args = { url = "http://app.example/", headers = { "nonsense" } },
    expect = { status = "unknown", summary = "headers: nonsense is no line of NAME: VALUE", metrics = {} },
  },
}
