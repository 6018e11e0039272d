return {
  {
    name = "at work",
    host = {
      http = { value = { status = 200, reason = "OK", body = "{\"json-stats-version\":\"1.7\",\"boot-time\":\"2026-11-29T17:54:58.024Z\",\"current-time\":\"2026-11-30T18:55:03.108Z\",\"version\":\"9.18.49-1~deb12u1-Debian\",\"opcodes\":{\"QUERY\":1000,\"IQUERY\":0},\"nsstats\":{\"QrySuccess\":900,\"QrySERVFAIL\":20,\"QryNXDOMAIN\":80,\"QryRecursion\":300,\"RecursClients\":4}}", seconds = 0.02 }, args = { { url = "http://localhost:8053/json/v1/server" } } },
      state = { ["recent servfail part"] = { older = 19, newer = 19, at = 1699999900 }, ["recent servfail whole"] = { older = 900, newer = 900, at = 1699999900 } },
    },
    expect = {
      status = "ok",
      summary = "version 9.18.49-1~deb12u1-Debian, 1000 queries, up for 1 d 1 h",
      metrics = {
        servfail_share = { value = 1, unit = "%", warn = "10", crit = "50" },
        queries = { value = 1000, unit = "c", kind = "counter" },
        servfail = 20,
        nxdomain = 80,
        succeeded = 900,
        rejected = 0,
        recursive_clients = { value = 4, unit = "clients" },
        dropped_lately = { value = 0, warn = "0" },
        uptime = { value = 90005, unit = "s" },
      },
    },
  },
  {
    name = "asked nothing yet",
    host = {
      http = { value = { status = 200, reason = "OK", body = "{\"version\":\"9.18\",\"opcodes\":{}}", seconds = 0.02 } },
    },
    expect = {
      status = "ok",
      summary = "version 9.18, 0 queries",
      metrics = {
        queries = 0,
      },
    },
  },
  {
    name = "over a leap day",
    host = {
      http = { value = { status = 200, reason = "OK", body = "{\"json-stats-version\":\"1.7\",\"boot-time\":\"2028-02-28T23:59:58Z\",\"current-time\":\"2028-03-01T00:00:00Z\",\"version\":\"9.18.49-1~deb12u1-Debian\",\"opcodes\":{\"QUERY\":1000,\"IQUERY\":0},\"nsstats\":{\"QrySuccess\":900,\"QrySERVFAIL\":20,\"QryNXDOMAIN\":80,\"QryRecursion\":300,\"RecursClients\":4}}", seconds = 0.02 } },
    },
    expect = {
      status = "ok",
      metrics = {
        uptime = 86402,
      },
    },
  },
  {
    name = "some answers fail",
    host = {
      http = { value = { status = 200, reason = "OK", body = "{\"json-stats-version\":\"1.7\",\"boot-time\":\"2026-11-29T17:54:58.024Z\",\"current-time\":\"2026-11-30T18:55:03.108Z\",\"version\":\"9.18.49-1~deb12u1-Debian\",\"opcodes\":{\"QUERY\":1000,\"IQUERY\":0},\"nsstats\":{\"QrySuccess\":900,\"QrySERVFAIL\":40,\"QryNXDOMAIN\":80,\"QryRecursion\":300,\"RecursClients\":4}}", seconds = 0.02 } },
      state = { ["recent servfail part"] = { older = 20, newer = 20, at = 1699999900 }, ["recent servfail whole"] = { older = 900, newer = 900, at = 1699999900 } },
    },
    expect = {
      status = "warning",
      metrics = {
        servfail_share = 20,
      },
    },
  },
  {
    name = "most answers fail",
    host = {
      http = { value = { status = 200, reason = "OK", body = "{\"json-stats-version\":\"1.7\",\"boot-time\":\"2026-11-29T17:54:58.024Z\",\"current-time\":\"2026-11-30T18:55:03.108Z\",\"version\":\"9.18.49-1~deb12u1-Debian\",\"opcodes\":{\"QUERY\":1000,\"IQUERY\":0},\"nsstats\":{\"QrySuccess\":900,\"QrySERVFAIL\":90,\"QryNXDOMAIN\":80,\"QryRecursion\":300,\"RecursClients\":4}}", seconds = 0.02 } },
      state = { ["recent servfail part"] = { older = 0, newer = 0, at = 1699999900 }, ["recent servfail whole"] = { older = 900, newer = 900, at = 1699999900 } },
    },
    expect = {
      status = "critical",
      metrics = {
        servfail_share = 90,
      },
    },
  },
  {
    name = "queries were dropped",
    host = {
      http = { value = { status = 200, reason = "OK", body = "{\"json-stats-version\":\"1.7\",\"boot-time\":\"2026-11-29T17:54:58.024Z\",\"current-time\":\"2026-11-30T18:55:03.108Z\",\"version\":\"9.18.49-1~deb12u1-Debian\",\"opcodes\":{\"QUERY\":1000,\"IQUERY\":0},\"nsstats\":{\"QrySuccess\":900,\"QrySERVFAIL\":20,\"QryNXDOMAIN\":80,\"QryRecursion\":300,\"RecursClients\":4,\"QryDropped\":8}}", seconds = 0.02 } },
      state = { ["recent dropped"] = { older = 2, newer = 3, at = 1699999900 } },
    },
    expect = {
      status = "warning",
      metrics = {
        dropped_lately = 6,
        dropped = 8,
      },
    },
  },
  {
    name = "without json-c",
    host = {
      http = { value = { status = 200, reason = "OK", body = "<?xml version=\"1.0\"?>", seconds = 0.02 } },
    },
    expect = { status = "critical", summary = "http://localhost:8053/json/v1/server answers with what is no JSON document (no value at byte 1): BIND has to be built with json-c", metrics = {} },
  },
  {
    name = "something else answers",
    host = {
      http = { value = { status = 200, reason = "OK", body = "{\"version\":\"1\"}", seconds = 0.02 } },
    },
    expect = { status = "unknown", summary = "http://localhost:8053 is no statistics channel of BIND", metrics = {} },
  },
  {
    name = "no such page",
    host = {
      http = { value = { status = 404, reason = "Not Found", body = "", seconds = 0.02 } },
    },
    expect = { status = "unknown", summary = "http://localhost:8053/json/v1/server does not exist there (404): check the url", metrics = {} },
  },
  {
    name = "it does not run",
    host = {
      http = { code = "refused", text = "127.0.0.1:8053 refused the connection" },
    },
    expect = { status = "critical", summary = "127.0.0.1:8053 refused the connection", metrics = {} },
  },
  {
    name = "queries without figures",
    host = {
      http = { value = { status = 200, reason = "OK", body = "{\"version\":\"9.20.3\",\"opcodes\":{\"QUERY\":700}}", seconds = 0.02 } },
    },
    expect = { status = "unknown", summary = "http://localhost:8053 tells of 700 queries, and nothing of what became of them (nsstats)", metrics = {} },
  },
  {
    name = "figures that are none",
    host = {
      http = { value = { status = 200, reason = "OK", body = "{\"version\":\"9.20.3\",\"opcodes\":{\"QUERY\":700},\"nsstats\":{}}", seconds = 0.02 } },
    },
    expect = { status = "unknown", summary = "http://localhost:8053 tells of 700 queries, and nothing of what became of them (nsstats)", metrics = {} },
  },
}
