return {
  {
    name = "it greets",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 143 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2a204f4b205b4341504142494c49545920494d41503472657631204c49544552414c2b20415554483d504c41494e5d20446f7665636f742072656164792e0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "62204341504142494c4954590d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2a204341504142494c49545920494d41503472657631205341534c2d49522049444c450d0a62204f4b20646f6e650d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = {
      status = "ok",
      summary = "Dovecot ready., answered in 5 ms",
      metrics = {
        ["time{host=localhost,port=143}"] = { value = 0.005, unit = "s", warn = "2", crit = "10" },
      },
    },
  },
  {
    name = "a login, and messages",
    args = { user = "watch", password = "a \"b\\c" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 143 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2a204f4b205b4341504142494c49545920494d41503472657631204c49544552414c2b20415554483d504c41494e5d20446f7665636f742072656164792e0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "62204341504142494c4954590d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2a204341504142494c49545920494d41503472657631205341534c2d49522049444c450d0a62204f4b20646f6e650d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "63204c4f47494e2022776174636822202261205c22625c5c63220d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "63204f4b204c6f6767656420696e0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "64205354415455532022494e424f582220284d4553534147455320554e5345454e290d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2a2053544154555320494e424f5820284d4553534147455320313720554e5345454e2033290d0a64204f4b20646f6e650d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = {
      status = "ok",
      summary = "Dovecot ready., logged in, 17 messages, answered in 9 ms",
      metrics = {
        ["messages{host=localhost,port=143}"] = { value = 17, unit = "messages" },
        ["unseen{host=localhost,port=143}"] = 3,
      },
    },
  },
  {
    name = "more messages than there should be",
    args = { user = "watch", password = "a \"b\\c", messages_warn = "10" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 143 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2a204f4b205b4341504142494c49545920494d41503472657631204c49544552414c2b20415554483d504c41494e5d20446f7665636f742072656164792e0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "62204341504142494c4954590d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2a204341504142494c49545920494d41503472657631205341534c2d49522049444c450d0a62204f4b20646f6e650d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "63204c4f47494e2022776174636822202261205c22625c5c63220d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "63204f4b204c6f6767656420696e0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "64205354415455532022494e424f582220284d4553534147455320554e5345454e290d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2a2053544154555320494e424f5820284d4553534147455320313720554e5345454e2033290d0a64204f4b20646f6e650d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "warning" },
  },
  {
    name = "it is slow",
    args = { warn = "0.001" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 143 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2a204f4b205b4341504142494c49545920494d41503472657631204c49544552414c2b20415554483d504c41494e5d20446f7665636f742072656164792e0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "62204341504142494c4954590d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2a204341504142494c49545920494d41503472657631205341534c2d49522049444c450d0a62204f4b20646f6e650d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "warning" },
  },
  {
    name = "a wrong password",
    args = { user = "watch", password = "a \"b\\c" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 143 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2a204f4b205b4341504142494c49545920494d41503472657631204c49544552414c2b20415554483d504c41494e5d20446f7665636f742072656164792e0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "62204341504142494c4954590d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2a204341504142494c49545920494d41503472657631205341534c2d49522049444c450d0a62204f4b20646f6e650d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "63204c4f47494e2022776174636822202261205c22625c5c63220d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "63204e4f205b41555448454e5449434154494f4e4641494c45445d2041757468656e7469636174696f6e206661696c65642e0d0a", closed = false, connection = 1 } },
      },
    },
    expect = { status = "critical", summary = "the server refuses the login: [AUTHENTICATIONFAILED] Authentication failed.", metrics = {} },
  },
  {
    name = "no such mailbox",
    args = { user = "watch", password = "a \"b\\c", mailbox = "Old" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 143 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2a204f4b205b4341504142494c49545920494d41503472657631204c49544552414c2b20415554483d504c41494e5d20446f7665636f742072656164792e0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "62204341504142494c4954590d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2a204341504142494c49545920494d41503472657631205341534c2d49522049444c450d0a62204f4b20646f6e650d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "63204c4f47494e2022776174636822202261205c22625c5c63220d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "63204f4b0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "64204e4f204d61696c626f7820646f65736e27742065786973743a204f6c640d0a", closed = false, connection = 1 } },
      },
    },
    expect = { status = "critical", summary = "the server refuses the mailbox Old: Mailbox doesn't exist: Old", metrics = {} },
  },
  {
    name = "no number of messages",
    args = { user = "watch", password = "a \"b\\c" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 143 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2a204f4b205b4341504142494c49545920494d41503472657631204c49544552414c2b20415554483d504c41494e5d20446f7665636f742072656164792e0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "62204341504142494c4954590d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2a204341504142494c49545920494d41503472657631205341534c2d49522049444c450d0a62204f4b20646f6e650d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "63204c4f47494e2022776174636822202261205c22625c5c63220d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "63204f4b0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "64204f4b0d0a", closed = false, connection = 1 } },
      },
    },
    expect = { status = "critical", summary = "the server does not tell the number of messages", metrics = {} },
  },
  {
    name = "TLS after the greeting",
    args = { user = "watch", password = "a \"b\\c", tls = "verify", starttls = true },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 143 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2a204f4b205b4341504142494c49545920494d41503472657631204c49544552414c2b20415554483d504c41494e5d20446f7665636f742072656164792e0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "61205354415254544c530d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "61204f4b20426567696e20544c530d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, tls = true, verify = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "62204341504142494c4954590d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2a204341504142494c49545920494d41503472657631205341534c2d49522049444c450d0a62204f4b20646f6e650d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "63204c4f47494e2022776174636822202261205c22625c5c63220d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "63204f4b204c6f6767656420696e0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "64205354415455532022494e424f582220284d4553534147455320554e5345454e290d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2a2053544154555320494e424f5820284d4553534147455320313720554e5345454e2033290d0a64204f4b20646f6e650d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "ok" },
  },
  {
    name = "bytes between STARTTLS and TLS",
    args = { tls = "on", starttls = true },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 143 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2a204f4b205b4341504142494c49545920494d41503472657631204c49544552414c2b20415554483d504c41494e5d20446f7665636f742072656164792e0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "61205354415254544c530d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "61204f4b20426567696e20544c530d0a2a204341504142494c49545920494d415034726576310d0a", closed = false, connection = 1 } },
      },
    },
    expect = { status = "critical", summary = "the server speaks before TLS has begun", metrics = {} },
  },
  {
    name = "STARTTLS is not offered",
    args = { tls = "on", starttls = true },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 143 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2a204f4b205b4341504142494c49545920494d41503472657631204c49544552414c2b20415554483d504c41494e5d20446f7665636f742072656164792e0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "61205354415254544c530d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "612042414420556e6b6e6f776e20636f6d6d616e640d0a", closed = false, connection = 1 } },
      },
    },
    expect = { status = "critical", summary = "the server refuses STARTTLS: Unknown command", metrics = {} },
  },
  {
    name = "starttls without tls",
    args = { starttls = true },
    expect = { status = "unknown", summary = "starttls begins TLS after the greeting: set tls to \"on\" or \"verify\" as well", metrics = {} },
  },
  {
    name = "the server wants TLS for a login",
    args = { user = "watch", password = "a \"b\\c" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 143 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2a204f4b205b4341504142494c49545920494d41503472657631204c49544552414c2b20415554483d504c41494e5d20446f7665636f742072656164792e0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "62204341504142494c4954590d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2a204341504142494c49545920494d41503472657631205354415254544c53204c4f47494e44495341424c45440d0a62204f4b0d0a", closed = false, connection = 1 } },
      },
    },
    expect = { status = "unknown", summary = "the server takes no login without TLS: set starttls, and tls to \"on\" or \"verify\"", metrics = {} },
  },
  {
    name = "a password to another host",
    args = { user = "watch", password = "a \"b\\c", host = "192.0.2.1" },
    host = {
      tcp = {
        { args = { { host = "192.0.2.1", port = 143 } }, value = { address = "192.0.2.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2a204f4b205b4341504142494c49545920494d41503472657631204c49544552414c2b20415554483d504c41494e5d20446f7665636f742072656164792e0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2a204341504142494c49545920494d41503472657631205341534c2d49522049444c450d0a62204f4b20646f6e650d0a", closed = false, connection = 1 } },
      },
    },
    expect = { status = "unknown", summary = "the password would go to another host unencrypted, or to anybody: use tls = \"verify\", with ca for an authority of your own", metrics = {} },
  },
  {
    name = "half a login",
    args = { user = "watch" },
    expect = { status = "unknown", summary = "a login needs both user and password", metrics = {} },
  },
  {
    name = "it is going down",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 143 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2a2042594520536572766572207368757474696e6720646f776e2e0d0a", closed = false, connection = 1 } },
      },
    },
    expect = { status = "critical", summary = "localhost port 143 is no ready IMAP server: it sends \"* BYE Server shutting down.\"", metrics = {} },
  },
  {
    name = "something else listens there",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 143 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "323230206d61696c2045534d54500d0a", closed = false, connection = 1 } },
      },
    },
    expect = { status = "critical", summary = "localhost port 143 is no ready IMAP server: it sends \"220 mail ESMTP\"", metrics = {} },
  },
  {
    name = "it hangs up",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 143 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, value = { address = "127.0.0.1", seconds = 0.002, received = "", closed = true } },
      },
    },
    expect = { status = "critical", summary = "the server has closed the connection", metrics = {} },
  },
  {
    name = "it does not speak IMAP4",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 143 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2a204f4b205b4341504142494c49545920494d41503472657631204c49544552414c2b20415554483d504c41494e5d20446f7665636f742072656164792e0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "62204341504142494c4954590d0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2a204341504142494c49545920534f4d455448494e470d0a62204f4b0d0a", closed = false, connection = 1 } },
      },
    },
    expect = { status = "critical", summary = "the server does not offer IMAP4", metrics = {} },
  },
  {
    name = "nobody listens",
    host = {
      tcp = { code = "refused", text = "127.0.0.1:143 refused the connection" },
    },
    expect = { status = "critical", summary = "127.0.0.1:143 refused the connection", metrics = {} },
  },
  {
    name = "the policy forbids it",
    args = { host = "192.0.2.1" },
    host = {
      tcp = { code = "denied", text = "192.0.2.1 port 143 is not granted to tcp" },
    },
    expect = { status = "unknown", metrics = {} },
  },
}
