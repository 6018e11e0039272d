return {
  {
    name = "on line",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3551 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "0006737461747573" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "00184150432020202020203a203030312c3033362c303837320a00115550534e414d4520203a207261636b200a00164d4f44454c202020203a20536d6172742d555053200a00135354415455532020203a204f4e4c494e45200a00184c494e4556202020203a203233302e3020566f6c7473200a00194c4f414450435420203a2032332e302050657263656e74200a001a4243484152474520203a203130302e302050657263656e74200a001954494d454c454654203a2034302e30204d696e75746573200a00174241545456202020203a2032372e3120566f6c7473200a00134954454d50202020203a2032392e352043200a0000", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = {
      status = "ok",
      summary = "rack (ONLINE): charge 100 %, 40 min 0 s left",
      metrics = {
        charge = { value = 100, unit = "%", warn = "50:", crit = "20:" },
        runtime = { value = 2400, unit = "s" },
        load = { value = 23, unit = "%" },
        input_voltage = { value = 230, unit = "V" },
        battery_voltage = 27.1,
        temperature = { value = 29.5, unit = "Cel" },
        time = 0.003,
      },
    },
  },
  {
    name = "on battery",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3551 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "0006737461747573" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "00184150432020202020203a203030312c3033362c303837320a00115550534e414d4520203a207261636b200a00164d4f44454c202020203a20536d6172742d555053200a00135354415455532020203a204f4e42415454200a00184c494e4556202020203a203233302e3020566f6c7473200a00194c4f414450435420203a2032332e302050657263656e74200a001a4243484152474520203a203130302e302050657263656e74200a001954494d454c454654203a2034302e30204d696e75746573200a00174241545456202020203a2032372e3120566f6c7473200a00134954454d50202020203a2032392e352043200a0000", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "warning", summary = "rack (ONBATT): runs on battery, charge 100 %, 40 min 0 s left" },
  },
  {
    name = "on battery, which is low",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3551 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "0006737461747573" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "00184150432020202020203a203030312c3033362c303837320a00115550534e414d4520203a207261636b200a00164d4f44454c202020203a20536d6172742d555053200a001b5354415455532020203a204f4e42415454204c4f5742415454200a00184c494e4556202020203a203233302e3020566f6c7473200a00194c4f414450435420203a2032332e302050657263656e74200a00184243484152474520203a20382e302050657263656e74200a001854494d454c454654203a20312e30204d696e75746573200a00174241545456202020203a2032372e3120566f6c7473200a00134954454d50202020203a2032392e352043200a0000", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "critical", summary = "rack (ONBATT LOWBATT): its battery is low, runs on battery, charge 8 %, 1 min 0 s left" },
  },
  {
    name = "its battery is calibrated",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3551 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "0006737461747573" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "00184150432020202020203a203030312c3033362c303837320a00115550534e414d4520203a207261636b200a00164d4f44454c202020203a20536d6172742d555053200a00175354415455532020203a2043414c204f4e42415454200a00184c494e4556202020203a203233302e3020566f6c7473200a00194c4f414450435420203a2032332e302050657263656e74200a001a4243484152474520203a203130302e302050657263656e74200a001954494d454c454654203a2034302e30204d696e75746573200a00174241545456202020203a2032372e3120566f6c7473200a00134954454d50202020203a2032392e352043200a0000", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "ok" },
  },
  {
    name = "a battery to replace",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3551 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "0006737461747573" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "00184150432020202020203a203030312c3033362c303837320a00115550534e414d4520203a207261636b200a00164d4f44454c202020203a20536d6172742d555053200a001f5354415455532020203a204f4e4c494e45205245504c41434542415454200a00184c494e4556202020203a203233302e3020566f6c7473200a00194c4f414450435420203a2032332e302050657263656e74200a001a4243484152474520203a203130302e302050657263656e74200a001954494d454c454654203a2034302e30204d696e75746573200a00174241545456202020203a2032372e3120566f6c7473200a00134954454d50202020203a2032392e352043200a0000", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "warning" },
  },
  {
    name = "it does not answer apcupsd",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3551 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "0006737461747573" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "00184150432020202020203a203030312c3033362c303837320a00155354415455532020203a20434f4d4d4c4f5354200a0000", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "critical", summary = "the supply (COMMLOST): does not answer apcupsd" },
  },
  {
    name = "a status that does not tell where power comes from",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3551 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "0006737461747573" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "00184150432020202020203a203030312c3033362c303837320a00155354415455532020203a2053454c4654455354200a0000", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "unknown", summary = "the supply (SELFTEST): does not tell if it is on line" },
  },
  {
    name = "no status",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3551 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "0006737461747573" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "00184150432020202020203a203030312c3033362c303837320a000e4d4f44454c202020203a2078200a0000", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "unknown", summary = "apcupsd tells no status", metrics = {} },
  },
  {
    name = "figures that are none",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3551 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "0006737461747573" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "00184150432020202020203a203030312c3033362c303837320a00135354415455532020203a204f4e4c494e45200a00104243484152474520203a206e616e200a000d4c4f414450435420203a20200a0000", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "unknown", summary = "the supply (ONLINE): does not tell its charge (BCHARGE; warn and crit of ~: don't ask for it)" },
  },
  {
    name = "lines that are none",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3551 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "0006737461747573" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "000568656c6c6f0000", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "critical", summary = "that is no apcupsd", metrics = {} },
  },
  {
    name = "something else listens there",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3551 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "0006737461747573" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "485454502f312e31203430302042616420526571756573740d0a0d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "critical", summary = "that is no apcupsd", metrics = {} },
  },
  {
    name = "it breaks off",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3551 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "00184150432020202020203a203030312c3033362c303837320a00135354415455532020203a204f4e4c494e45200a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, value = { address = "127.0.0.1", seconds = 0.002, received = "", closed = true } },
      },
    },
    expect = { status = "critical", summary = "the server has closed the connection", metrics = {} },
  },
  {
    name = "nobody listens",
    host = {
      tcp = { code = "refused", text = "127.0.0.1:3551 refused the connection" },
    },
    expect = { status = "critical", summary = "127.0.0.1:3551 refused the connection", metrics = {} },
  },
  {
    name = "the policy forbids it",
    args = { host = "192.0.2.1" },
    host = {
      tcp = { code = "denied", text = "192.0.2.1 port 3551 is not granted to tcp" },
    },
    expect = { status = "unknown", metrics = {} },
  },
  {
    name = "whose charge nobody asks for",
    args = { warn = "~:", crit = "~:" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3551 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "0006737461747573" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "00184150432020202020203a203030312c3033362c303837320a00135354415455532020203a204f4e4c494e45200a00104243484152474520203a206e616e200a000d4c4f414450435420203a20200a0000", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "ok", summary = "the supply (ONLINE)" },
  },
}
