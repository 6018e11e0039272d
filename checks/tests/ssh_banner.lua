local greeting = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.02, received = "SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", closed = false }

return {
  {
    name = "greets",
    host = { tcp = { args = { { host = "localhost", port = 22, ["until"] = "\n" } }, value = greeting } },
    expect = {
      status = "ok", summary = "OpenSSH_9.2p1 Debian-2 (protocol 2.0) in 20 ms",
      metrics = { ["time{host=localhost,port=22}"] = { value = 0.02, unit = "s", warn = "1", crit = "5" } },
    },
  },
  {
    name = "slow",
    args = { warn = "0.01" },
    host = { tcp = { value = greeting } },
    expect = { status = "warning" },
  },
  {
    name = "another version than it should be",
    args = { expect = "OpenSSH_10" },
    host = { tcp = { value = greeting } },
    expect = { status = "critical", summary = "the server is OpenSSH_9.2p1 Debian-2, not OpenSSH_10" },
  },
  {
    name = "no SSH server",
    host = { tcp = { value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.02, received = "220 mail\r\n", closed = false } } },
    expect = { status = "critical", summary = 'localhost port 22 is no SSH server: it sends "220 mail\\13\\\n"' },
  },
  {
    name = "closed",
    host = { tcp = { code = "refused", text = "127.0.0.1:22 refused the connection" } },
    expect = { status = "critical", summary = "127.0.0.1:22 refused the connection", metrics = {} },
  },
  {
    name = "the policy forbids it",
    args = { host = "192.0.2.1" },
    host = { tcp = { code = "denied", text = "192.0.2.1 port 22 is not granted to tcp" } },
    expect = { status = "unknown", summary = "192.0.2.1 port 22 is not granted to tcp", metrics = {} },
  },
}
