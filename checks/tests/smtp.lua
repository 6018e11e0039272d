local dialogue = "220 mx.example ESMTP\r\n250-mx.example\r\n250-PIPELINING\r\n250 STARTTLS\r\n221 bye\r\n"
local place = "{host=localhost,port=25}"

return {
  {
    name = "a good dialogue",
    args = { starttls = true },
    host = { tcp = { args = { { host = "localhost", port = 25, send = { "EHLO monitoring.invalid\r\n", "QUIT\r\n" } } },
      value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.08, received = dialogue, matched = true, closed = false } } },
    expect = {
      status = "ok", summary = "mx.example ESMTP, answered in 80 ms",
      metrics = { ["time" .. place] = { value = 0.08, unit = "s", warn = "2", crit = "10" } },
    },
  },
  {
    name = "slow",
    args = { warn = "0.05" },
    host = { tcp = { value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.08, received = dialogue, matched = true, closed = false } } },
    expect = { status = "warning" },
  },
  {
    name = "no STARTTLS",
    args = { starttls = true },
    host = { tcp = { value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.08, received = "220 mx\r\n250 mx\r\n221 bye\r\n", matched = true,
      closed = false } } },
    expect = { status = "critical", summary = "the server offers no STARTTLS" },
  },
  {
    name = "not ready",
    host = { tcp = { value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.08, received = "554 go away", matched = false, closed = true } } },
    expect = { status = "critical", summary = 'localhost port 25 is no ready mail server: it says "554 go away"' },
  },
  {
    name = "closed",
    host = { tcp = { code = "refused", text = "127.0.0.1:25 refused the connection" } },
    expect = { status = "critical", summary = "127.0.0.1:25 refused the connection", metrics = {} },
  },
  {
    name = "the policy forbids it",
    args = { host = "192.0.2.1" },
    host = { tcp = { code = "denied", text = "192.0.2.1 port 25 is not granted to tcp" } },
    expect = { status = "unknown", metrics = {} },
  },
}
