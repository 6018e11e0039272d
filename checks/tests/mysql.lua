-- Bytes of the protocol of MySQL and MariaDB, as the servers send them.
local OPEN = { args = { { host = "localhost", port = 3306, keep = true } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001,
  received = "", closed = false, connection = 1 } }
local GOODBYE = { args = { { connection = 1, send = "0100000001" } }, value = { address = "127.0.0.1", seconds = 0, received = "", closed = false } }
local MARIADB = "590000000a352e352e352d31302e31312e362d4d617269614442004d00000001020304050607080009a22d020008001500000000000000000000090a0b0c0d0e0f1011121314006d7973716c5f6e61746976655f70617373776f726400"
local MYSQL = "4a0000000a382e302e3336004d00000001020304050607080009a22d020008001500000000000000000000090a0b0c0d0e0f10111213140063616368696e675f736861325f70617373776f726400"
local GOOD, GOOD_4 = "0700000200000002000000", "0700000400000002000000"
local STATUS, PLACES = "010000010230000002036465660000000d5661726961626c655f6e616d650d5661726961626c655f6e616d650c2d0040000000fd000000000020000003036465660000000556616c75650556616c75650c2d0040000000fd000000000005000004fe000002000c00000506557074696d6504333630301500000611546872656164735f636f6e6e6563746564023132120000070f546872656164735f72756e6e696e6701320f000008095175657374696f6e7304353030300f0000090c536c6f775f7175657269657301311200000a0f41626f727465645f636c69656e747301301300000b1041626f727465645f636f6e6e6563747301331500000c10496e6e6f64625f726f77735f72656164033130301400000d0e42797465735f726563656976656404343039361100000e0a42797465735f73656e740536353533361800000f15496e6e6f64625f726f775f6c6f636b5f7761697473013005000010fe00000200",
  "0100000101220000020364656600000006706c6163657306706c616365730c2d0040000000fd000000000005000003fe00000200040000040331353105000005fe00000200"
local FULL = "010000010230000002036465660000000d5661726961626c655f6e616d650d5661726961626c655f6e616d650c2d0040000000fd000000000020000003036465660000000556616c75650556616c75650c2d0040000000fd000000000005000004fe000002000c00000506557074696d6504333630301600000611546872656164735f636f6e6e656374656403313530120000070f546872656164735f72756e6e696e6701320f000008095175657374696f6e7304353030300f0000090c536c6f775f7175657269657301311200000a0f41626f727465645f636c69656e747301301300000b1041626f727465645f636f6e6e6563747301331500000c10496e6e6f64625f726f77735f72656164033130301400000d0e42797465735f726563656976656404343039361100000e0a42797465735f73656e740536353533361800000f15496e6e6f64625f726f775f6c6f636b5f7761697473013005000010fe00000200"
local REPLICATES = "0100000105360000020364656600000010536c6176655f494f5f52756e6e696e6710536c6176655f494f5f52756e6e696e670c2d0040000000fd0000000000380000030364656600000011536c6176655f53514c5f52756e6e696e6711536c6176655f53514c5f52756e6e696e670c2d0040000000fd00000000004000000403646566000000155365636f6e64735f426568696e645f4d6173746572155365636f6e64735f426568696e645f4d61737465720c2d0040000000fd00000000002a000005036465660000000a4c6173745f4572726f720a4c6173745f4572726f720c2d0040000000fd000000000030000006036465660000000d4c6173745f494f5f4572726f720d4c6173745f494f5f4572726f720c2d0040000000fd000000000005000007fe000002000c00000803596573035965730134000005000009fe00000200"
local LATE = "0100000105360000020364656600000010536c6176655f494f5f52756e6e696e6710536c6176655f494f5f52756e6e696e670c2d0040000000fd0000000000380000030364656600000011536c6176655f53514c5f52756e6e696e6711536c6176655f53514c5f52756e6e696e670c2d0040000000fd00000000004000000403646566000000155365636f6e64735f426568696e645f4d6173746572155365636f6e64735f426568696e645f4d61737465720c2d0040000000fd00000000002a000005036465660000000a4c6173745f4572726f720a4c6173745f4572726f720c2d0040000000fd000000000030000006036465660000000d4c6173745f494f5f4572726f720d4c6173745f494f5f4572726f720c2d0040000000fd000000000005000007fe000002000d0000080359657303596573023930000005000009fe00000200"
local STOPPED = "0100000105360000020364656600000010536c6176655f494f5f52756e6e696e6710536c6176655f494f5f52756e6e696e670c2d0040000000fd0000000000380000030364656600000011536c6176655f53514c5f52756e6e696e6711536c6176655f53514c5f52756e6e696e670c2d0040000000fd00000000004000000403646566000000155365636f6e64735f426568696e645f4d6173746572155365636f6e64735f426568696e645f4d61737465720c2d0040000000fd00000000002a000005036465660000000a4c6173745f4572726f720a4c6173745f4572726f720c2d0040000000fd000000000030000006036465660000000d4c6173745f494f5f4572726f720d4c6173745f494f5f4572726f720c2d0040000000fd000000000005000007fe000002001900000803596573024e6ffb0f4475706c696361746520656e7472790005000009fe00000200"
local NO_REPLICA = "0100000101360000020364656600000010536c6176655f494f5f52756e6e696e6710536c6176655f494f5f52756e6e696e670c2d0040000000fd000000000005000003fe0000020005000004fe00000200"
local FAST, FULL_LOGIN = "020000020103", "020000020104"
local SWITCH = "2c000002fe6d7973716c5f6e61746976655f70617373776f7264000102030405060708090a0b0c0d0e0f101112131400"
local ED25519 = "30000002fe636c69656e745f65643235353139000000000000000000000000000000000000000000000000000000000000000000"

return {
  {
    name = "a server",
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = MARIADB, closed = false, connection = 1 } },
        { args = { { connection = 1, send = "4200000101a20800ffffff002d00000000000000000000000000000000000000000000006d6f6e69746f72696e6700006d7973716c5f6e61746976655f70617373776f726400" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = GOOD, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = STATUS, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = PLACES, closed = false, connection = 1 } },
        GOODBYE,
      },
    },
    expect = { status = "ok", summary = "version 10.11.6-MariaDB, 12 of 151 connections", metrics = {
      connections_used = { value = 7.9470199, unit = "%", warn = "80", crit = "95" }, connections = { value = 12, unit = "connections", max = 151 },
      running = { value = 2, unit = "threads" }, queries = { value = 5000, unit = "c", kind = "counter" }, sent = { value = 65536, unit = "B", kind = "counter" },
      uptime = { value = 3600, unit = "s" }, time = { value = 0.009, unit = "s" },
    } },
  },
  {
    name = "few connections left",
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = MARIADB, closed = false, connection = 1 } },
        { args = { { connection = 1, send = "4200000101a20800ffffff002d00000000000000000000000000000000000000000000006d6f6e69746f72696e6700006d7973716c5f6e61746976655f70617373776f726400" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = GOOD, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = FULL, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = PLACES, closed = false, connection = 1 } },
        GOODBYE,
      },
    },
    expect = { status = "critical", summary = "version 10.11.6-MariaDB, 150 of 151 connections" },
  },
  {
    name = "many threads at work",
    args = { running_warn = "1" },
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = MARIADB, closed = false, connection = 1 } },
        { args = { { connection = 1, send = "4200000101a20800ffffff002d00000000000000000000000000000000000000000000006d6f6e69746f72696e6700006d7973716c5f6e61746976655f70617373776f726400" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = GOOD, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = STATUS, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = PLACES, closed = false, connection = 1 } },
        GOODBYE,
      },
    },
    expect = { status = "warning" },
  },
  {
    name = "a password, proved",
    args = { user = "watch", password = "correct horse" },
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = MARIADB, closed = false, connection = 1 } },
        { args = { { connection = 1, send = "5100000101a20800ffffff002d00000000000000000000000000000000000000000000007761746368001485cbaea93f89ea1664bbfdce6ce1af4f0f4a9f886d7973716c5f6e61746976655f70617373776f726400" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = GOOD, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = STATUS, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = PLACES, closed = false, connection = 1 } },
        GOODBYE,
      },
      ["crypto.digest"] = { { value = "2f9e53523b62abc141a2b4d6019d23cba835dbd0", once = true }, { value = "0e8f21e4240f5ad5a07d088f9c93890d13d78a4e", once = true }, { value = "aa55fdfb04eb41d7251949186d7c8c84a77f4458", once = true } },
    },
    expect = { status = "ok" },
  },
  {
    name = "the same to a newer server",
    args = { user = "watch", password = "correct horse" },
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = MYSQL, closed = false, connection = 1 } },
        { args = { { connection = 1, send = "5d00000101a20800ffffff002d000000000000000000000000000000000000000000000077617463680020f16e4bdf1fbf64d96bba0a87b408b36ba19739c0313d446bba6b4165c13c40fc63616368696e675f736861325f70617373776f726400" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = FAST .. "0700000300000002000000", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = STATUS, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = PLACES, closed = false, connection = 1 } },
        GOODBYE,
      },
      ["crypto.digest"] = { { value = "4104d36f8da2c254349f85836793ebe029e0c957063a34c91c2e9203187b5631", once = true }, { value = "bf7ffba958c798f80e3cf8ebea1cbc781495cadb8880a7f2bbc73d530712b52d", once = true }, { value = "b06a98b0921da68d5f258f04d39b588b8877f097370770a2a645d366d94716cd", once = true } },
    },
    expect = { status = "ok", summary = "version 8.0.36, 12 of 151 connections" },
  },
  {
    name = "an account that logs in another way than the server's default",
    args = { user = "watch", password = "correct horse" },
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = MYSQL, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = SWITCH, closed = false, connection = 1 } },
        { args = { { connection = 1, send = "1400000385cbaea93f89ea1664bbfdce6ce1af4f0f4a9f88" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = GOOD_4, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = STATUS, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = PLACES, closed = false, connection = 1 } },
        GOODBYE,
      },
      ["crypto.digest"] = { { value = "4104d36f8da2c254349f85836793ebe029e0c957063a34c91c2e9203187b5631", once = true }, { value = "bf7ffba958c798f80e3cf8ebea1cbc781495cadb8880a7f2bbc73d530712b52d", once = true }, { value = "b06a98b0921da68d5f258f04d39b588b8877f097370770a2a645d366d94716cd", once = true }, { value = "2f9e53523b62abc141a2b4d6019d23cba835dbd0", once = true }, { value = "0e8f21e4240f5ad5a07d088f9c93890d13d78a4e", once = true }, { value = "aa55fdfb04eb41d7251949186d7c8c84a77f4458", once = true } },
    },
    expect = { status = "ok" },
  },
  {
    name = "a server that has not seen the account since its start",
    args = { password = "correct horse" },
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = MYSQL, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = FULL_LOGIN, closed = false, connection = 1 } },
      },
      ["crypto.digest"] = { { value = "4104d36f8da2c254349f85836793ebe029e0c957063a34c91c2e9203187b5631", once = true }, { value = "bf7ffba958c798f80e3cf8ebea1cbc781495cadb8880a7f2bbc73d530712b52d", once = true }, { value = "b06a98b0921da68d5f258f04d39b588b8877f097370770a2a645d366d94716cd", once = true } },
    },
    expect = { status = "unknown", metrics = {},
      summary = 'the server wants the password itself: use tls = "verify" (on this host "on" is enough), or the socket'  },
  },
  {
    name = "the same over its socket, where the password can be said",
    args = { socket = "/run/mysqld/mysqld.sock", password = "correct horse" },
    host = {
      unix = {
        { args = { { path = "/run/mysqld/mysqld.sock", keep = true } }, once = true, value = { seconds = 0.002, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { seconds = 0.002, received = MYSQL, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { seconds = 0.002, received = FULL_LOGIN, closed = false, connection = 1 } },
        { args = { { connection = 1, send = "0e000003636f727265637420686f72736500" } }, once = true, value = { seconds = 0.002, received = GOOD_4, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { seconds = 0.002, received = STATUS, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { seconds = 0.002, received = PLACES, closed = false, connection = 1 } },
        { args = { { connection = 1, send = "0100000001" } }, value = { seconds = 0, received = "", closed = false } },
      },
      ["crypto.digest"] = { { value = "4104d36f8da2c254349f85836793ebe029e0c957063a34c91c2e9203187b5631", once = true }, { value = "bf7ffba958c798f80e3cf8ebea1cbc781495cadb8880a7f2bbc73d530712b52d", once = true }, { value = "b06a98b0921da68d5f258f04d39b588b8877f097370770a2a645d366d94716cd", once = true } },
    },
    expect = { status = "ok", summary = "version 8.0.36, 12 of 151 connections" },
  },
  {
    name = "a login that is not known here",
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = MARIADB, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = ED25519, closed = false, connection = 1 } },
      },
    },
    expect = { status = "unknown", metrics = {},
      summary = "the account logs in by client_ed25519; give it mysql_native_password or caching_sha2_password" },
  },
  {
    name = "a wrong password",
    args = { user = "watch", password = "correct horse" },
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = MARIADB, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "49000002ff15042332383030304163636573732064656e69656420666f722075736572202777617463682740276c6f63616c686f73742720287573696e672070617373776f72643a2059455329", closed = false, connection = 1 } },
      },
      ["crypto.digest"] = { { value = "2f9e53523b62abc141a2b4d6019d23cba835dbd0", once = true }, { value = "0e8f21e4240f5ad5a07d088f9c93890d13d78a4e", once = true }, { value = "aa55fdfb04eb41d7251949186d7c8c84a77f4458", once = true } },
    },
    expect = { status = "critical", metrics = {},
      summary = "the server refuses: Access denied for user 'watch'@'localhost' (using password: YES) (1045)" },
  },
  {
    name = "too many are connected already",
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "17000000ff1004546f6f206d616e7920636f6e6e656374696f6e73", closed = false, connection = 1 } },
      },
    },
    expect = { status = "critical", summary = "the server refuses: Too many connections (1040)", metrics = {} },
  },
  {
    name = "a replica",
    args = { replica = true },
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = MARIADB, closed = false, connection = 1 } },
        { args = { { connection = 1, send = "4200000101a20800ffffff002d00000000000000000000000000000000000000000000006d6f6e69746f72696e6700006d7973716c5f6e61746976655f70617373776f726400" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = GOOD, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = STATUS, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = PLACES, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = REPLICATES, closed = false, connection = 1 } },
        GOODBYE,
      },
    },
    expect = { status = "ok", summary = "version 10.11.6-MariaDB, 12 of 151 connections, 4.0 s behind", metrics = { lag = { value = 4, unit = "s" } } },
  },
  {
    name = "a replica that is late",
    args = { replica = true },
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = MARIADB, closed = false, connection = 1 } },
        { args = { { connection = 1, send = "4200000101a20800ffffff002d00000000000000000000000000000000000000000000006d6f6e69746f72696e6700006d7973716c5f6e61746976655f70617373776f726400" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = GOOD, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = STATUS, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = PLACES, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = LATE, closed = false, connection = 1 } },
        GOODBYE,
      },
    },
    expect = { status = "warning" },
  },
  {
    name = "a replica that has stopped, of an old version",
    args = { replica = true },
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = MARIADB, closed = false, connection = 1 } },
        { args = { { connection = 1, send = "4200000101a20800ffffff002d00000000000000000000000000000000000000000000006d6f6e69746f72696e6700006d7973716c5f6e61746976655f70617373776f726400" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = GOOD, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = STATUS, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = PLACES, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "2d000001ff2804233432303030596f75206861766520616e206572726f7220696e20796f75722053514c2073796e746178", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = STOPPED, closed = false, connection = 1 } },
        GOODBYE,
      },
    },
    expect = { status = "critical", summary = "version 10.11.6-MariaDB, 12 of 151 connections, it does not apply what it reads: Duplicate entry" },
  },
  {
    name = "no replica where one should be",
    args = { replica = true },
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = MARIADB, closed = false, connection = 1 } },
        { args = { { connection = 1, send = "4200000101a20800ffffff002d00000000000000000000000000000000000000000000006d6f6e69746f72696e6700006d7973716c5f6e61746976655f70617373776f726400" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = GOOD, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = STATUS, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = PLACES, closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = NO_REPLICA, closed = false, connection = 1 } },
        GOODBYE,
      },
    },
    expect = { status = "critical", summary = "version 10.11.6-MariaDB, 12 of 151 connections, it is no replica" },
  },
  {
    name = "TLS is wanted and not offered",
    args = { tls = "verify" },
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = MARIADB, closed = false, connection = 1 } },
      },
    },
    expect = { status = "critical", summary = "the server does not offer TLS", metrics = {} },
  },
  {
    name = "something else listens there",
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "5353482d322e302d4f70656e5353485f392e3270310d0a", closed = false, connection = 1 } },
      },
    },
    expect = { status = "critical", summary = "that is no MySQL server", metrics = {} },
  },
  {
    name = "a packet that is broken off",
    host = {
      tcp = {
        OPEN,
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "070000000a382e30000102", closed = false, connection = 1 } },
      },
    },
    expect = { status = "critical", summary = "the server sends broken packets", metrics = {} },
  },
  {
    name = "the policy forbids it",
    args = { host = "192.0.2.1" },
    host = { tcp = { code = "denied", text = "192.0.2.1 port 3306 is not granted to tcp" } },
    expect = { status = "unknown", summary = "192.0.2.1 port 3306 is not granted to tcp", metrics = {} },
  },
  {
    name = "nobody listens",
    args = { socket = "/run/mysqld/mysqld.sock" },
    host = { unix = { code = "refused", text = "/run/mysqld/mysqld.sock refused the connection" } },
    expect = { status = "critical", summary = "/run/mysqld/mysqld.sock refused the connection", metrics = {} },
  },
}
