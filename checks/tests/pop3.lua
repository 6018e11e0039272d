return {
  {
    name = "it greets",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 110 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2b4f4b20446f7665636f742072656164792e0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "515549540d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2b4f4b204279650d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = {
      status = "ok",
      summary = "Dovecot ready., answered in 5 ms",
      metrics = {
        ["time{host=localhost,port=110}"] = { value = 0.005, unit = "s" },
      },
    },
  },
  {
    name = "a login, and messages",
    args = { user = "watch", password = "correct horse" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 110 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2b4f4b20446f7665636f742072656164792e0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "555345522077617463680d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2b4f4b0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "5041535320636f727265637420686f7273650d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2b4f4b204c6f6767656420696e2e0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "535441540d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2b4f4b203420313332300d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "515549540d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2b4f4b204279650d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = {
      status = "ok",
      summary = "Dovecot ready., logged in, 4 messages, answered in 11 ms",
      metrics = {
        ["messages{host=localhost,port=110}"] = { value = 4, unit = "messages" },
      },
    },
  },
  {
    name = "messages that nobody fetches",
    args = { user = "watch", password = "correct horse", messages_warn = "3" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 110 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2b4f4b20446f7665636f742072656164792e0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "555345522077617463680d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2b4f4b0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "5041535320636f727265637420686f7273650d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2b4f4b204c6f6767656420696e2e0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "535441540d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2b4f4b203420313332300d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "515549540d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2b4f4b204279650d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "warning" },
  },
  {
    name = "a wrong password",
    args = { user = "watch", password = "correct horse" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 110 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2b4f4b20446f7665636f742072656164792e0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2b4f4b0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2d455252205b415554485d2041757468656e7469636174696f6e206661696c65642e0d0a", closed = false, connection = 1 } },
      },
    },
    expect = { status = "critical", summary = "the server refuses the login: [AUTH] Authentication failed.", metrics = {} },
  },
  {
    name = "TLS from the start",
    args = { port = 995, tls = "on" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 995 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, tls = true, verify = false } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2b4f4b20446f7665636f742072656164792e0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "515549540d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2b4f4b204279650d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "ok" },
  },
  {
    name = "TLS after the greeting",
    args = { user = "watch", password = "correct horse", tls = "verify", starttls = true },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 110 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2b4f4b20446f7665636f742072656164792e0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "53544c530d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2b4f4b20426567696e20544c530d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, tls = true, verify = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "555345522077617463680d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2b4f4b0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "5041535320636f727265637420686f7273650d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2b4f4b204c6f6767656420696e2e0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "535441540d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2b4f4b203420313332300d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "515549540d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2b4f4b204279650d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "ok" },
  },
  {
    name = "no number of messages",
    args = { user = "watch", password = "correct horse" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 110 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2b4f4b20446f7665636f742072656164792e0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2b4f4b0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2b4f4b0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2b4f4b206d616e790d0a", closed = false, connection = 1 } },
      },
    },
    expect = { status = "critical", summary = "the server does not tell the number of messages", metrics = {} },
  },
  {
    name = "a password to another host",
    args = { user = "watch", password = "correct horse", host = "192.0.2.1" },
    host = {
      tcp = {
        { args = { { host = "192.0.2.1", port = 110 } }, value = { address = "192.0.2.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2b4f4b20446f7665636f742072656164792e0d0a", closed = false, connection = 1 } },
      },
    },
    expect = { status = "unknown", metrics = {} },
  },
  {
    name = "half a login",
    args = { password = "correct horse" },
    expect = { status = "unknown", summary = "a login needs both user and password", metrics = {} },
  },
  {
    name = "it greets and no more",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 110 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2b4f4b20446f7665636f742072656164792e0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, value = { address = "127.0.0.1", seconds = 0.002, received = "", closed = true } },
      },
    },
    expect = { status = "critical", summary = "the server has closed the connection", metrics = {} },
  },
  {
    name = "something else listens there",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 110 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2a204f4b20494d41500d0a", closed = false, connection = 1 } },
      },
    },
    expect = { status = "critical", summary = "localhost port 110 is no ready POP3 server: it sends \"* OK IMAP\"", metrics = {} },
  },
  {
    name = "another protocol behind the greeting",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 110 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2b4f4b20446f7665636f742072656164792e0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "3235302066696e650d0a", closed = false, connection = 1 } },
      },
    },
    expect = { status = "critical", summary = "that is no POP3 server: it sends \"250 fine\"", metrics = {} },
  },
  {
    name = "nobody listens",
    host = {
      tcp = { code = "refused", text = "127.0.0.1:110 refused the connection" },
    },
    expect = { status = "critical", summary = "127.0.0.1:110 refused the connection", metrics = {} },
  },
}
