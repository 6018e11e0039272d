return {
  {
    name = "at work",
    host = {
      unix = { args = { { path = "/run/unbound.ctl", send = "UBCT1 stats_noreset\n" } }, value = { seconds = 0.003, received = "total.num.queries=1000\ntotal.num.cachehits=900\ntotal.num.cachemiss=100\ntotal.num.prefetch=5\ntotal.num.queries_ip_ratelimited=0\ntotal.requestlist.exceeded=0\ntotal.requestlist.current.all=3\ntotal.recursion.time.avg=0.120000\ntime.now=1700000000.1\ntime.up=3600.250000\nnum.answer.rcode.NOERROR=900\nnum.answer.rcode.SERVFAIL=40\nnum.answer.rcode.NXDOMAIN=60\n", closed = true } },
      state = { ["recent servfail part"] = { older = 39, newer = 39, at = 1699999900 }, ["recent servfail whole"] = { older = 900, newer = 900, at = 1699999900 } },
    },
    expect = {
      status = "ok",
      summary = "1000 queries, 90 % of them from the cache, up for 1 h 0 min",
      metrics = {
        recursion_time = { value = 0.12, unit = "s", warn = "2" },
        servfail_share = { value = 1, unit = "%", warn = "10", crit = "50" },
        queries = { value = 1000, unit = "c", kind = "counter" },
        cache_hits = 900,
        servfail = 40,
        nxdomain = 60,
        requests = { value = 3, unit = "requests" },
        uptime = { value = 3600.25, unit = "s" },
        exceeded = { value = 0, unit = "queries" },
      },
    },
  },
  {
    name = "the first run knows no share",
    host = {
      unix = { args = { { path = "/run/unbound.ctl", send = "UBCT1 stats_noreset\n" } }, value = { seconds = 0.003, received = "total.num.queries=1000\ntotal.num.cachehits=900\ntotal.num.cachemiss=100\ntotal.num.prefetch=5\ntotal.num.queries_ip_ratelimited=0\ntotal.requestlist.exceeded=0\ntotal.requestlist.current.all=3\ntotal.recursion.time.avg=0.120000\ntime.now=1700000000.1\ntime.up=3600.250000\nnum.answer.rcode.NOERROR=900\nnum.answer.rcode.SERVFAIL=40\nnum.answer.rcode.NXDOMAIN=60\n", closed = true } },
    },
    expect = { status = "ok", state = { ["recent servfail whole"] = { older = 1000, newer = 1000, at = 1700000000 } } },
  },
  {
    name = "many answers fail",
    host = {
      unix = { args = { { path = "/run/unbound.ctl", send = "UBCT1 stats_noreset\n" } }, value = { seconds = 0.003, received = "total.num.queries=1000\ntotal.num.cachehits=900\ntotal.num.cachemiss=100\ntotal.num.prefetch=5\ntotal.num.queries_ip_ratelimited=0\ntotal.requestlist.exceeded=0\ntotal.requestlist.current.all=3\ntotal.recursion.time.avg=0.120000\ntime.now=1700000000.1\ntime.up=3600.250000\nnum.answer.rcode.NOERROR=900\nnum.answer.rcode.SERVFAIL=40\nnum.answer.rcode.NXDOMAIN=60\n", closed = true } },
      state = { ["recent servfail part"] = { older = 10, newer = 10, at = 1699999900 }, ["recent servfail whole"] = { older = 900, newer = 900, at = 1699999900 } },
    },
    expect = {
      status = "warning",
      metrics = {
        servfail_share = 30,
      },
    },
  },
  {
    name = "most answers fail",
    host = {
      unix = { args = { { path = "/run/unbound.ctl", send = "UBCT1 stats_noreset\n" } }, value = { seconds = 0.003, received = "total.num.queries=1000\ntotal.num.cachehits=900\ntotal.num.cachemiss=100\ntotal.num.prefetch=5\ntotal.num.queries_ip_ratelimited=0\ntotal.requestlist.exceeded=0\ntotal.requestlist.current.all=3\ntotal.recursion.time.avg=0.120000\ntime.now=1700000000.1\ntime.up=3600.250000\nnum.answer.rcode.NOERROR=900\nnum.answer.rcode.SERVFAIL=40\nnum.answer.rcode.NXDOMAIN=60\n", closed = true } },
      state = { ["recent servfail part"] = { older = 0, newer = 0, at = 1699999900 }, ["recent servfail whole"] = { older = 960, newer = 960, at = 1699999900 } },
    },
    expect = {
      status = "critical",
      metrics = {
        servfail_share = 100,
      },
    },
  },
  {
    name = "queries were dropped",
    host = {
      unix = { args = { { path = "/run/unbound.ctl", send = "UBCT1 stats_noreset\n" } }, value = { seconds = 0.003, received = "total.num.queries=1000\ntotal.num.cachehits=900\ntotal.num.cachemiss=100\ntotal.num.prefetch=5\ntotal.num.queries_ip_ratelimited=0\ntotal.requestlist.exceeded=9\ntotal.requestlist.current.all=3\ntotal.recursion.time.avg=0.120000\ntime.now=1700000000.1\ntime.up=3600.250000\nnum.answer.rcode.NOERROR=900\nnum.answer.rcode.SERVFAIL=40\nnum.answer.rcode.NXDOMAIN=60\n", closed = true } },
      state = { ["recent exceeded"] = { older = 2, newer = 5, at = 1699999900 } },
    },
    expect = {
      status = "warning",
      metrics = {
        exceeded = 7,
      },
    },
  },
  {
    name = "recursion is slow",
    host = {
      unix = { args = { { path = "/run/unbound.ctl", send = "UBCT1 stats_noreset\n" } }, value = { seconds = 0.003, received = "total.num.queries=1000\ntotal.num.cachehits=900\ntotal.num.cachemiss=100\ntotal.num.prefetch=5\ntotal.num.queries_ip_ratelimited=0\ntotal.requestlist.exceeded=0\ntotal.requestlist.current.all=3\ntotal.recursion.time.avg=3.5\ntime.now=1700000000.1\ntime.up=3600.250000\nnum.answer.rcode.NOERROR=900\nnum.answer.rcode.SERVFAIL=40\nnum.answer.rcode.NXDOMAIN=60\n", closed = true } },
    },
    expect = { status = "warning" },
  },
  {
    name = "without extended statistics",
    host = {
      unix = { args = { { path = "/run/unbound.ctl", send = "UBCT1 stats_noreset\n" } }, value = { seconds = 0.003, received = "total.num.queries=1000\ntotal.num.cachehits=900\ntotal.num.cachemiss=100\ntotal.num.prefetch=5\ntotal.num.queries_ip_ratelimited=0\ntotal.requestlist.exceeded=0\ntotal.requestlist.current.all=3\ntotal.recursion.time.avg=0.120000\ntime.now=1700000000.1\ntime.up=3600.250000\n", closed = true } },
    },
    expect = { status = "ok" },
  },
  {
    name = "nothing was asked yet",
    host = {
      unix = { args = { { path = "/run/unbound.ctl", send = "UBCT1 stats_noreset\n" } }, value = { seconds = 0.003, received = "total.num.queries=0\ntotal.num.cachehits=0\ntotal.num.cachemiss=100\ntotal.num.prefetch=5\ntotal.num.queries_ip_ratelimited=0\ntotal.requestlist.exceeded=0\ntotal.requestlist.current.all=3\ntotal.recursion.time.avg=0.120000\ntime.now=1700000000.1\ntime.up=3600.250000\nnum.answer.rcode.NOERROR=900\nnum.answer.rcode.SERVFAIL=40\nnum.answer.rcode.NXDOMAIN=60\n", closed = true } },
    },
    expect = { status = "ok", summary = "0 queries, up for 1 h 0 min" },
  },
  {
    name = "it refuses",
    host = {
      unix = { args = { { path = "/run/unbound.ctl", send = "UBCT1 stats_noreset\n" } }, value = { seconds = 0.003, received = "error unknown command 'stats_noreset'\n", closed = true } },
    },
    expect = { status = "critical", summary = "Unbound refuses: unknown command 'stats_noreset'", metrics = {} },
  },
  {
    name = "another socket",
    host = {
      unix = { args = { { path = "/run/unbound.ctl", send = "UBCT1 stats_noreset\n" } }, value = { seconds = 0.003, received = "HTTP/1.1 400 Bad Request\r\n\r\n", closed = true } },
    },
    expect = { status = "unknown", summary = "/run/unbound.ctl is no control socket of Unbound", metrics = {} },
  },
  {
    name = "the answer has no end",
    host = {
      unix = { args = { { path = "/run/unbound.ctl", send = "UBCT1 stats_noreset\n" } }, value = { seconds = 0.003, received = "total.num.queries=1000\ntotal.num.cachehits=900\ntotal.num.cachemiss=100\ntotal.num.prefetch=5\ntotal.num.queries_ip_ratelimited=0\ntotal.requestlist.exceeded=0\ntotal.requestlist.current.all=3\ntotal.recursion.time.avg=0.120000\ntime.now=1700000000.1\ntime.up=3600.250000\nnum.answer.rcode.NOERROR=900\nnum.answer.rcode.SERVFAIL=40\nnum.answer.rcode.NXDOMAIN=60\n", closed = false } },
    },
    expect = { status = "critical", summary = "/run/unbound.ctl does not end its answer", metrics = {} },
  },
  {
    name = "the policy does not grant it",
    host = {
      unix = { code = "denied", text = "/run/unbound.ctl is not granted" },
    },
    expect = { status = "unknown", summary = "/run/unbound.ctl is not granted", metrics = {} },
  },
  {
    name = "it does not run",
    host = {
      unix = { code = "refused", text = "/run/unbound.ctl refused the connection" },
    },
    expect = { status = "critical", summary = "/run/unbound.ctl refused the connection", metrics = {} },
  },
  {
    name = "failures are not told",
    host = {
      unix = { args = { { path = "/run/unbound.ctl", send = "UBCT1 stats_noreset\n" } }, value = { seconds = 0.003, received = "total.num.queries=1000\ntotal.num.cachehits=900\ntotal.num.cachemiss=100\ntotal.num.prefetch=5\ntotal.num.queries_ip_ratelimited=0\ntotal.requestlist.exceeded=0\ntotal.requestlist.current.all=3\ntotal.recursion.time.avg=0.120000\ntime.now=1700000000.1\ntime.up=3600.250000\nnum.answer.rcode.NOERROR=900\nnum.answer.rcode.NXDOMAIN=60\n", closed = true } },
      state = { ["recent servfail part"] = { older = 39, newer = 39, at = 1699999900 }, ["recent servfail whole"] = { older = 900, newer = 900, at = 1699999900 } },
    },
    expect = { status = "unknown" },
  },
  {
    name = "the time of recursion is not told",
    host = {
      unix = { args = { { path = "/run/unbound.ctl", send = "UBCT1 stats_noreset\n" } }, value = { seconds = 0.003, received = "total.num.queries=1000\ntotal.num.cachehits=900\ntotal.num.cachemiss=100\ntotal.num.prefetch=5\ntotal.num.queries_ip_ratelimited=0\ntotal.requestlist.exceeded=0\ntotal.requestlist.current.all=3\ntime.now=1700000000.1\ntime.up=3600.250000\nnum.answer.rcode.NOERROR=900\nnum.answer.rcode.SERVFAIL=40\nnum.answer.rcode.NXDOMAIN=60\n", closed = true } },
      state = { ["recent servfail part"] = { older = 39, newer = 39, at = 1699999900 }, ["recent servfail whole"] = { older = 900, newer = 900, at = 1699999900 } },
    },
    expect = { status = "unknown" },
  },
  {
    name = "dropped queries are not told",
    host = {
      unix = { args = { { path = "/run/unbound.ctl", send = "UBCT1 stats_noreset\n" } }, value = { seconds = 0.003, received = "total.num.queries=1000\ntotal.num.cachehits=900\ntotal.num.cachemiss=100\ntotal.num.prefetch=5\ntotal.num.queries_ip_ratelimited=0\ntotal.requestlist.current.all=3\ntotal.recursion.time.avg=0.120000\ntime.now=1700000000.1\ntime.up=3600.250000\nnum.answer.rcode.NOERROR=900\nnum.answer.rcode.SERVFAIL=40\nnum.answer.rcode.NXDOMAIN=60\n", closed = true } },
      state = { ["recent servfail part"] = { older = 39, newer = 39, at = 1699999900 }, ["recent servfail whole"] = { older = 900, newer = 900, at = 1699999900 } },
    },
    expect = { status = "unknown" },
  },
}
