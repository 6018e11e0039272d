return {
  {
    name = "near",
    args = { host = "192.0.2.1" },
    host = { icmp = { args = { { host = "192.0.2.1", count = 5 } }, value = { address = "192.0.2.1", sent = 5, received = 5, lost_percent = 0.0,
      minimum_seconds = 0.0004, average_seconds = 0.0005, maximum_seconds = 0.0008 } } },
    expect = {
      status = "ok", summary = "192.0.2.1 answers 5 of 5 pings, mean 0.5 ms, longest 0.8 ms",
      metrics = { ["loss{host=192.0.2.1}"] = { value = 0, unit = "%", warn = "20" }, ["time{host=192.0.2.1}"] = { value = 0.0005, unit = "s" } },
    },
  },
  {
    name = "a lossy line",
    args = { host = "192.0.2.1" },
    host = { icmp = { value = { address = "192.0.2.1", sent = 5, received = 3, lost_percent = 40.0, minimum_seconds = 0.1, average_seconds = 0.15,
      maximum_seconds = 0.19 } } },
    expect = { status = "warning", summary = "192.0.2.1 answers 3 of 5 pings, mean 150 ms, longest 190 ms" },
  },
  {
    name = "gone",
    args = { host = "192.0.2.1" },
    host = { icmp = { value = { address = "192.0.2.1", sent = 5, received = 0, lost_percent = 100.0 } } },
    expect = { status = "critical", summary = "192.0.2.1 answers none of 5 pings", metrics = { ["loss{host=192.0.2.1}"] = 100 } },
  },
  {
    name = "no way there",
    args = { host = "192.0.2.1" },
    host = { icmp = { code = "unreachable", text = "192.0.2.1: Network is unreachable" } },
    expect = { status = "critical", summary = "192.0.2.1: Network is unreachable", metrics = {} },
  },
  {
    name = "this user may not ping",
    args = { host = "192.0.2.1" },
    host = { icmp = { code = "unsupported", text = "this host allows this user no ping" } },
    expect = { status = "unknown", summary = "this host allows this user no ping", metrics = {} },
  },
}
