return {
  {
    name = "on line",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3493 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "4c495354205550530a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "424547494e204c495354205550530a555053207261636b202241504320536d6172742d555053220a454e44204c495354205550530a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "4c49535420564152207261636b0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "424547494e204c49535420564152207261636b0a564152207261636b20626174746572792e6368617267652022313030220a564152207261636b20626174746572792e72756e74696d65202232343030220a564152207261636b207570732e73746174757320224f4c2043485247220a564152207261636b207570732e6c6f616420223233220a564152207261636b20696e7075742e766f6c7461676520223233302e30220a564152207261636b20626174746572792e766f6c74616765202232372e31220a564152207261636b207570732e7265616c706f7765722022313830220a564152207261636b207570732e74656d7065726174757265202232392e35220a454e44204c49535420564152207261636b0a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = {
      status = "ok",
      summary = "rack (OL CHRG): charge 100 %, 40 min 0 s left",
      metrics = {
        ["charge{ups=rack}"] = { value = 100, unit = "%", warn = "50:", crit = "20:" },
        ["runtime{ups=rack}"] = { value = 2400, unit = "s" },
        ["load{ups=rack}"] = { value = 23, unit = "%", warn = "80" },
        ["input_voltage{ups=rack}"] = { value = 230, unit = "V" },
        ["battery_voltage{ups=rack}"] = 27.1,
        ["temperature{ups=rack}"] = { value = 29.5, unit = "Cel" },
        ["power{ups=rack}"] = { value = 180, unit = "W" },
        time = { value = 0.005, unit = "s" },
      },
    },
  },
  {
    name = "on battery",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3493 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "4c495354205550530a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "424547494e204c495354205550530a555053207261636b202241504320536d6172742d555053220a454e44204c495354205550530a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "4c49535420564152207261636b0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "424547494e204c49535420564152207261636b0a564152207261636b20626174746572792e6368617267652022313030220a564152207261636b20626174746572792e72756e74696d65202232343030220a564152207261636b207570732e73746174757320224f422044495343485247220a564152207261636b207570732e6c6f616420223233220a564152207261636b20696e7075742e766f6c7461676520223233302e30220a564152207261636b20626174746572792e766f6c74616765202232372e31220a564152207261636b207570732e7265616c706f7765722022313830220a564152207261636b207570732e74656d7065726174757265202232392e35220a454e44204c49535420564152207261636b0a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "warning", summary = "rack (OB DISCHRG): runs on battery, charge 100 %, 40 min 0 s left" },
  },
  {
    name = "on battery, which is low",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3493 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "4c495354205550530a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "424547494e204c495354205550530a555053207261636b202241504320536d6172742d555053220a454e44204c495354205550530a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "4c49535420564152207261636b0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "424547494e204c49535420564152207261636b0a564152207261636b20626174746572792e636861726765202239220a564152207261636b20626174746572792e72756e74696d6520223630220a564152207261636b207570732e73746174757320224f42204c42220a564152207261636b207570732e6c6f616420223233220a564152207261636b20696e7075742e766f6c7461676520223233302e30220a564152207261636b20626174746572792e766f6c74616765202232372e31220a564152207261636b207570732e7265616c706f7765722022313830220a564152207261636b207570732e74656d7065726174757265202232392e35220a454e44204c49535420564152207261636b0a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "critical", summary = "rack (OB LB): its battery is low, runs on battery, charge 9 %, 1 min 0 s left" },
  },
  {
    name = "its battery is calibrated",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3493 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "4c495354205550530a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "424547494e204c495354205550530a555053207261636b202241504320536d6172742d555053220a454e44204c495354205550530a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "4c49535420564152207261636b0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "424547494e204c49535420564152207261636b0a564152207261636b20626174746572792e6368617267652022313030220a564152207261636b20626174746572792e72756e74696d65202232343030220a564152207261636b207570732e73746174757320224f422043414c220a564152207261636b207570732e6c6f616420223233220a564152207261636b20696e7075742e766f6c7461676520223233302e30220a564152207261636b20626174746572792e766f6c74616765202232372e31220a564152207261636b207570732e7265616c706f7765722022313830220a564152207261636b207570732e74656d7065726174757265202232392e35220a454e44204c49535420564152207261636b0a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "ok" },
  },
  {
    name = "a battery to replace, and an alarm",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3493 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "4c495354205550530a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "424547494e204c495354205550530a555053207261636b202241504320536d6172742d555053220a454e44204c495354205550530a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "4c49535420564152207261636b0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "424547494e204c49535420564152207261636b0a564152207261636b20626174746572792e6368617267652022313030220a564152207261636b20626174746572792e72756e74696d65202232343030220a564152207261636b207570732e73746174757320224f4c20524220414c41524d220a564152207261636b207570732e6c6f616420223233220a564152207261636b20696e7075742e766f6c7461676520223233302e30220a564152207261636b20626174746572792e766f6c74616765202232372e31220a564152207261636b207570732e7265616c706f7765722022313830220a564152207261636b207570732e74656d7065726174757265202232392e35220a564152207261636b207570732e616c61726d20225265706c616365206261747465727921220a454e44204c49535420564152207261636b0a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "warning", summary = "rack (OL RB ALARM): its battery has to be replaced, has an alarm, charge 100 %, 40 min 0 s left, Replace battery!" },
  },
  {
    name = "overloaded",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3493 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "4c495354205550530a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "424547494e204c495354205550530a555053207261636b202241504320536d6172742d555053220a454e44204c495354205550530a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "4c49535420564152207261636b0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "424547494e204c49535420564152207261636b0a564152207261636b20626174746572792e6368617267652022313030220a564152207261636b20626174746572792e72756e74696d65202232343030220a564152207261636b207570732e73746174757320224f4c204f564552220a564152207261636b207570732e6c6f61642022313034220a564152207261636b20696e7075742e766f6c7461676520223233302e30220a564152207261636b20626174746572792e766f6c74616765202232372e31220a564152207261636b207570732e7265616c706f7765722022313830220a564152207261636b207570732e74656d7065726174757265202232392e35220a454e44204c49535420564152207261636b0a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "critical" },
  },
  {
    name = "only the status is told",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3493 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "4c495354205550530a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "424547494e204c495354205550530a555053207261636b202241504320536d6172742d555053220a454e44204c495354205550530a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "4c49535420564152207261636b0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "424547494e204c49535420564152207261636b0a564152207261636b207570732e73746174757320224f4c220a454e44204c49535420564152207261636b0a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "unknown", summary = "rack (OL): does not tell its charge (battery.charge; warn and crit of ~: don't ask for it)" },
  },
  {
    name = "no status",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3493 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "4c495354205550530a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "424547494e204c495354205550530a555053207261636b202241504320536d6172742d555053220a454e44204c495354205550530a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "4c49535420564152207261636b0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "424547494e204c49535420564152207261636b0a564152207261636b207570732e6c6f6164202234220a454e44204c49535420564152207261636b0a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "unknown", summary = "rack tells no status" },
  },
  {
    name = "a status that does not tell where power comes from",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3493 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "4c495354205550530a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "424547494e204c495354205550530a555053207261636b202241504320536d6172742d555053220a454e44204c495354205550530a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "4c49535420564152207261636b0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "424547494e204c49535420564152207261636b0a564152207261636b207570732e737461747573202257414954220a454e44204c49535420564152207261636b0a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "unknown", summary = "rack (WAIT): does not tell if it is on line" },
  },
  {
    name = "figures that are none",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3493 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "4c495354205550530a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "424547494e204c495354205550530a555053207261636b202241504320536d6172742d555053220a454e44204c495354205550530a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "4c49535420564152207261636b0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "424547494e204c49535420564152207261636b0a564152207261636b207570732e73746174757320224f4c220a564152207261636b20626174746572792e63686172676520226e616e220a564152207261636b207570732e6c6f616420223165393939220a454e44204c49535420564152207261636b0a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "unknown", summary = "rack (OL): does not tell its charge (battery.charge; warn and crit of ~: don't ask for it)" },
  },
  {
    name = "the driver hears nothing",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3493 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "4c495354205550530a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "424547494e204c495354205550530a555053207261636b202241504320536d6172742d555053220a454e44204c495354205550530a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "4c49535420564152207261636b0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "45525220444154412d5354414c450a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "critical", summary = "rack: its driver hears nothing of the UPS" },
  },
  {
    name = "two of them",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3493 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "4c495354205550530a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "424547494e204c495354205550530a5550532061202278220a5550532062202279220a454e44204c495354205550530a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "4c4953542056415220610a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "424547494e204c4953542056415220610a5641522061207570732e73746174757320224f4c220a454e44204c4953542056415220610a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "4c4953542056415220620a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "455252204452495645522d4e4f542d434f4e4e45435445440a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "critical", summary = "a (OL): does not tell its charge (battery.charge; warn and crit of ~: don't ask for it), b: its driver does not run" },
  },
  {
    name = "one by its name, which is not there",
    args = { ups = "attic" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3493 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "4c495354205641522061747469630a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "45525220554e4b4e4f574e2d5550530a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "critical", summary = "attic: there is no such UPS" },
  },
  {
    name = "a name that is none",
    args = { ups = "a b" },
    expect = { status = "unknown", summary = "ups: a name has no blanks and quotes", metrics = {} },
  },
  {
    name = "a server without a UPS",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3493 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "424547494e204c495354205550530a454e44204c495354205550530a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "unknown", summary = "the server of localhost has no UPS: see its ups.conf", metrics = {} },
  },
  {
    name = "more than it asks",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3493 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "424547494e204c495354205550530a555053207530202278220a555053207531202278220a555053207532202278220a555053207533202278220a555053207534202278220a555053207535202278220a555053207536202278220a555053207537202278220a555053207538202278220a555053207539202278220a55505320753130202278220a55505320753131202278220a55505320753132202278220a55505320753133202278220a55505320753134202278220a55505320753135202278220a55505320753136202278220a454e44204c495354205550530a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "unknown", summary = "the server has more than 16 supplies: name one (ups)", metrics = {} },
  },
  {
    name = "this host is not let in",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3493 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "455252204143434553532d44454e4945440a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "critical", summary = "it does not let this host in: see LISTEN and the firewall of upsd", metrics = {} },
  },
  {
    name = "something else listens there",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3493 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "323230206d61696c2045534d54500d0a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "critical", summary = "that is no NUT server: it sends \"220 mail ESMTP\"", metrics = {} },
  },
  {
    name = "a list that breaks off",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3493 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "424547494e204c495354205550530a5550532061202278220a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true } }, value = { address = "127.0.0.1", seconds = 0.002, received = "", closed = true } },
      },
    },
    expect = { status = "critical", metrics = {} },
  },
  {
    name = "nobody listens",
    host = {
      tcp = { code = "refused", text = "127.0.0.1:3493 refused the connection" },
    },
    expect = { status = "critical", summary = "127.0.0.1:3493 refused the connection", metrics = {} },
  },
  {
    name = "the policy forbids it",
    args = { host = "192.0.2.1" },
    host = {
      tcp = { code = "denied", text = "192.0.2.1 port 3493 is not granted to tcp" },
    },
    expect = { status = "unknown", metrics = {} },
  },
  {
    name = "it tells no charge",
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3493 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "4c495354205550530a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "424547494e204c495354205550530a555053207261636b202241504320536d6172742d555053220a454e44204c495354205550530a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "4c49535420564152207261636b0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "424547494e204c49535420564152207261636b0a564152207261636b20626174746572792e72756e74696d65202232343030220a564152207261636b207570732e73746174757320224f4c2043485247220a564152207261636b207570732e6c6f616420223233220a564152207261636b20696e7075742e766f6c7461676520223233302e30220a564152207261636b20626174746572792e766f6c74616765202232372e31220a564152207261636b207570732e7265616c706f7765722022313830220a564152207261636b207570732e74656d7065726174757265202232392e35220a454e44204c49535420564152207261636b0a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "unknown", summary = "rack (OL CHRG): does not tell its charge (battery.charge; warn and crit of ~: don't ask for it), 40 min 0 s left" },
  },
  {
    name = "whose charge nobody asks for",
    args = { warn = "~:", crit = "~:" },
    host = {
      tcp = {
        { args = { { host = "localhost", port = 3493 } }, value = { address = "127.0.0.1", connect_seconds = 0.001, seconds = 0.001, received = "", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "4c495354205550530a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "424547494e204c495354205550530a555053207261636b202241504320536d6172742d555053220a454e44204c495354205550530a", closed = false, connection = 1 } },
        { args = { { connection = 1, some = true, send = "4c49535420564152207261636b0a" } }, once = true, value = { address = "127.0.0.1", seconds = 0.002, received = "424547494e204c49535420564152207261636b0a564152207261636b20626174746572792e72756e74696d65202232343030220a564152207261636b207570732e73746174757320224f4c2043485247220a564152207261636b207570732e6c6f616420223233220a564152207261636b20696e7075742e766f6c7461676520223233302e30220a564152207261636b20626174746572792e766f6c74616765202232372e31220a564152207261636b207570732e7265616c706f7765722022313830220a564152207261636b207570732e74656d7065726174757265202232392e35220a454e44204c49535420564152207261636b0a", closed = false, connection = 1 } },
        { args = { { connection = 1, limit = 0 } }, value = { address = "127.0.0.1", seconds = 0.001, received = "", closed = false } },
      },
    },
    expect = { status = "ok", summary = "rack (OL CHRG): 40 min 0 s left" },
  },
}
