return {
  {
    name = "a broker that tells of itself",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 1883 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "102600044d5154540402003c001a6d6f6e69746f72696e6730303031303230333034303530363037" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "20020000", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "900800010000000000003121001d245359532f62726f6b65722f636c69656e74732f636f6e6e65637465643132312d0013245359532f62726f6b65722f76657273696f6e6d6f7371756974746f2076657273696f6e20322e302e31313122001d245359532f62726f6b65722f6d657373616765732f7265636569766564353030311e0019245359532f62726f6b65722f6d657373616765732f73656e743730303120001a245359532f62726f6b65722f62797465732f726563656976656431303030311c0016245359532f62726f6b65722f62797465732f73656e7432303030d000", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
      ["crypto.random"] = { args = { 8 }, value = "0001020304050607" },
    },
    expect = {
      status = "ok",
      summary = "mosquitto version 2.0.11, it answers in 5 ms, 12 clients",
      metrics = {
        time = { value = 0.005, unit = "s", warn = "2" },
        clients = { value = 12, unit = "clients" },
        received_messages = { value = 500, unit = "c", kind = "counter" },
        sent_messages = 700,
        received = { value = 1000, unit = "B", kind = "counter" },
        sent = 2000,
      },
    },
  },
  {
    name = "messages before the answer to the subscription",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 1883 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "102600044d5154540402003c001a6d6f6e69746f72696e6730303031303230333034303530363037" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "20020000", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "3121001d245359532f62726f6b65722f636c69656e74732f636f6e6e65637465643132312d0013245359532f62726f6b65722f76657273696f6e6d6f7371756974746f2076657273696f6e20322e302e31313122001d245359532f62726f6b65722f6d657373616765732f7265636569766564353030311e0019245359532f62726f6b65722f6d657373616765732f73656e743730303120001a245359532f62726f6b65722f62797465732f726563656976656431303030311c0016245359532f62726f6b65722f62797465732f73656e743230303090080001000000000000d000", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
      ["crypto.random"] = { args = { 8 }, value = "0001020304050607" },
    },
    expect = { status = "ok" },
  },
  {
    name = "a broker that does not",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 1883 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "102600044d5154540402003c001a6d6f6e69746f72696e6730303031303230333034303530363037" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "20020000", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "90080001808080808080d000", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
      ["crypto.random"] = { args = { 8 }, value = "0001020304050607" },
    },
    expect = { status = "ok", summary = "it answers in 5 ms" },
  },
  {
    name = "the number of clients is wanted, and not told",
    args = { clients_warn = "100" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 1883 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "102600044d5154540402003c001a6d6f6e69746f72696e6730303031303230333034303530363037" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "20020000", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "90080001000000000000d000", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
      ["crypto.random"] = { args = { 8 }, value = "0001020304050607" },
    },
    expect = { status = "unknown", summary = "it answers in 5 ms, it does not tell the number of its clients" },
  },
  {
    name = "too many clients",
    args = { clients_warn = "10" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 1883 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "102600044d5154540402003c001a6d6f6e69746f72696e6730303031303230333034303530363037" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "20020000", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "900800010000000000003121001d245359532f62726f6b65722f636c69656e74732f636f6e6e65637465643132312d0013245359532f62726f6b65722f76657273696f6e6d6f7371756974746f2076657273696f6e20322e302e31313122001d245359532f62726f6b65722f6d657373616765732f7265636569766564353030311e0019245359532f62726f6b65722f6d657373616765732f73656e743730303120001a245359532f62726f6b65722f62797465732f726563656976656431303030311c0016245359532f62726f6b65722f62797465732f73656e7432303030d000", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
      ["crypto.random"] = { args = { 8 }, value = "0001020304050607" },
    },
    expect = { status = "warning" },
  },
  {
    name = "a value",
    args = { topic = "home/attic/temperature", value_warn = "30" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 1883 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "102600044d5154540402003c001a6d6f6e69746f72696e6730303031303230333034303530363037" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "20020000", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "9009000100000000000000311e0016686f6d652f61747469632f74656d706572617475726532312e352043d000", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
      ["crypto.random"] = { args = { 8 }, value = "0001020304050607" },
    },
    expect = {
      status = "ok",
      summary = "home/attic/temperature is 21.5 C, it answers in 5 ms",
      metrics = {
        ["value{topic=home/attic/temperature}"] = { value = 21.5, warn = "30" },
      },
    },
  },
  {
    name = "a value that is too high",
    args = { topic = "home/attic/temperature", value_crit = "40" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 1883 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "102600044d5154540402003c001a6d6f6e69746f72696e6730303031303230333034303530363037" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "20020000", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "9009000100000000000000311a0016686f6d652f61747469632f74656d70657261747572653431d000", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
      ["crypto.random"] = { args = { 8 }, value = "0001020304050607" },
    },
    expect = { status = "critical" },
  },
  {
    name = "a value that is none",
    args = { topic = "home/attic/temperature", value_warn = "30" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 1883 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "102600044d5154540402003c001a6d6f6e69746f72696e6730303031303230333034303530363037" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "20020000", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "9009000100000000000000311b0016686f6d652f61747469632f74656d70657261747572656f6666d000", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
      ["crypto.random"] = { args = { 8 }, value = "0001020304050607" },
    },
    expect = { status = "unknown", summary = "home/attic/temperature is off, which is no number, it answers in 5 ms" },
  },
  {
    name = "a message that is not as it should be",
    args = { topic = "door", equals = "closed" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 1883 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "102600044d5154540402003c001a6d6f6e69746f72696e6730303031303230333034303530363037" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "20020000", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "9009000100000000000000310a0004646f6f726f70656ed000", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
      ["crypto.random"] = { args = { 8 }, value = "0001020304050607" },
    },
    expect = { status = "critical", summary = "door is open, not closed, it answers in 5 ms" },
  },
  {
    name = "no message",
    args = { topic = "home/attic/temperature" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 1883 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "102600044d5154540402003c001a6d6f6e69746f72696e6730303031303230333034303530363037" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "20020000", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "9009000100000000000000d000", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
      ["crypto.random"] = { args = { 8 }, value = "0001020304050607" },
    },
    expect = { status = "critical", summary = "home/attic/temperature has no retained message, it answers in 5 ms" },
  },
  {
    name = "a topic that the account may not read",
    args = { topic = "home/attic/temperature" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 1883 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "102600044d5154540402003c001a6d6f6e69746f72696e6730303031303230333034303530363037" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "20020000", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "9009000100000000000080d000", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
      ["crypto.random"] = { args = { 8 }, value = "0001020304050607" },
    },
    expect = { status = "unknown", summary = "the account may not read home/attic/temperature, it answers in 5 ms" },
  },
  {
    name = "a topic with a wildcard",
    args = { topic = "home/#" },
    expect = { status = "unknown", summary = "topic: it is the name of one topic, without # and +", metrics = {} },
  },
  {
    name = "with a login",
    args = { user = "watch", password = "correct horse" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 1883 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "103c00044d51545404c2003c001a6d6f6e69746f72696e673030303130323033303430353036303700057761746368000d636f727265637420686f727365" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "20020000", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "90080001000000000000d000", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
      ["crypto.random"] = { args = { 8 }, value = "0001020304050607" },
    },
    expect = { status = "ok" },
  },
  {
    name = "with a wrong password",
    args = { user = "watch", password = "another" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 1883 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "20020004", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
      ["crypto.random"] = { args = { 8 }, value = "0001020304050607" },
    },
    expect = { status = "critical", summary = "the broker refuses the connection: user or password are wrong", metrics = {} },
  },
  {
    name = "a password to another host",
    args = { host = "192.0.2.1", user = "watch", password = "x y z" },
    host = {
      tcp = {
        { args = { { host = "192.0.2.1", port = 1883 } }, value = { address = "192.0.2.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
      },
      ["crypto.random"] = { args = { 8 }, value = "0001020304050607" },
    },
    expect = { status = "unknown", metrics = {} },
  },
  {
    name = "inside TLS",
    args = { host = "192.0.2.1", port = 8883, tls = "verify", user = "watch", password = "x y z" },
    host = {
      tcp = {
        { args = { { host = "192.0.2.1", port = 8883 } }, value = { address = "192.0.2.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, tls = true, verify = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "20020000", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "90080001000000000000d000", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
      ["crypto.random"] = { args = { 8 }, value = "0001020304050607" },
    },
    expect = { status = "ok" },
  },
  {
    name = "no answer to the subscription",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 1883 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "102600044d5154540402003c001a6d6f6e69746f72696e6730303031303230333034303530363037" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "20020000", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "d000", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
      ["crypto.random"] = { args = { 8 }, value = "0001020304050607" },
    },
    expect = { status = "critical", summary = "the broker does not answer the subscription", metrics = {} },
  },
  {
    name = "too few answers to the subscription",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 1883 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "102600044d5154540402003c001a6d6f6e69746f72696e6730303031303230333034303530363037" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "20020000", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "9003000100d000", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
      ["crypto.random"] = { args = { 8 }, value = "0001020304050607" },
    },
    expect = { status = "critical", summary = "the broker does not answer each subscription", metrics = {} },
  },
  {
    name = "a message that is too long",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 1883 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "102600044d5154540402003c001a6d6f6e69746f72696e6730303031303230333034303530363037" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "20020000", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "30ffffff7f", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
      ["crypto.random"] = { args = { 8 }, value = "0001020304050607" },
    },
    expect = { status = "critical", summary = "the broker sends a message of 268435455 bytes", metrics = {} },
  },
  {
    name = "something else listens there",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 1883 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "485454502f312e31203430302042616420526571756573740d0a7878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
      ["crypto.random"] = { args = { 8 }, value = "0001020304050607" },
    },
    expect = { status = "critical", summary = "that is no MQTT broker", metrics = {} },
  },
  {
    name = "nobody listens",
    host = {
      tcp = { code = "refused", text = "127.0.0.1:1883 refused the connection" },
    },
    expect = { status = "critical", summary = "127.0.0.1:1883 refused the connection", metrics = {} },
  },
}
