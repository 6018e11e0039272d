return {
  {
    name = "an authoritative server",
    args = { key = "sesame" },
    host = {
      http = { value = { status = 200, reason = "OK", body = "[{\"name\":\"udp-queries\",\"type\":\"StatisticItem\",\"value\":\"900\"},{\"name\":\"tcp-queries\",\"type\":\"StatisticItem\",\"value\":\"100\"},{\"name\":\"servfail-packets\",\"type\":\"StatisticItem\",\"value\":\"30\"},{\"name\":\"latency\",\"type\":\"StatisticItem\",\"value\":\"1500\"},{\"name\":\"packetcache-hit\",\"type\":\"StatisticItem\",\"value\":\"500\"},{\"name\":\"packetcache-miss\",\"type\":\"StatisticItem\",\"value\":\"400\"},{\"name\":\"overload-drops\",\"type\":\"StatisticItem\",\"value\":\"0\"},{\"name\":\"uptime\",\"type\":\"StatisticItem\",\"value\":\"7200\"},{\"name\":\"real-memory-usage\",\"type\":\"StatisticItem\",\"value\":\"4096\"},{\"name\":\"response-sizes\",\"type\":\"MapStatisticItem\",\"value\":[{\"name\":\"20\",\"value\":\"3\"}]}]", seconds = 0.02 }, args = { { url = "http://localhost:8081/api/v1/servers/localhost/statistics", headers = { ["x-api-key"] = "sesame" } } } },
      state = { ["recent servfail part"] = { older = 29, newer = 29, at = 1699999900 }, ["recent servfail whole"] = { older = 900, newer = 900, at = 1699999900 } },
    },
    expect = {
      status = "ok",
      summary = "authoritative server, 1000 queries, up for 2 h 0 min",
      metrics = {
        servfail_share = { value = 1, unit = "%", warn = "10" },
        latency = { value = 0.0015, unit = "s", warn = "0.5" },
        queries = { value = 1000, unit = "c", kind = "counter" },
        servfail = 30,
        cache_hits = 500,
        dropped = 0,
        memory = { value = 4096, unit = "B" },
        uptime = { value = 7200, unit = "s" },
      },
    },
  },
  {
    name = "a recursor that is slow",
    args = { key = "sesame" },
    host = {
      http = { value = { status = 200, reason = "OK", body = "[{\"name\":\"questions\",\"type\":\"StatisticItem\",\"value\":\"1000\"},{\"name\":\"servfail-answers\",\"type\":\"StatisticItem\",\"value\":\"10\"},{\"name\":\"qa-latency\",\"type\":\"StatisticItem\",\"value\":\"800000\"},{\"name\":\"cache-hits\",\"type\":\"StatisticItem\",\"value\":\"10\"},{\"name\":\"cache-misses\",\"type\":\"StatisticItem\",\"value\":\"20\"},{\"name\":\"over-capacity-drops\",\"type\":\"StatisticItem\",\"value\":\"1\"},{\"name\":\"uptime\",\"type\":\"StatisticItem\",\"value\":\"60\"}]", seconds = 0.02 } },
    },
    expect = {
      status = "warning",
      summary = "recursor, 1000 queries, up for 1 min 0 s",
      metrics = {
        latency = 0.8,
        cache_misses = 20,
        dropped = 1,
      },
    },
  },
  {
    name = "most answers fail",
    args = { key = "sesame" },
    host = {
      http = { value = { status = 200, reason = "OK", body = "[{\"name\":\"udp-queries\",\"type\":\"StatisticItem\",\"value\":\"900\"},{\"name\":\"tcp-queries\",\"type\":\"StatisticItem\",\"value\":\"100\"},{\"name\":\"servfail-packets\",\"type\":\"StatisticItem\",\"value\":\"30\"},{\"name\":\"latency\",\"type\":\"StatisticItem\",\"value\":\"1500\"},{\"name\":\"packetcache-hit\",\"type\":\"StatisticItem\",\"value\":\"500\"},{\"name\":\"packetcache-miss\",\"type\":\"StatisticItem\",\"value\":\"400\"},{\"name\":\"overload-drops\",\"type\":\"StatisticItem\",\"value\":\"0\"},{\"name\":\"uptime\",\"type\":\"StatisticItem\",\"value\":\"7200\"},{\"name\":\"real-memory-usage\",\"type\":\"StatisticItem\",\"value\":\"4096\"}]", seconds = 0.02 } },
      state = { ["recent servfail part"] = { older = 0, newer = 0, at = 1699999900 }, ["recent servfail whole"] = { older = 950, newer = 950, at = 1699999900 } },
    },
    expect = {
      status = "critical",
      metrics = {
        servfail_share = 60,
      },
    },
  },
  {
    name = "no key",
    args = { key = "sesame" },
    host = {
      http = { value = { status = 401, reason = "Unauthorized", body = "Unauthorized", seconds = 0.02 } },
    },
    expect = { status = "unknown", summary = "http://localhost:8081/api/v1/servers/localhost/statistics refuses access (401): give a login", metrics = {} },
  },
  {
    name = "a key in plain text",
    args = { key = "sesame", url = "http://192.0.2.1:8081" },
    expect = { status = "unknown", summary = "the key would go to another host in plain text: give an https url", metrics = {} },
  },
  {
    name = "another API",
    args = { key = "sesame" },
    host = {
      http = { value = { status = 200, reason = "OK", body = "{\"ok\":true}", seconds = 0.02 } },
    },
    expect = { status = "unknown", summary = "http://localhost:8081 is no API of PowerDNS", metrics = {} },
  },
  {
    name = "figures that are none",
    args = { key = "sesame" },
    host = {
      http = { value = { status = 200, reason = "OK", body = "[{\"name\":\"udp-queries\",\"value\":[1]},{\"name\":7},4,null,{\"name\":\"questions\",\"value\":\"many\"}]", seconds = 0.02 } },
    },
    expect = { status = "unknown", metrics = {} },
  },
  {
    name = "it does not run",
    args = { key = "sesame" },
    host = {
      http = { code = "refused", text = "127.0.0.1:8081 refused the connection" },
    },
    expect = { status = "critical", summary = "127.0.0.1:8081 refused the connection", metrics = {} },
  },
  {
    name = "nothing of queries that failed",
    args = { key = "k" },
    host = {
      http = { value = { status = 200, reason = "OK", seconds = 0.02, body = "[{\"name\":\"questions\",\"type\":\"StatisticItem\",\"value\":\"12\"},{\"name\":\"qa-latency\",\"type\":\"StatisticItem\",\"value\":\"900\"}]" } },
    },
    expect = { status = "unknown", metrics = { queries = 12 } },
  },
  {
    name = "its latency is not told",
    args = { key = "sesame" },
    host = {
      http = { value = { status = 200, reason = "OK", body = "[{\"name\":\"udp-queries\",\"type\":\"StatisticItem\",\"value\":\"900\"},{\"name\":\"tcp-queries\",\"type\":\"StatisticItem\",\"value\":\"100\"},{\"name\":\"servfail-packets\",\"type\":\"StatisticItem\",\"value\":\"30\"},{\"name\":\"packetcache-hit\",\"type\":\"StatisticItem\",\"value\":\"500\"},{\"name\":\"packetcache-miss\",\"type\":\"StatisticItem\",\"value\":\"400\"},{\"name\":\"overload-drops\",\"type\":\"StatisticItem\",\"value\":\"0\"},{\"name\":\"uptime\",\"type\":\"StatisticItem\",\"value\":\"7200\"},{\"name\":\"real-memory-usage\",\"type\":\"StatisticItem\",\"value\":\"4096\"},{\"name\":\"response-sizes\",\"type\":\"MapStatisticItem\",\"value\":[{\"name\":\"20\",\"value\":\"3\"}]}]", seconds = 0.02 }, args = { { url = "http://localhost:8081/api/v1/servers/localhost/statistics", headers = { ["x-api-key"] = "sesame" } } } },
      state = { ["recent servfail part"] = { older = 29, newer = 29, at = 1699999900 }, ["recent servfail whole"] = { older = 900, newer = 900, at = 1699999900 } },
    },
    expect = { status = "unknown" },
  },
  {
    name = "queries by TCP are not told",
    args = { key = "sesame" },
    host = {
      http = { value = { status = 200, reason = "OK", body = "[{\"name\":\"udp-queries\",\"type\":\"StatisticItem\",\"value\":\"900\"},{\"name\":\"servfail-packets\",\"type\":\"StatisticItem\",\"value\":\"30\"},{\"name\":\"latency\",\"type\":\"StatisticItem\",\"value\":\"1500\"},{\"name\":\"packetcache-hit\",\"type\":\"StatisticItem\",\"value\":\"500\"},{\"name\":\"packetcache-miss\",\"type\":\"StatisticItem\",\"value\":\"400\"},{\"name\":\"overload-drops\",\"type\":\"StatisticItem\",\"value\":\"0\"},{\"name\":\"uptime\",\"type\":\"StatisticItem\",\"value\":\"7200\"},{\"name\":\"real-memory-usage\",\"type\":\"StatisticItem\",\"value\":\"4096\"},{\"name\":\"response-sizes\",\"type\":\"MapStatisticItem\",\"value\":[{\"name\":\"20\",\"value\":\"3\"}]}]", seconds = 0.02 }, args = { { url = "http://localhost:8081/api/v1/servers/localhost/statistics", headers = { ["x-api-key"] = "sesame" } } } },
      state = { ["recent servfail part"] = { older = 29, newer = 29, at = 1699999900 }, ["recent servfail whole"] = { older = 900, newer = 900, at = 1699999900 } },
    },
    expect = { status = "unknown" },
  },
}
