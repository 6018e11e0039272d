local quick = { address = "192.0.2.1", connect_seconds = 0.0123, seconds = 0.0456, received = "", closed = false }

return {
  {
    name = "open",
    args = { host = "db.example", port = 5432 },
    host = { tcp = { args = { { host = "db.example", port = 5432, timeout = 5 } }, value = quick } },
    expect = {
      status = "ok", summary = "db.example port 5432 answered in 12 ms",
      metrics = { ["connect_time{host=db.example,port=5432}"] = { value = 0.0123, unit = "s", warn = "1", crit = "3" } },
    },
  },
  {
    name = "sends the expected text",
    args = { host = "127.0.0.1", port = 25, expect = "220" },
    host = { tcp = { args = { { expect = "220" } }, value = {
      address = "127.0.0.1", connect_seconds = 0.0004, seconds = 0.001, received = "220 mail", matched = true, closed = false } } },
    expect = { status = "ok", summary = '127.0.0.1 port 25 answered in 0.4 ms and sent "220"', output = "220 mail\n" },
  },
  {
    name = "sends another text",
    args = { port = 25, expect = "220", limit = "2s" },
    host = { tcp = { args = { { timeout = 2 } }, value = {
      address = "127.0.0.1", connect_seconds = 0.0004, seconds = 2.0, received = "554 no", matched = false, closed = false } } },
    expect = { status = "critical", summary = 'localhost port 25 did not send "220" within 2.0 s' },
  },
  {
    name = "slow",
    args = { host = "db.example", port = 5432 },
    host = { tcp = { value = { address = "192.0.2.1", connect_seconds = 1.5, seconds = 1.5, received = "", closed = false } } },
    expect = { status = "warning", summary = "db.example port 5432 answered in 1.5 s" },
  },
  {
    name = "closed",
    args = { host = "db.example", port = 5432 },
    host = { tcp = { code = "refused", text = "192.0.2.1:5432 refused the connection" } },
    expect = { status = "critical", summary = "192.0.2.1:5432 refused the connection", metrics = {} },
  },
  {
    name = "the policy forbids it",
    args = { host = "169.254.169.254", port = 80 },
    host = { tcp = { code = "denied", text = "169.254.169.254 is link-local, which is never reached" } },
    expect = { status = "unknown", summary = "169.254.169.254 is link-local, which is never reached", metrics = {} },
  },
  {
    name = "a port that is none",
    args = { port = 65536 },
    expect = { status = "unknown", reason = "bad-arguments" },
  },
}
