-- Bytes of PostgreSQL's protocol, as a server of version 15 sends them. OPEN: the connection; READY: what follows a login.
local OPEN = { args = { { host = "localhost", port = 5432, keep = true } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001,
  received = "", closed = false, connection = 1 } }
local GOODBYE = { args = { { connection = 1, send = "5800000004" } }, value = { address = "127.0.0.1", seconds = 0, received = "", closed = false } }
local TRUSTED, READY = "520000000800000000", "53000000187365727665725f76657273696f6e0031352e36004b0000000c000012670000002a5a0000000549"
local PRIMARY = "54000001a1001076657273696f6e0000000000000000000019ffffffffffff0000706c616365730000000000000000000019ffffffffffff00006f6c646573740000000000000000000019ffffffffffff000077616974696e670000000000000000000019ffffffffffff00006167650000000000000000000019ffffffffffff00007374616e6462790000000000000000000019ffffffffffff00006c61670000000000000000000019ffffffffffff0000757074696d650000000000000000000019ffffffffffff000073697a650000000000000000000019ffffffffffff00006261636b656e64730000000000000000000019ffffffffffff0000636f6d6d6974730000000000000000000019ffffffffffff0000726f6c6c6261636b730000000000000000000019ffffffffffff0000626c6f636b735f726561640000000000000000000019ffffffffffff0000626c6f636b735f6869740000000000000000000019ffffffffffff0000646561646c6f636b730000000000000000000019ffffffffffff000074656d700000000000000000000019ffffffffffff0000440000008e00100000001c31352e36202844656269616e2031352e362d302b646562313275312900000002393700000004302e32350000000130000000033733340000000166ffffffff0000000738363430302e3500000007373530303030300000000231320000000431303030000000013300000003323030000000043930303000000001300000000434303936430000000d53454c4543542031005a0000000549"
local FULL = "54000001a1001076657273696f6e0000000000000000000019ffffffffffff0000706c616365730000000000000000000019ffffffffffff00006f6c646573740000000000000000000019ffffffffffff000077616974696e670000000000000000000019ffffffffffff00006167650000000000000000000019ffffffffffff00007374616e6462790000000000000000000019ffffffffffff00006c61670000000000000000000019ffffffffffff0000757074696d650000000000000000000019ffffffffffff000073697a650000000000000000000019ffffffffffff00006261636b656e64730000000000000000000019ffffffffffff0000636f6d6d6974730000000000000000000019ffffffffffff0000726f6c6c6261636b730000000000000000000019ffffffffffff0000626c6f636b735f726561640000000000000000000019ffffffffffff0000626c6f636b735f6869740000000000000000000019ffffffffffff0000646561646c6f636b730000000000000000000019ffffffffffff000074656d700000000000000000000019ffffffffffff0000440000008e00100000001c31352e36202844656269616e2031352e362d302b646562313275312900000002393700000004302e32350000000130000000033733340000000166ffffffff0000000738363430302e3500000007373530303030300000000239360000000431303030000000013300000003323030000000043930303000000001300000000434303936430000000d53454c4543542031005a0000000549"
local STANDBY = "54000001a1001076657273696f6e0000000000000000000019ffffffffffff0000706c616365730000000000000000000019ffffffffffff00006f6c646573740000000000000000000019ffffffffffff000077616974696e670000000000000000000019ffffffffffff00006167650000000000000000000019ffffffffffff00007374616e6462790000000000000000000019ffffffffffff00006c61670000000000000000000019ffffffffffff0000757074696d650000000000000000000019ffffffffffff000073697a650000000000000000000019ffffffffffff00006261636b656e64730000000000000000000019ffffffffffff0000636f6d6d6974730000000000000000000019ffffffffffff0000726f6c6c6261636b730000000000000000000019ffffffffffff0000626c6f636b735f726561640000000000000000000019ffffffffffff0000626c6f636b735f6869740000000000000000000019ffffffffffff0000646561646c6f636b730000000000000000000019ffffffffffff000074656d700000000000000000000019ffffffffffff0000440000008e00100000001c31352e36202844656269616e2031352e362d302b6465623132753129000000023937ffffffff00000001300000000337333400000001740000000434352e350000000738363430302e3500000007373530303030300000000231320000000431303030000000013300000003323030000000043930303000000001300000000434303936430000000d53454c4543542031005a0000000549"
-- Of a standby of version 15.18: while it receives, and after its primary was stopped.
local RECEIVES = "54000001b7001176657273696f6e0000000000000000000019ffffffffffff0000706c6163657300000000000000000000170004ffffffff00006f6c6465737400000000000000000006a4ffffffffffff000077616974696e6700000000000000000000140008ffffffff000061676500000000000000000000170004ffffffff00007374616e64627900000000000000000000100001ffffffff00006c616700000000000000000006a4ffffffffffff000063757400000000000000000000100001ffffffff0000757074696d6500000000000000000006a4ffffffffffff000073697a6500000000000000000000140008ffffffff00006261636b656e647300000000000000000000140008ffffffff0000636f6d6d69747300000000000000000006a4ffffffffffff0000726f6c6c6261636b7300000000000000000006a4ffffffffffff0000626c6f636b735f7265616400000000000000000006a4ffffffffffff0000626c6f636b735f68697400000000000000000006a4ffffffffffff0000646561646c6f636b7300000000000000000006a4ffffffffffff000074656d7000000000000000000006a4ffffffffffff0000440000008a00110000001e31352e3138202844656269616e2031352e31382d302b6465623132753129000000023937ffffffff000000013000000002313000000001740000000130000000016600000008332e3136343331340000000737363432343731000000013100000001310000000130000000023730000000043135353800000001300000000130430000000d53454c4543542031005a0000000549"
local CUT = "54000001b7001176657273696f6e0000000000000000000019ffffffffffff0000706c6163657300000000000000000000170004ffffffff00006f6c6465737400000000000000000006a4ffffffffffff000077616974696e6700000000000000000000140008ffffffff000061676500000000000000000000170004ffffffff00007374616e64627900000000000000000000100001ffffffff00006c616700000000000000000006a4ffffffffffff000063757400000000000000000000100001ffffffff0000757074696d6500000000000000000006a4ffffffffffff000073697a6500000000000000000000140008ffffffff00006261636b656e647300000000000000000000140008ffffffff0000636f6d6d69747300000000000000000006a4ffffffffffff0000726f6c6c6261636b7300000000000000000006a4ffffffffffff0000626c6f636b735f7265616400000000000000000006a4ffffffffffff0000626c6f636b735f68697400000000000000000006a4ffffffffffff0000646561646c6f636b7300000000000000000006a4ffffffffffff000074656d7000000000000000000006a4ffffffffffff0000440000009200110000001e31352e3138202844656269616e2031352e31382d302b6465623132753129000000023937ffffffff0000000130000000023130000000017400000008382e333530383533000000017400000008382e363431383634000000073736343234373100000001310000000133000000013000000003323032000000043231363400000001300000000130430000000d53454c4543542031005a0000000549"
local HALF = "54000001a1001076657273696f6e0000000000000000000019ffffffffffff0000706c6163657300"
local OFFER = "520000002a0000000a534352414d2d5348412d3235362d504c555300534352414d2d5348412d3235360000"
local CHALLENGE = "520000005b0000000b723d3030303130323033303430353036303730383039306130623063306430653066313031317365727665722d706172742c733d41414543417751464267634943516f4c4441304f44773d3d2c693d34303936"
local PROOF = "700000006b633d626977732c723d3030303130323033303430353036303730383039306130623063306430653066313031317365727665722d706172742c703d75667266414a53734d2f57567a7a495a6146523537337a432f65416c42776638506364356a4b69533534553d"
local FINAL = "52000000360000000c763d433432716c4739734d51634e434938366d52646d536e49465448506847764e6543434c37776a516d724f453d"
local LIAR = "52000000360000000c763d414141414141414141414141414141414141414141414141414141414141414141414141414141414141413d"
local SALT, CLIENT, STORED, SIGNATURE, SERVER, ANSWER = "8750ad7301ef1b2b80b2ce8deddc4b202af4decc15d43c39c9fcd2cb74dfb9ce",
  "ece2e593e39d83beee16071b53198b9c863af4e49cf296b5cdc831dbc885af75", "c844706261e5c7456ba6861f3a7e7884c4e30542969e62b8d880e39d68105a49",
  "55183a937731b04b7bd935023b4df273faf80904b9f59149f00f4857601748f0", "45066bf45f100989a6a77e6d015ce9d1507f903c18dbcdcdfacdb88c30e5886e",
  "0b8daa946f6c31070d088f3a9917664a72054c73e11af35e0822fbc23426ace1"

return {
  {
    name = "a primary",
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = TRUSTED .. READY, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = PRIMARY, closed = false, connection = 1 } },
        GOODBYE,
      },
    },
    expect = { status = "ok", summary = "version 15.6, primary, 12 of 97 connections", metrics = {
      connections_used = { value = 12.371134, unit = "%", warn = "80", crit = "95" }, connections = { value = 12, unit = "connections", max = 97 },
      oldest_transaction = { value = 0.25, unit = "s" }, transaction_age = { value = 734, unit = "transactions" },
      ["size{database=postgres}"] = { value = 7500000, unit = "B" }, commits = { value = 1000, unit = "c", kind = "counter" },
      temp = { value = 4096, unit = "B", kind = "counter" }, time = { value = 0.005, unit = "s" },
    } },
  },
  {
    name = "answers that come in pieces",
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = TRUSTED, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = READY, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = HALF, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "00000000000000000019ffffffffffff00006f6c646573740000000000000000000019ffffffffffff000077616974696e670000000000000000000019ffffffffffff00006167650000000000000000000019ffffffffffff00007374616e6462790000000000000000000019ffffffffffff00006c61670000000000000000000019ffffffffffff0000757074696d650000000000000000000019ffffffffffff000073697a650000000000000000000019ffffffffffff00006261636b656e64730000000000000000000019ffffffffffff0000636f6d6d6974730000000000000000000019ffffffffffff0000726f6c6c6261636b730000000000000000000019ffffffffffff0000626c6f636b735f726561640000000000000000000019ffffffffffff0000626c6f636b735f6869740000000000000000000019ffffffffffff0000646561646c6f636b730000000000000000000019ffffffffffff000074656d700000000000000000000019ffffffffffff0000440000008e00100000001c31352e36202844656269616e2031352e362d302b646562313275312900000002393700000004302e32350000000130000000033733340000000166ffffffff0000000738363430302e3500000007373530303030300000000231320000000431303030000000013300000003323030000000043930303000000001300000000434303936430000000d53454c4543542031005a0000000549", closed = false, connection = 1 } },
        GOODBYE,
      },
    },
    expect = { status = "ok", summary = "version 15.6, primary, 12 of 97 connections" },
  },
  {
    name = "few connections left",
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = TRUSTED .. READY, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = FULL, closed = false, connection = 1 } },
        GOODBYE,
      },
    },
    expect = { status = "critical", summary = "version 15.6, primary, 96 of 97 connections" },
  },
  {
    name = "a long transaction",
    args = { oldest_warn = "0.1" },
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = TRUSTED .. READY, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = PRIMARY, closed = false, connection = 1 } },
        GOODBYE,
      },
    },
    expect = { status = "warning" },
  },
  {
    name = "a standby that is late",
    args = { replica = true },
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = TRUSTED .. READY, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = STANDBY, closed = false, connection = 1 } },
        GOODBYE,
      },
    },
    expect = { status = "warning", summary = "version 15.6, standby, 12 of 97 connections, 45.5 s behind",
      metrics = { lag = { value = 45.5, unit = "s", warn = "30", crit = "300" } } },
  },
  {
    name = "a standby that has all that its primary sent",
    args = { replica = true },
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = TRUSTED .. READY, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = RECEIVES, closed = false, connection = 1 } },
        GOODBYE,
      },
    },
    expect = { status = "ok", summary = "version 15.18, standby, 1 of 97 connections, 0 ms behind", metrics = { lag = { value = 0, unit = "s", warn = "30", crit = "300" } } },
  },
  {
    name = "a standby that receives nothing any more: nobody knows what it lacks",
    args = { replica = true },
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = TRUSTED .. READY, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = CUT, closed = false, connection = 1 } },
        GOODBYE,
      },
    },
    expect = { status = "warning", summary = "version 15.18, standby, 1 of 97 connections, cut off from its primary, up to 8.4 s behind",
      metrics = { lag = { value = 8.350853, unit = "s" } } },
  },
  {
    name = "a standby that was cut off long ago",
    args = { lag_crit = "8" },
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = TRUSTED .. READY, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = CUT, closed = false, connection = 1 } },
        GOODBYE,
      },
    },
    expect = { status = "critical" },
  },
  {
    name = "no standby where one should be",
    args = { replica = true },
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = TRUSTED .. READY, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = PRIMARY, closed = false, connection = 1 } },
        GOODBYE,
      },
    },
    expect = { status = "critical", summary = "version 15.6, primary, 12 of 97 connections: it should be a standby" },
  },
  {
    name = "a password, proved",
    args = { user = "watch", password = "correct horse" },
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = OFFER, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = CHALLENGE, closed = false, connection = 1 } },
        { args = { { connection = 1, send = PROOF } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = FINAL .. TRUSTED .. READY, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = PRIMARY, closed = false, connection = 1 } },
        GOODBYE,
      },
      ["crypto.random"] = { args = { 18 }, value = "000102030405060708090a0b0c0d0e0f1011" },
      ["crypto.pbkdf2"] = { value = SALT },
      ["crypto.digest"] = { value = STORED },
      ["crypto.hmac"] = {
        { value = CLIENT, once = true }, { value = SIGNATURE, once = true }, { value = SERVER, once = true }, { value = ANSWER, once = true },
      },
    },
    expect = { status = "ok" },
  },
  {
    name = "a server that does not know the password either",
    args = { password = "correct horse" },
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = OFFER, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = CHALLENGE, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = LIAR, closed = false, connection = 1 } },
      },
      ["crypto.random"] = { args = { 18 }, value = "000102030405060708090a0b0c0d0e0f1011" },
      ["crypto.pbkdf2"] = { value = SALT },
      ["crypto.digest"] = { value = STORED },
      ["crypto.hmac"] = {
        { value = CLIENT, once = true }, { value = SIGNATURE, once = true }, { value = SERVER, once = true }, { value = ANSWER, once = true },
      },
    },
    expect = { status = "critical", metrics = {},
      summary = "the server does not know the password itself: it may be another one that listens there" },
  },
  {
    name = "a wrong password",
    args = { user = "watch", password = "correct horse" },
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = OFFER, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = CHALLENGE, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "450000004b53464154414c0056464154414c00433238503031004d70617373776f72642061757468656e7469636174696f6e206661696c656420666f72207573657220227761746368220000", closed = false, connection = 1 } },
      },
      ["crypto.random"] = { args = { 18 }, value = "000102030405060708090a0b0c0d0e0f1011" },
      ["crypto.pbkdf2"] = { value = SALT },
      ["crypto.digest"] = { value = STORED },
      ["crypto.hmac"] = {
        { value = CLIENT, once = true }, { value = SIGNATURE, once = true }, { value = SERVER, once = true }, { value = ANSWER, once = true },
      },
    },
    expect = { status = "critical", metrics = {},
      summary = 'the server refuses: password authentication failed for user "watch" (28P01)'  },
  },
  {
    name = "no password given",
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = OFFER, closed = false, connection = 1 } },
      },
    },
    expect = { status = "critical", summary = "the server wants a password for monitoring", metrics = {} },
  },
  {
    name = "an old server's proof",
    args = { password = "correct horse" },
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "520000000c0000000501020304", closed = false, connection = 1 } },
        { args = { { connection = 1, send = "70000000286d6435333461333139346337613265353437313838366534613939393636623630313700" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = TRUSTED .. READY, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = PRIMARY, closed = false, connection = 1 } },
        GOODBYE,
      },
      ["crypto.digest"] = { { value = "7797795b8fce6df9d5fc0558e04a07ac", once = true }, { value = "34a3194c7a2e5471886e4a99966b6017", once = true } },
    },
    expect = { status = "ok" },
  },
  {
    name = "another host wants the password itself",
    args = { host = "192.0.2.1", password = "correct horse" },
    host = {
      tcp = {
        { args = { { host = "192.0.2.1" } }, value = { address = "192.0.2.1", seconds = 0.001, received = "", closed = false, connection = 1 } },
        { value = { address = "192.0.2.1", seconds = 0.002, received = "520000000800000003", closed = false, connection = 1 } },
      },
    },
    expect = {
      status = "unknown", metrics = {},
      summary = 'the server wants the password itself: use scram-sha-256 there, or tls = "verify" here',
    },
  },
  {
    name = "TLS is wanted and not offered",
    args = { tls = "on" },
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, send = "0000000804d2162f" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "4e", closed = false, connection = 1 } },
      },
    },
    expect = { status = "critical", summary = "the server does not offer TLS", metrics = {} },
  },
  {
    name = "too many are connected already",
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "450000003b53464154414c0056464154414c00433533333030004d736f7272792c20746f6f206d616e7920636c69656e747320616c72656164790000", closed = false, connection = 1 } },
      },
    },
    expect = { status = "critical", summary = "the server refuses: sorry, too many clients already (53300)", metrics = {} },
  },
  {
    name = "something else listens there",
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "485454502f312e31203430302042616420526571756573740d0a0d0a", closed = false, connection = 1 } },
      },
    },
    expect = { status = "critical", summary = "that is no PostgreSQL server", metrics = {} },
  },
  {
    name = "over its socket, which the policy does not grant",
    args = { socket = "/run/postgresql/.s.PGSQL.5432" },
    host = { unix = { args = { { path = "/run/postgresql/.s.PGSQL.5432" } }, code = "denied", text = "/run/postgresql/.s.PGSQL.5432 is not granted" } },
    expect = { status = "unknown", summary = "/run/postgresql/.s.PGSQL.5432 is not granted", metrics = {} },
  },
  {
    name = "nobody listens",
    host = { tcp = { code = "refused", text = "127.0.0.1:5432 refused the connection" } },
    expect = { status = "critical", summary = "127.0.0.1:5432 refused the connection", metrics = {} },
  },
}
