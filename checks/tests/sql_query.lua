return {
  {
    name = "one figure",
    args = { query = "SELECT 1" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 5432 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "5200000008000000005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000004a5345542064656661756c745f7472616e73616374696f6e5f726561645f6f6e6c79203d206f6e3b205345542073746174656d656e745f74696d656f7574203d20323030303000" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "4300000008534554004300000008534554005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000000d53454c454354203100" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "540000001e000176616c756500000000000000000000000000000000000000440000000c0001000000023432430000000d53454c4543542031005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = {
      status = "ok",
      summary = "42, in 2 ms",
      metrics = {
        value = { value = 42 },
        rows = { value = 1, unit = "rows" },
        time = { value = 0.002, unit = "s" },
      },
    },
  },
  {
    name = "the only column has another name",
    args = { query = "SELECT 1", unit = "s", warn = "1" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 5432 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "5200000008000000005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000004a5345542064656661756c745f7472616e73616374696f6e5f726561645f6f6e6c79203d206f6e3b205345542073746174656d656e745f74696d656f7574203d20323030303000" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "4300000008534554004300000008534554005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000000d53454c454354203100" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "540000001e0001636f756e7400000000000000000000000000000000000000440000000e000100000004302e3235430000000d53454c4543542031005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = {
      status = "ok",
      summary = "0.25 s, in 2 ms",
      metrics = {
        value = { value = 0.25, unit = "s", warn = "1" },
      },
    },
  },
  {
    name = "too high",
    args = { query = "SELECT 1", crit = "40" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 5432 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "5200000008000000005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000004a5345542064656661756c745f7472616e73616374696f6e5f726561645f6f6e6c79203d206f6e3b205345542073746174656d656e745f74696d656f7574203d20323030303000" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "4300000008534554004300000008534554005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000000d53454c454354203100" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "540000001e000176616c756500000000000000000000000000000000000000440000000c0001000000023432430000000d53454c4543542031005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "critical", summary = "42, in 2 ms" },
  },
  {
    name = "a row for each customer",
    args = { query = "SELECT 1", label = "customer", warn = "10" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 5432 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "5200000008000000005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000004a5345542064656661756c745f7472616e73616374696f6e5f726561645f6f6e6c79203d206f6e3b205345542073746174656d656e745f74696d656f7574203d20323030303000" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "4300000008534554004300000008534554005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000000d53454c454354203100" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "54000000390002637573746f6d65720000000000000000000000000000000000000076616c75650000000000000000000000000000000000000044000000120002000000036f6e650000000135440000001300020000000374776f000000023530430000000d53454c4543542031005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = {
      status = "warning",
      summary = "two 50, in 2 ms",
      metrics = {
        ["value{customer=one}"] = 5,
        ["value{customer=two}"] = 50,
        rows = 2,
      },
    },
  },
  {
    name = "several rows without a name",
    args = { query = "SELECT 1" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 5432 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "5200000008000000005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000004a5345542064656661756c745f7472616e73616374696f6e5f726561645f6f6e6c79203d206f6e3b205345542073746174656d656e745f74696d656f7574203d20323030303000" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "4300000008534554004300000008534554005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000000d53454c454354203100" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "540000001e000176616c756500000000000000000000000000000000000000440000000b00010000000131440000000b00010000000132430000000d53454c4543542031005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "unknown", summary = "the query finds 2 rows: name them by a column (label)" },
  },
  {
    name = "too many rows",
    args = { query = "SELECT 1", label = "n" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 5432 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "5200000008000000005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000004a5345542064656661756c745f7472616e73616374696f6e5f726561645f6f6e6c79203d206f6e3b205345542073746174656d656e745f74696d656f7574203d20323030303000" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "4300000008534554004300000008534554005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000000d53454c454354203100" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "540000003200026e0000000000000000000000000000000000000076616c756500000000000000000000000000000000000000440000001000020000000130000000013144000000100002000000013100000001314400000010000200000001320000000131440000001000020000000133000000013144000000100002000000013400000001314400000010000200000001350000000131440000001000020000000136000000013144000000100002000000013700000001314400000010000200000001380000000131440000001000020000000139000000013144000000110002000000023130000000013144000000110002000000023131000000013144000000110002000000023132000000013144000000110002000000023133000000013144000000110002000000023134000000013144000000110002000000023135000000013144000000110002000000023136000000013144000000110002000000023137000000013144000000110002000000023138000000013144000000110002000000023139000000013144000000110002000000023230000000013144000000110002000000023231000000013144000000110002000000023232000000013144000000110002000000023233000000013144000000110002000000023234000000013144000000110002000000023235000000013144000000110002000000023236000000013144000000110002000000023237000000013144000000110002000000023238000000013144000000110002000000023239000000013144000000110002000000023330000000013144000000110002000000023331000000013144000000110002000000023332000000013144000000110002000000023333000000013144000000110002000000023334000000013144000000110002000000023335000000013144000000110002000000023336000000013144000000110002000000023337000000013144000000110002000000023338000000013144000000110002000000023339000000013144000000110002000000023430000000013144000000110002000000023431000000013144000000110002000000023432000000013144000000110002000000023433000000013144000000110002000000023434000000013144000000110002000000023435000000013144000000110002000000023436000000013144000000110002000000023437000000013144000000110002000000023438000000013144000000110002000000023439000000013144000000110002000000023530000000013144000000110002000000023531000000013144000000110002000000023532000000013144000000110002000000023533000000013144000000110002000000023534000000013144000000110002000000023535000000013144000000110002000000023536000000013144000000110002000000023537000000013144000000110002000000023538000000013144000000110002000000023539000000013144000000110002000000023630000000013144000000110002000000023631000000013144000000110002000000023632000000013144000000110002000000023633000000013144000000110002000000023634000000013144000000110002000000023635000000013144000000110002000000023636000000013144000000110002000000023637000000013144000000110002000000023638000000013144000000110002000000023639000000013144000000110002000000023730000000013144000000110002000000023731000000013144000000110002000000023732000000013144000000110002000000023733000000013144000000110002000000023734000000013144000000110002000000023735000000013144000000110002000000023736000000013144000000110002000000023737000000013144000000110002000000023738000000013144000000110002000000023739000000013144000000110002000000023830000000013144000000110002000000023831000000013144000000110002000000023832000000013144000000110002000000023833000000013144000000110002000000023834000000013144000000110002000000023835000000013144000000110002000000023836000000013144000000110002000000023837000000013144000000110002000000023838000000013144000000110002000000023839000000013144000000110002000000023930000000013144000000110002000000023931000000013144000000110002000000023932000000013144000000110002000000023933000000013144000000110002000000023934000000013144000000110002000000023935000000013144000000110002000000023936000000013144000000110002000000023937000000013144000000110002000000023938000000013144000000110002000000023939000000013144000000120002000000033130300000000131430000000d53454c4543542031005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "unknown", summary = "the query finds 101 rows, more than 100" },
  },
  {
    name = "rows that should not be there",
    args = { query = "SELECT 1", rows_crit = "0" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 5432 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "5200000008000000005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000004a5345542064656661756c745f7472616e73616374696f6e5f726561645f6f6e6c79203d206f6e3b205345542073746174656d656e745f74696d656f7574203d20323030303000" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "4300000008534554004300000008534554005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000000d53454c454354203100" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "540000001b0001696400000000000000000000000000000000000000440000000b00010000000137440000000b00010000000138430000000d53454c4543542031005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = {
      status = "critical",
      summary = "2 rows in 2 ms",
      metrics = {
        rows = { value = 2, crit = "0" },
      },
    },
  },
  {
    name = "no such rows",
    args = { query = "SELECT 1", rows_crit = "0" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 5432 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "5200000008000000005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000004a5345542064656661756c745f7472616e73616374696f6e5f726561645f6f6e6c79203d206f6e3b205345542073746174656d656e745f74696d656f7574203d20323030303000" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "4300000008534554004300000008534554005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000000d53454c454354203100" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "540000001b0001696400000000000000000000000000000000000000430000000d53454c4543542031005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "ok", summary = "0 rows in 2 ms" },
  },
  {
    name = "no row",
    args = { query = "SELECT 1" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 5432 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "5200000008000000005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000004a5345542064656661756c745f7472616e73616374696f6e5f726561645f6f6e6c79203d206f6e3b205345542073746174656d656e745f74696d656f7574203d20323030303000" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "4300000008534554004300000008534554005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000000d53454c454354203100" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "540000001e000176616c756500000000000000000000000000000000000000430000000d53454c4543542031005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "unknown", summary = "the query finds no row" },
  },
  {
    name = "NULL",
    args = { query = "SELECT 1", warn = "1" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 5432 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "5200000008000000005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000004a5345542064656661756c745f7472616e73616374696f6e5f726561645f6f6e6c79203d206f6e3b205345542073746174656d656e745f74696d656f7574203d20323030303000" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "4300000008534554004300000008534554005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000000d53454c454354203100" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "540000001e000176616c756500000000000000000000000000000000000000440000000a0001ffffffff430000000d53454c4543542031005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "unknown", summary = "there is no figure value (it is NULL, or another column), in 2 ms" },
  },
  {
    name = "two columns, none of which is the figure",
    args = { query = "SELECT 1" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 5432 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "5200000008000000005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000004a5345542064656661756c745f7472616e73616374696f6e5f726561645f6f6e6c79203d206f6e3b205345542073746174656d656e745f74696d656f7574203d20323030303000" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "4300000008534554004300000008534554005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000000d53454c454354203100" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "540000002e0002610000000000000000000000000000000000000062000000000000000000000000000000000000004400000010000200000001310000000132430000000d53454c4543542031005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "unknown" },
  },
  {
    name = "a text as it should be",
    args = { query = "SELECT 1", equals = "ready" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 5432 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "5200000008000000005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000004a5345542064656661756c745f7472616e73616374696f6e5f726561645f6f6e6c79203d206f6e3b205345542073746174656d656e745f74696d656f7574203d20323030303000" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "4300000008534554004300000008534554005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000000d53454c454354203100" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "540000001e000176616c756500000000000000000000000000000000000000440000000f0001000000057265616479430000000d53454c4543542031005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "ok", summary = "\"ready\", in 2 ms" },
  },
  {
    name = "a text that is not",
    args = { query = "SELECT 1", equals = "ready" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 5432 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "5200000008000000005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000004a5345542064656661756c745f7472616e73616374696f6e5f726561645f6f6e6c79203d206f6e3b205345542073746174656d656e745f74696d656f7574203d20323030303000" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "4300000008534554004300000008534554005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000000d53454c454354203100" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "540000001e000176616c756500000000000000000000000000000000000000440000001000010000000662726f6b656e430000000d53454c4543542031005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "critical", summary = "\"broken\", not ready, in 2 ms" },
  },
  {
    name = "a text that should be a number",
    args = { query = "SELECT 1", warn = "1" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 5432 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "5200000008000000005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000004a5345542064656661756c745f7472616e73616374696f6e5f726561645f6f6e6c79203d206f6e3b205345542073746174656d656e745f74696d656f7574203d20323030303000" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "4300000008534554004300000008534554005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000000d53454c454354203100" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "540000001e000176616c756500000000000000000000000000000000000000440000000d0001000000036e616e430000000d53454c4543542031005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "unknown", summary = "\"nan\" is no number, in 2 ms" },
  },
  {
    name = "the server does not know the table",
    args = { query = "SELECT 1" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 5432 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "5200000008000000005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000004a5345542064656661756c745f7472616e73616374696f6e5f726561645f6f6e6c79203d206f6e3b205345542073746174656d656e745f74696d656f7574203d20323030303000" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "4300000008534554004300000008534554005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000000d53454c454354203100" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "4500000030534552524f5200433432503031004d72656c6174696f6e2022782220646f6573206e6f742065786973740000", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "critical", summary = "the server refuses: relation \"x\" does not exist (42P01)", metrics = {} },
  },
  {
    name = "it would write",
    args = { query = "DELETE FROM x" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 5432 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "5200000008000000005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000004a5345542064656661756c745f7472616e73616374696f6e5f726561645f6f6e6c79203d206f6e3b205345542073746174656d656e745f74696d656f7574203d20323030303000" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "4300000008534554004300000008534554005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000001244454c4554452046524f4d207800" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "4500000045534552524f5200433235303036004d63616e6e6f7420657865637574652044454c45544520696e206120726561642d6f6e6c79207472616e73616374696f6e0000", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "critical", summary = "the server refuses: cannot execute DELETE in a read-only transaction (25006)", metrics = {} },
  },
  {
    name = "a label that is none",
    args = { query = "SELECT 1", label = "a b" },
    expect = { status = "unknown", summary = "label: it is the name of a column of letters, digits and _", metrics = {} },
  },
  {
    name = "something else listens there",
    args = { query = "SELECT 1" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 5432 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "485454502f312e31203430302042616420526571756573740d0a0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "critical", summary = "that is no PostgreSQL server", metrics = {} },
  },
  {
    name = "no MySQL either",
    args = { query = "SELECT 1", server = "mysql" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3306 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "485454502f312e31203430302042616420526571756573740d0a0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "critical", summary = "that is no MySQL server", metrics = {} },
  },
  {
    name = "the policy does not grant the socket",
    args = { query = "SELECT 1", socket = "/run/x" },
    host = {
      unix = { code = "denied", text = "/run/x is not granted" },
    },
    expect = { status = "unknown", summary = "/run/x is not granted", metrics = {} },
  },
  {
    name = "nobody listens",
    args = { query = "SELECT 1" },
    host = {
      tcp = { code = "refused", text = "127.0.0.1:5432 refused the connection" },
    },
    expect = { status = "critical", summary = "127.0.0.1:5432 refused the connection", metrics = {} },
  },
  {
    name = "NULL beside another number",
    args = { query = "SELECT 1", warn = "30" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 5432 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "5200000008000000005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000004a5345542064656661756c745f7472616e73616374696f6e5f726561645f6f6e6c79203d206f6e3b205345542073746174656d656e745f74696d656f7574203d20323030303000" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "4300000008534554004300000008534554005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000000d53454c454354203100" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "5400000033000269640000000000000000000000000000000000000076616c756500000000000000000000000000000000000000440000000f00020000000135ffffffff430000000d53454c4543542031005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "unknown", summary = "there is no figure value (it is NULL, or another column), in 2 ms" },
  },
  {
    name = "NULL in one of three columns",
    args = { query = "SELECT 1", label = "shop", warn = "30" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 5432 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "5200000008000000005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000004a5345542064656661756c745f7472616e73616374696f6e5f726561645f6f6e6c79203d206f6e3b205345542073746174656d656e745f74696d656f7574203d20323030303000" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "4300000008534554004300000008534554005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000000d53454c454354203100" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "540000004c000373686f70000000000000000000000000000000000000006f7264657273000000000000000000000000000000000000006c61670000000000000000000000000000000000000044000000180003000000056e6f7274680000000133ffffffff430000000d53454c4543542031005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "unknown", summary = "north there is no figure value (it is NULL, or another column), in 2 ms" },
  },
  {
    name = "one column beside the label, NULL in one row",
    args = { query = "SELECT 1", label = "shop", warn = "30" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 5432 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "5200000008000000005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000004a5345542064656661756c745f7472616e73616374696f6e5f726561645f6f6e6c79203d206f6e3b205345542073746174656d656e745f74696d656f7574203d20323030303000" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "4300000008534554004300000008534554005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000000d53454c454354203100" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "5400000033000273686f70000000000000000000000000000000000000006c61670000000000000000000000000000000000000044000000140002000000056e6f72746800000001334400000013000200000005736f757468ffffffff430000000d53454c4543542031005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "unknown", summary = "south there is no figure value (it is NULL, or another column), in 2 ms", metrics = { ["value{shop=north}"] = 3 } },
  },
  {
    name = "a label that the query does not have",
    args = { query = "SELECT 1", label = "shop", warn = "30" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 5432 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "5200000008000000005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000004a5345542064656661756c745f7472616e73616374696f6e5f726561645f6f6e6c79203d206f6e3b205345542073746174656d656e745f74696d656f7574203d20323030303000" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "4300000008534554004300000008534554005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "510000000d53454c454354203100" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "5400000036000273746f72650000000000000000000000000000000000000076616c75650000000000000000000000000000000000000044000000140002000000056e6f7274680000000133430000000d53454c4543542031005a0000000549", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "unknown", summary = "the query has no column shop" },
  },
}
