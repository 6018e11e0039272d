-- A server's replies: each entry of `tcp` is what comes after one text that is sent.
local goodbye = { address = "127.0.0.1", seconds = 0.01, received = "221 bye\r\n", closed = true }
local place = "{host=localhost,port=25}"

return {
  {
    name = "a good dialogue",
    args = { starttls = true },
    host = { tcp = {
      { args = { { host = "localhost", port = 25, tls = false, keep = true } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.05,
        received = "220 mx.example ESMTP\r\n", closed = false, connection = 1 } },
      { args = { { connection = 1, send = "EHLO monitoring.invalid\r\n" } }, value = { address = "127.0.0.1", seconds = 0.03,
        received = "250-mx.example\r\n250-PIPELINING\r\n250 STARTTLS\r\n", closed = false, connection = 1 } },
      { args = { { connection = 1, send = "QUIT\r\n" } }, value = goodbye },
    } },
    expect = {
      status = "ok", summary = "mx.example ESMTP, answered in 80 ms",
      output = "220 mx.example ESMTP\n250-mx.example\n250-PIPELINING\n250 STARTTLS\n",
      metrics = { ["time" .. place] = { value = 0.08, unit = "s", warn = "2", crit = "10" } },
    },
  },
  {
    name = "replies of several lines that come apart",
    args = { starttls = true },
    host = { tcp = {
      { once = true, args = { { host = "localhost", port = 25 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 1,
        received = "220-mx.example please wait\r\n220-", closed = false, connection = 1 } },
      { once = true, value = { address = "127.0.0.1", seconds = 1, received = "still\r\n", closed = false, connection = 1 } },
      { once = true, value = { address = "127.0.0.1", seconds = 1, received = "220 mx.example ESMTP\r\n", closed = false, connection = 1 } },
      { once = true, args = { { send = "EHLO monitoring.invalid\r\n" } }, value = { address = "127.0.0.1", seconds = 0.2,
        received = "250-mx.example\r\n", closed = false, connection = 1 } },
      { once = true, value = { address = "127.0.0.1", seconds = 0.2, received = "250-STARTTLS\r\n250 HELP\r\n", closed = false, connection = 1 } },
      { args = { { send = "QUIT\r\n" } }, value = goodbye },
    } },
    expect = { status = "warning", summary = "mx.example please wait, answered in 3.4 s" },
  },
  {
    name = "slow",
    args = { warn = "0.05" },
    host = { tcp = {
      { args = { { host = "localhost" } }, value = { address = "127.0.0.1", seconds = 0.06, received = "220 mx\r\n", closed = false, connection = 1 } },
      { args = { { send = "EHLO monitoring.invalid\r\n" } }, value = { address = "127.0.0.1", seconds = 0.02, received = "250 mx\r\n", closed = false,
        connection = 1 } },
      { args = { { send = "QUIT\r\n" } }, code = "unreachable", text = "reset" },
    } },
    expect = { status = "warning" },
  },
  {
    name = "no STARTTLS",
    args = { starttls = true },
    host = { tcp = {
      { args = { { host = "localhost" } }, value = { address = "127.0.0.1", seconds = 0.06, received = "220 mx\r\n", closed = false, connection = 1 } },
      { args = { { send = "EHLO monitoring.invalid\r\n" } }, value = { address = "127.0.0.1", seconds = 0.02,
        received = "250-mx STARTTLS\r\n250 STARTTLSX\r\n", closed = false, connection = 1 } },
      { args = { { send = "QUIT\r\n" } }, value = goodbye },
    } },
    expect = { status = "critical", summary = "the server offers no STARTTLS" },
  },
  {
    name = "EHLO is refused",
    host = { tcp = {
      { args = { { host = "localhost" } }, value = { address = "127.0.0.1", seconds = 0.06, received = "220 mx\r\n", closed = false, connection = 1 } },
      { args = { { send = "EHLO monitoring.invalid\r\n" } }, value = { address = "127.0.0.1", seconds = 0.02, received = "502 what?\r\n", closed = true } },
    } },
    expect = { status = "critical", summary = 'the server does not answer EHLO: it sends "502 what?"' },
  },
  {
    name = "not ready",
    host = { tcp = { value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.08, received = "554 go away", closed = true } } },
    expect = { status = "critical", summary = 'localhost port 25 is no ready mail server: it sends "554 go away"' },
  },
  {
    name = "not ready at its second line",
    host = { tcp = { value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.08, received = "220-wait\r\n554 go away\r\n", closed = true } } },
    expect = { status = "critical", summary = 'localhost port 25 is no ready mail server: it sends "220-wait 554 go away"' },
  },
  {
    name = "a greeting without an end",
    host = { tcp = { value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.08, received = "220-wait\r\n220-w", closed = true } } },
    expect = { status = "critical", summary = 'localhost port 25 is no ready mail server: it sends "220-wait 220-w"' },
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
