return {
  {
    name = "well",
    args = { topics = { "orders" }, brokers_crit = "3:" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 9092 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000140012000000000001000a6d6f6e69746f72696e67" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "000000160000000100000000000200030000000c001200000003", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000180003000100000002000a6d6f6e69746f72696e67ffffffff" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "000000cd00000002000000030000000000026b3000002384ffff0000000100026b3100002384ffff0000000200026b3200002384ffff0000000100000002000000066f726465727300000000020000000000000000000100000003000000010000000100000001000000030000000100000001000000010000000000010000000200000003000000010000000100000001000000030000000100000001000000010000000562696c6c73000000000100000000000000000000000000020000000100000001000000020000000100000001", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = {
      status = "ok",
      summary = "3 brokers, 3 partitions",
      metrics = {
        brokers = { value = 3, unit = "brokers", crit = "3:" },
        partitions = { value = 3, unit = "partitions" },
        behind = { value = 0, warn = "0" },
        offline = { value = 0, crit = "0" },
        time = { value = 0.005, unit = "s" },
      },
    },
  },
  {
    name = "replicas are behind",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 9092 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000140012000000000001000a6d6f6e69746f72696e67" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "000000160000000100000000000200030000000c001200000003", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000180003000100000002000a6d6f6e69746f72696e67ffffffff" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "0000009900000002000000030000000000026b3000002384ffff0000000100026b3100002384ffff0000000200026b3200002384ffff0000000100000001000000066f726465727300000000020000000000000000000100000003000000010000000100000001000000020000000100000001000000000001000000020000000300000001000000010000000100000003000000010000000100000001", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "warning", summary = "1 partition has replicas that are behind, topics: orders, 3 brokers, 2 partitions" },
  },
  {
    name = "a partition without a leader",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 9092 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000140012000000000001000a6d6f6e69746f72696e67" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "000000160000000100000000000200030000000c001200000003", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000180003000100000002000a6d6f6e69746f72696e67ffffffff" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "0000009b00000002000000030000000000026b3000002384ffff0000000100026b3100002384ffff0000000200026b3200002384ffff0000000100000002000000066f72646572730000000001000000000000ffffffff00000003000000010000000100000001000000000000000562696c6c7300000000010000000000000000000100000003000000010000000100000001000000020000000100000001", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = {
      status = "critical",
      summary = "1 partition has no leader, 1 partition has replicas that are behind, topics: orders, bills, 3 brokers, 2 partitions",
      metrics = {
        offline = 1,
        behind = 1,
      },
    },
  },
  {
    name = "which does not matter",
    args = { ignore = { "old-*" } },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 9092 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000140012000000000001000a6d6f6e69746f72696e67" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "000000160000000100000000000200030000000c001200000003", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000180003000100000002000a6d6f6e69746f72696e67ffffffff" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "000000a300000002000000030000000000026b3000002384ffff0000000100026b3100002384ffff0000000200026b3200002384ffff00000001000000020000000a6f6c642d6f72646572730000000001000000000000ffffffff00000003000000010000000100000001000000000000000562696c6c730000000001000000000000000000010000000300000001000000010000000100000003000000010000000100000001", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "ok", summary = "3 brokers, 1 partition" },
  },
  {
    name = "a broker is lost",
    args = { brokers_crit = "3:" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 9092 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000140012000000000001000a6d6f6e69746f72696e67" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "000000160000000100000000000200030000000c001200000003", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000180003000100000002000a6d6f6e69746f72696e67ffffffff" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "000000bf00000002000000020000000000026b3000002384ffff0000000100026b3100002384ffff0000000100000002000000066f726465727300000000020000000000000000000100000003000000010000000100000001000000030000000100000001000000010000000000010000000200000003000000010000000100000001000000030000000100000001000000010000000562696c6c73000000000100000000000000000000000000020000000100000001000000020000000100000001", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "critical" },
  },
  {
    name = "no controller",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 9092 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000140012000000000001000a6d6f6e69746f72696e67" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "000000160000000100000000000200030000000c001200000003", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000180003000100000002000a6d6f6e69746f72696e67ffffffff" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "000000cd00000002000000030000000000026b3000002384ffff0000000100026b3100002384ffff0000000200026b3200002384ffffffffffff00000002000000066f726465727300000000020000000000000000000100000003000000010000000100000001000000030000000100000001000000010000000000010000000200000003000000010000000100000001000000030000000100000001000000010000000562696c6c73000000000100000000000000000000000000020000000100000001000000020000000100000001", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "critical", summary = "the cluster has no controller, 3 brokers, 3 partitions" },
  },
  {
    name = "a topic is not there",
    args = { topics = { "mails" } },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 9092 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000140012000000000001000a6d6f6e69746f72696e67" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "000000160000000100000000000200030000000c001200000003", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000180003000100000002000a6d6f6e69746f72696e67ffffffff" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "000000cd00000002000000030000000000026b3000002384ffff0000000100026b3100002384ffff0000000200026b3200002384ffff0000000100000002000000066f726465727300000000020000000000000000000100000003000000010000000100000001000000030000000100000001000000010000000000010000000200000003000000010000000100000001000000030000000100000001000000010000000562696c6c73000000000100000000000000000000000000020000000100000001000000020000000100000001", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "critical", summary = "there is no topic mails, 3 brokers, 3 partitions" },
  },
  {
    name = "no topic at all",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 9092 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000140012000000000001000a6d6f6e69746f72696e67" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "000000160000000100000000000200030000000c001200000003", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000180003000100000002000a6d6f6e69746f72696e67ffffffff" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "0000003a00000002000000030000000000026b3000002384ffff0000000100026b3100002384ffff0000000200026b3200002384ffff0000000100000000", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "ok", summary = "3 brokers, 0 partitions" },
  },
  {
    name = "a broker of another time",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 9092 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000140012000000000001000a6d6f6e69746f72696e67" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "000000100000000100000000000100030004000c", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000180003000100000002000a6d6f6e69746f72696e67ffffffff" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "000000cd00000002000000030000000000026b3000002384ffff0000000100026b3100002384ffff0000000200026b3200002384ffff0000000100000002000000066f726465727300000000020000000000000000000100000003000000010000000100000001000000030000000100000001000000010000000000010000000200000003000000010000000100000001000000030000000100000001000000010000000562696c6c73000000000100000000000000000000000000020000000100000001000000020000000100000001", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "unknown", summary = "the broker takes no request for metadata of version 1", metrics = {} },
  },
  {
    name = "a list without an end",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 9092 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000140012000000000001000a6d6f6e69746f72696e67" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "000000160000000100000000000200030000000c001200000003", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000180003000100000002000a6d6f6e69746f72696e67ffffffff" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "00000008000000027fffffff", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "critical", summary = "the broker announces a list of 2147483647", metrics = {} },
  },
  {
    name = "bytes are left over",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 9092 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000140012000000000001000a6d6f6e69746f72696e67" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "000000160000000100000000000200030000000c001200000003", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000180003000100000002000a6d6f6e69746f72696e67ffffffff" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "000000ce00000002000000030000000000026b3000002384ffff0000000100026b3100002384ffff0000000200026b3200002384ffff0000000100000002000000066f726465727300000000020000000000000000000100000003000000010000000100000001000000030000000100000001000000010000000000010000000200000003000000010000000100000001000000030000000100000001000000010000000562696c6c7300000000010000000000000000000000000002000000010000000100000002000000010000000100", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "critical", summary = "the broker sends broken metadata", metrics = {} },
  },
  {
    name = "cut off",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 9092 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000140012000000000001000a6d6f6e69746f72696e67" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "000000160000000100000000000200030000000c001200000003", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000180003000100000002000a6d6f6e69746f72696e67ffffffff" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "000000ca00000002000000030000000000026b3000002384ffff0000000100026b3100002384ffff0000000200026b3200002384ffff0000000100000002000000066f726465727300000000020000000000000000000100000003000000010000000100000001000000030000000100000001000000010000000000010000000200000003000000010000000100000001000000030000000100000001000000010000000562696c6c73000000000100000000000000000000000000020000000100000001000000020000000100", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "critical", metrics = {} },
  },
  {
    name = "the answer to another question",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 9092 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000140012000000000001000a6d6f6e69746f72696e67" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "00000018000000070000000000000000000000000000000000000000", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000180003000100000002000a6d6f6e69746f72696e67ffffffff" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "000000cd00000002000000030000000000026b3000002384ffff0000000100026b3100002384ffff0000000200026b3200002384ffff0000000100000002000000066f726465727300000000020000000000000000000100000003000000010000000100000001000000030000000100000001000000010000000000010000000200000003000000010000000100000001000000030000000100000001000000010000000562696c6c73000000000100000000000000000000000000020000000100000001000000020000000100000001", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "critical", summary = "that is no Kafka broker", metrics = {} },
  },
  {
    name = "something else listens there",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 9092 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "485454502f312e31203430302042616420526571756573740d0a0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "critical", summary = "that is no Kafka broker", metrics = {} },
  },
  {
    name = "it wants a login, and hangs up",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 9092 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, value = { address = "127.0.0.1", seconds = 0.002, received = "", closed = true } },
      },
    },
    expect = { status = "critical", summary = "the server has closed the connection", metrics = {} },
  },
  {
    name = "the policy forbids it",
    args = { host = "192.0.2.1" },
    host = {
      tcp = { code = "denied", text = "192.0.2.1 port 9092 is not granted to tcp" },
    },
    expect = { status = "unknown", metrics = {} },
  },
  {
    name = "a required topic without a leader",
    args = { topics = { "pay" } },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 9092 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000140012000000000001000a6d6f6e69746f72696e67" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "000000160000000100000000000200030000000c001200000003", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000180003000100000002000a6d6f6e69746f72696e67ffffffff" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "0000005200000002000000010000000400026b3400002384ffff0000000400000002000500037061790000000000000000056d61696c7300000000010000000000000000000400000001000000010000000100000001", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "critical", summary = "there is no partition of the topic pay, the broker doesn't tell the state of pay (error 5), 1 broker, 1 partition" },
  },
  {
    name = "a topic whose state is not told",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 9092 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000140012000000000001000a6d6f6e69746f72696e67" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "000000160000000100000000000200030000000c001200000003", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000180003000100000002000a6d6f6e69746f72696e67ffffffff" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "0000005200000002000000010000000400026b3400002384ffff0000000400000002000500037061790000000000000000056d61696c7300000000010000000000000000000400000001000000010000000100000001", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "unknown", summary = "the broker doesn't tell the state of pay (error 5), 1 broker, 1 partition" },
  },
  {
    name = "which does not matter here",
    args = { ignore = { "p*" } },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 9092 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000140012000000000001000a6d6f6e69746f72696e67" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "000000160000000100000000000200030000000c001200000003", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000180003000100000002000a6d6f6e69746f72696e67ffffffff" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "0000005200000002000000010000000400026b3400002384ffff0000000400000002000500037061790000000000000000056d61696c7300000000010000000000000000000400000001000000010000000100000001", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "ok" },
  },
  {
    name = "a partition with an error and the number of a leader",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 9092 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000140012000000000001000a6d6f6e69746f72696e67" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "000000160000000100000000000200030000000c001200000003", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000180003000100000002000a6d6f6e69746f72696e67ffffffff" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "0000004400000002000000010000000400026b3400002384ffff00000004000000010000000370617900000000010005000000000000000400000001000000010000000100000001", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "critical", summary = "1 partition has no leader, topics: pay, 1 broker, 1 partition", metrics = { offline = 1 } },
  },
  {
    name = "a leader that is no broker",
    args = { topics = { "orders" }, brokers_crit = "3:" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 9092 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000140012000000000001000a6d6f6e69746f72696e67" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "000000160000000100000000000200030000000c001200000003", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000180003000100000002000a6d6f6e69746f72696e67ffffffff" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "000000cd00000002000000030000000000026b3000002384ffff0000000100026b3100002384ffff0000000700026b3200002384ffff0000000100000002000000066f726465727300000000020000000000000000000100000003000000010000000100000001000000030000000100000001000000010000000000010000000200000003000000010000000100000001000000030000000100000001000000010000000562696c6c73000000000100000000000000000000000000020000000100000001000000020000000100000001", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "critical", summary = "1 partition has no leader, topics: orders, 3 brokers, 3 partitions", metrics = { offline = 1, brokers = 3 } },
  },
  {
    name = "a controller that is no broker",
    args = { topics = { "orders" }, brokers_crit = "3:" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 9092 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000140012000000000001000a6d6f6e69746f72696e67" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "000000160000000100000000000200030000000c001200000003", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "000000180003000100000002000a6d6f6e69746f72696e67ffffffff" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "000000cd00000002000000030000000000026b3000002384ffff0000000100026b3100002384ffff0000000200026b3200002384ffff0000000900000002000000066f726465727300000000020000000000000000000100000003000000010000000100000001000000030000000100000001000000010000000000010000000200000003000000010000000100000001000000030000000100000001000000010000000562696c6c73000000000100000000000000000000000000020000000100000001000000020000000100000001", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "critical", summary = "the cluster has no controller, 3 brokers, 3 partitions" },
  },
}
