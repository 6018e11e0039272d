local info = "$3000\r\n# Server\r\nredis_version:7.2.4\r\n# Clients\r\nconnected_clients:12\r\n# Memory\r\nused_memory:943718400\r\nmaxmemory:1073741824\r\n"
  .. "# Stats\r\ntotal_commands_processed:99120\r\nkeyspace_hits:500\r\nkeyspace_misses:20\r\n"
local master = info .. "# Replication\r\nrole:master\r\n\r\n+OK\r\n"
local info_without_limit = "$3000\r\n# Server\r\nredis_version:7.2.4\r\n# Clients\r\nconnected_clients:12\r\n# Memory\r\nused_memory:943718400\r\n"
  .. "# Stats\r\ntotal_commands_processed:99120\r\nkeyspace_hits:500\r\nkeyspace_misses:20\r\n"
local endless = info_without_limit .. "# Replication\r\nrole:master\r\n\r\n+OK\r\n"
local replica = info .. "# Replication\r\nrole:slave\r\nmaster_link_status:down\r\n\r\n+OK\r\n"

return {
  {
    name = "a master",
    host = { tcp = { args = { { host = "localhost", port = 6379, send = "INFO\r\nQUIT\r\n" } },
      value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.004, received = master, matched = true, closed = false } } },
    expect = {
      status = "ok", summary = "version 7.2.4, master, 900.0 MiB in use, 12 clients",
      metrics = {
        memory = { value = 943718400, unit = "B" }, memory_used = { value = 87.890625, unit = "%" }, clients = { value = 12, unit = "clients" },
        commands = { value = 99120, unit = "c", kind = "counter" }, hits = 500, misses = 20,
      },
    },
  },
  {
    name = "little memory left",
    args = { warn = "80" },
    host = { tcp = { value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.004, received = master, matched = true, closed = false } } },
    expect = { status = "warning" },
  },
  {
    name = "a replica that lost its master",
    host = { tcp = { value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.004, received = replica, matched = true, closed = false } } },
    expect = { status = "critical", summary = "version 7.2.4, slave, 900.0 MiB in use, 12 clients, the link to its master is down" },
  },
  {
    name = "wants a password",
    host = { tcp = { value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.004, received = "-NOAUTH Authentication required.\r\n+OK\r\n",
      matched = true, closed = true } } },
    expect = { status = "critical", summary = "the server refuses: NOAUTH Authentication required.", metrics = {} },
  },
  {
    name = "something else listens there",
    host = { tcp = { value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.004, received = "HTTP/1.1 400", matched = false, closed = true } } },
    expect = { status = "critical", summary = "port 6379 is no Redis server", metrics = {} },
  },
  {
    name = "the policy forbids it",
    args = { host = "192.0.2.1" },
    host = { tcp = { code = "denied", text = "192.0.2.1 port 6379 is not granted to tcp" } },
    expect = { status = "unknown", metrics = {} },
  },
  {
    name = "with a password",
    args = { user = "watch", password = "correct horse" },
    host = { tcp = {
      args = { { send = "*3\r\n$4\r\nAUTH\r\n$5\r\nwatch\r\n$13\r\ncorrect horse\r\nINFO\r\nQUIT\r\n", tls = false } },
      value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.004, received = "+OK\r\n" .. master, matched = true, closed = true },
    } },
    expect = { status = "ok", summary = "version 7.2.4, master, 900.0 MiB in use, 12 clients" },
  },
  {
    name = "with a wrong password",
    args = { password = "battery staple" },
    host = { tcp = {
      args = { { send = "*2\r\n$4\r\nAUTH\r\n$14\r\nbattery staple\r\nINFO\r\nQUIT\r\n" } },
      value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.004, matched = true, closed = true,
        received = "-WRONGPASS invalid username-password pair\r\n-NOAUTH Authentication required.\r\n+OK\r\n" },
    } },
    expect = { status = "critical", summary = "the server refuses: WRONGPASS invalid username-password pair", metrics = {} },
  },
  {
    name = "a password goes to no other host in plain text",
    args = { host = "192.0.2.1", password = "correct horse" },
    expect = { status = "unknown", metrics = {},
      summary = 'the password would go to another host unencrypted: use tls = "verify", or plain = true to send it anyway' },
  },
  {
    name = "but inside TLS",
    args = { host = "192.0.2.1", password = "correct horse", tls = "verify" },
    host = { tcp = {
      args = { { tls = true, verify = true } },
      value = { address = "192.0.2.1", connect_seconds = 0.001, seconds = 0.004, received = "+OK\r\n" .. master, matched = true, closed = true },
    } },
    expect = { status = "ok" },
  },
  {
    name = "its limit is not told",
    host = { tcp = { args = { { host = "localhost", port = 6379, send = "INFO\r\nQUIT\r\n" } },
      value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.004, received = endless, matched = true, closed = false } } },
    expect = { status = "unknown", summary = "nothing is told of maxmemory, version 7.2.4, master, 900.0 MiB in use, 12 clients" },
  },
}
