local stats = "STAT pid 1\r\nSTAT version 1.6.18\r\nSTAT bytes 53687091\r\nSTAT limit_maxbytes 67108864\r\nSTAT curr_connections 3\r\nSTAT curr_items 800\r\n"
  .. "STAT get_hits 900\r\nSTAT get_misses 100\r\nSTAT evictions 0\r\nSTAT cmd_set 950\r\nEND\r\n"

return {
  {
    name = "in use",
    host = { tcp = { args = { { host = "localhost", port = 11211, send = "stats\r\n", expect = "END\r\n" } },
      value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.002, received = stats, matched = true, closed = false } } },
    expect = {
      status = "ok", summary = "version 1.6.18, 51.2 MiB of 64.0 MiB in use, 800 items",
      metrics = { memory_used = { value = 79.999999, unit = "%" }, memory = 53687091, items = 800, hits = { value = 900, kind = "counter" } },
    },
  },
  {
    name = "nearly full",
    args = { warn = "50", crit = "75" },
    host = { tcp = { value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.002, received = stats, matched = true, closed = false } } },
    expect = { status = "critical" },
  },
  {
    name = "half full is a warning here",
    args = { warn = "50" },
    host = { tcp = { value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.002, received = stats, matched = true, closed = false } } },
    expect = { status = "warning" },
  },
  {
    name = "something else listens there",
    host = { tcp = { value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.002, received = "ERROR\r\n", matched = false, closed = true } } },
    expect = { status = "critical", summary = "localhost port 11211 is no memcached server", metrics = {} },
  },
  {
    name = "the policy forbids it",
    args = { host = "192.0.2.1" },
    host = { tcp = { code = "denied", text = "192.0.2.1 port 11211 is not granted to tcp" } },
    expect = { status = "unknown", metrics = {} },
  },
}
