-- Answers of a device that tests/stages/snmp_device.py plays; its first request has the id 2, since the random number is 1.

return {
  {
    name = "a temperature, in tenths of a degree",
    args = { host = "switch", oid = "1.3.6.1.4.1.9999.1.2", name = "temperature", unit = "Cel", factor = 0.1, warn = "60" },
    host = {
      ["crypto.random"] = { args = { 4 }, value = "00000001" },
      udp = { args = { { host = "switch", port = 161, hex = true } }, value = { address = "192.0.2.7", seconds = 0.01,
          received = "303b02010104067075626c6963a22e0201020201000201003023300f06092b06010401ce0f0102020201de301006082b0601020101030043040083d600" } },
    },
    expect = {
      status = "ok", summary = "temperature 47.8 Cel",
      metrics = {
        ["temperature"] = { value = 47.800000000000004, unit = "Cel" },
      },
    },
  },
  {
    name = "too warm",
    args = { host = "switch", oid = "1.3.6.1.4.1.9999.1.2", name = "temperature", unit = "Cel", factor = 0.1, warn = "40", crit = "60" },
    host = {
      ["crypto.random"] = { args = { 4 }, value = "00000001" },
      udp = { args = { { host = "switch", port = 161, hex = true } }, value = { address = "192.0.2.7", seconds = 0.01,
          received = "303b02010104067075626c6963a22e0201020201000201003023300f06092b06010401ce0f0102020201de301006082b0601020101030043040083d600" } },
    },
    expect = {
      status = "warning", summary = "temperature 47.8 Cel is above warning 40",
      metrics = {
        ["temperature"] = { value = 47.800000000000004, unit = "Cel" },
      },
    },
  },
  {
    name = "a column, one of it too warm",
    args = { host = "switch", oid = "1.3.6.1.4.1.9999.1", each = true, name = "temperature", unit = "Cel", factor = 0.1, warn = "-10:30", crit = "-20:40" },
    host = {
      ["crypto.random"] = { args = { 4 }, value = "00000001" },
      udp = { args = { { host = "switch", port = 161, hex = true } }, value = { address = "192.0.2.7", seconds = 0.01,
          received = "3082036c02010104067075626c6963a282035d02010202010002010030820350301006082b0601020101030043040083d600300f06092b06010401ce0f0101020200d7300f06092b06010401ce0f0102020201de300e06092b06010401ce0f01030201d8300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200" } },
    },
    expect = {
      status = "critical", summary = "temperature 47.8 Cel is above critical 40 (index 2)",
      metrics = {
        ["temperature{index=1}"] = { value = 21.5, unit = "Cel" },
        ["temperature{index=2}"] = { value = 47.800000000000004, unit = "Cel" },
        ["temperature{index=3}"] = { value = -4.0, unit = "Cel" },
      },
    },
  },
  {
    name = "a text as expected",
    args = { host = "switch", oid = "1.3.6.1.2.1.1.5.0", expect = { "switch-7", "switch-7.*" } },
    host = {
      ["crypto.random"] = { args = { 4 }, value = "00000001" },
      udp = { args = { { host = "switch", port = 161, hex = true } }, value = { address = "192.0.2.7", seconds = 0.01,
          received = "304c02010104067075626c6963a23f0201020201000201003034302006082b0601020101050004147377697463682d372e6578616d706c652e6f7267301006082b0601020101030043040083d600" } },
    },
    expect = {
      status = "ok", summary = "switch-7.example.org",
      metrics = {},
    },
  },
  {
    name = "another text",
    args = { host = "switch", oid = "1.3.6.1.2.1.1.5.0", expect = { "switch-7*" } },
    host = {
      ["crypto.random"] = { args = { 4 }, value = "00000001" },
      udp = { args = { { host = "switch", port = 161, hex = true } }, value = { address = "192.0.2.7", seconds = 0.01,
          received = "304002010104067075626c6963a2330201020201000201003028301406082b0601020101050004087377697463682d38301006082b0601020101030043040083d600" } },
    },
    expect = {
      status = "critical", summary = "1.3.6.1.2.1.1.5.0 is switch-8, expected switch-7*",
      metrics = {},
    },
  },
  {
    name = "an address of hardware is no text",
    args = { host = "switch", oid = "1.3.6.1.2.1.17.1.1.0" },
    host = {
      ["crypto.random"] = { args = { 4 }, value = "00000001" },
      udp = { args = { { host = "switch", port = 161, hex = true } }, value = { address = "192.0.2.7", seconds = 0.01,
          received = "303f02010104067075626c6963a2320201020201000201003027301306092b06010201110101000406001a2b3c4dff301006082b0601020101030043040083d600" } },
    },
    expect = {
      status = "ok", summary = "00:1a:2b:3c:4d:ff",
      metrics = {},
    },
  },
  {
    name = "a text that is a number",
    args = { host = "switch", oid = "1.3.6.1.4.1.9999.1.9", warn = "20" },
    host = {
      ["crypto.random"] = { args = { 4 }, value = "00000001" },
      udp = { args = { { host = "switch", port = 161, hex = true } }, value = { address = "192.0.2.7", seconds = 0.01,
          received = "303d02010104067075626c6963a2300201020201000201003025301106092b06010401ce0f0109040432332e35301006082b0601020101030043040083d600" } },
    },
    expect = {
      status = "warning", summary = "value 23.5 is above warning 20",
      metrics = {
        ["value"] = 23.5,
      },
    },
  },
  {
    name = "a text that should be a number",
    args = { host = "switch", oid = "1.3.6.1.4.1.9999.1.9", warn = "20" },
    host = {
      ["crypto.random"] = { args = { 4 }, value = "00000001" },
      udp = { args = { { host = "switch", port = 161, hex = true } }, value = { address = "192.0.2.7", seconds = 0.01,
          received = "303c02010104067075626c6963a22f0201020201000201003024301006092b06010401ce0f010904036e2f61301006082b0601020101030043040083d600" } },
    },
    expect = {
      status = "unknown", summary = "1.3.6.1.4.1.9999.1.9 is no number: n/a",
      metrics = {},
    },
  },
  {
    name = "a float of Net-SNMP",
    args = { host = "switch", oid = "1.3.6.1.4.1.9999.1.9" },
    host = {
      ["crypto.random"] = { args = { 4 }, value = "00000001" },
      udp = { args = { { host = "switch", port = 161, hex = true } }, value = { address = "192.0.2.7", seconds = 0.01,
          received = "304002010104067075626c6963a2330201020201000201003028301406092b06010401ce0f010944079f78043fc00000301006082b0601020101030043040083d600" } },
    },
    expect = {
      status = "ok", summary = "value 1.5",
      metrics = {
        ["value"] = 1.5,
      },
    },
  },
  {
    name = "the rate of a counter",
    args = { host = "switch", oid = "1.3.6.1.4.1.9999.1.5", rate = true, unit = "packets", crit = "50" },
    host = {
      state = { counters = { at = 1699999940.0, ticks = 8640000, values = { [""] = 3000 } } },
      ["crypto.random"] = { args = { 4 }, value = "00000001" },
      udp = { args = { { host = "switch", port = 161, hex = true } }, value = { address = "192.0.2.7", seconds = 0.01,
          received = "303b02010104067075626c6963a22e0201020201000201003023300f06092b06010401ce0f010546022328301006082b0601020101030043040083ed70" } },
    },
    expect = {
      status = "critical", summary = "value 100 packets/s is above critical 50",
      metrics = {
        ["value"] = { value = 100.0, unit = "packets/s" },
      },
    },
  },
  {
    name = "the first run knows no rate",
    args = { host = "switch", oid = "1.3.6.1.4.1.9999.1.5", rate = true, crit = "50" },
    host = {
      ["crypto.random"] = { args = { 4 }, value = "00000001" },
      udp = { args = { { host = "switch", port = 161, hex = true } }, value = { address = "192.0.2.7", seconds = 0.01,
          received = "303b02010104067075626c6963a22e0201020201000201003023300f06092b06010401ce0f010546022328301006082b0601020101030043040083ed70" } },
    },
    expect = {
      status = "ok", summary = "the rate is known from the second run on",
      metrics = {},
    },
  },
  {
    name = "nor the first one after a restart",
    args = { host = "switch", oid = "1.3.6.1.4.1.9999.1.5", rate = true, crit = "50" },
    host = {
      state = { counters = { at = 1699999940.0, ticks = 8640000, values = { [""] = 3000 } } },
      ["crypto.random"] = { args = { 4 }, value = "00000001" },
      udp = { args = { { host = "switch", port = 161, hex = true } }, value = { address = "192.0.2.7", seconds = 0.01,
          received = "303902010104067075626c6963a22c0201020201000201003021300f06092b06010401ce0f010546022328300e06082b0601020101030043020bb8" } },
    },
    expect = {
      status = "ok", summary = "the rate is known from the second run on",
      metrics = {},
    },
  },
  {
    name = "a time since the start that is a text, now and before",
    args = { host = "switch", oid = "1.3.6.1.4.1.9999.5.0", name = "pages", rate = true, crit = "15" },
    host = {
      now = 1700000060.0,
      state = { counters = { at = 1700000000.0, ticks = "23 hours", values = { [""] = 300 } } },
      ["crypto.random"] = { args = { 4 }, value = "00000001" },
      udp = { args = { { host = "switch", port = 161, hex = true } }, value = { address = "192.0.2.7", seconds = 0.01,
          received = "303c02010104067075626c6963a22f0201020201000201003024300f06092b06010401ce0f0500410205dc301106082b0601020101030004053120646179" } },
    },
    expect = {
      status = "critical", summary = "pages 20 1/s is above critical 15",
      metrics = {
        ["pages"] = { value = 20.0, unit = "1/s" },
      },
    },
  },
  {
    name = "a rate of what is no counter",
    args = { host = "switch", oid = "1.3.6.1.4.1.9999.1.1", rate = true },
    host = {
      ["crypto.random"] = { args = { 4 }, value = "00000001" },
      udp = { args = { { host = "switch", port = 161, hex = true } }, value = { address = "192.0.2.7", seconds = 0.01,
          received = "303b02010104067075626c6963a22e0201020201000201003023300f06092b06010401ce0f0101020200d7301006082b0601020101030043040083d600" } },
    },
    expect = {
      status = "unknown", summary = "1.3.6.1.4.1.9999.1.1 is no counter",
      metrics = {},
    },
  },
  {
    name = "a value that is not there",
    args = { host = "switch", oid = "1.3.6.1.4.1.9999.1.9" },
    host = {
      ["crypto.random"] = { args = { 4 }, value = "00000001" },
      udp = { args = { { host = "switch", port = 161, hex = true } }, value = { address = "192.0.2.7", seconds = 0.01,
          received = "303902010104067075626c6963a22c0201020201000201003021300d06092b06010401ce0f01098000301006082b0601020101030043040083d600" } },
    },
    expect = {
      status = "unknown", summary = "switch has no value 1.3.6.1.4.1.9999.1.9",
      metrics = {},
    },
  },
  {
    name = "version 1 has another word for that",
    args = { host = "switch", oid = "1.3.6.1.4.1.9999.1.9", version = "1" },
    host = {
      ["crypto.random"] = { args = { 4 }, value = "00000001" },
      udp = {
        { args = { { host = "switch", port = 161, hex = true } }, value = { address = "192.0.2.7", seconds = 0.01,
          received = "303502010004067075626c6963a228020102020102020101301d300d06092b06010401ce0f01090500300c06082b060102010103000500" }, once = true },
        { args = { { host = "switch", port = 161, hex = true } }, value = { address = "192.0.2.7", seconds = 0.01,
          received = "302a02010004067075626c6963a21d0201030201000201003012301006082b0601020101030043040083d600" }, once = true },
      },
    },
    expect = {
      status = "unknown", summary = "switch has no value 1.3.6.1.4.1.9999.1.9",
      metrics = {},
    },
  },
  {
    name = "an empty column",
    args = { host = "switch", oid = "1.3.6.1.4.1.9999.1", each = true },
    host = {
      ["crypto.random"] = { args = { 4 }, value = "00000001" },
      udp = { args = { { host = "switch", port = 161, hex = true } }, value = { address = "192.0.2.7", seconds = 0.01,
          received = "3082033002010104067075626c6963a282032102010202010002010030820314301006082b0601020101030043040083d600300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200300c06082b06010401ce0f018200" } },
    },
    expect = {
      status = "unknown", summary = "switch has no value below 1.3.6.1.4.1.9999.1",
      metrics = {},
    },
  },
  {
    name = "more than are wanted",
    args = { host = "switch", oid = "1.3.6.1.4.1.9999.1", each = true, most = 2 },
    host = {
      ["crypto.random"] = { args = { 4 }, value = "00000001" },
      udp = { args = { { host = "switch", port = 161, hex = true } }, value = { address = "192.0.2.7", seconds = 0.01,
          received = "3082036c02010104067075626c6963a282035d02010202010002010030820350301006082b0601020101030043040083d600300f06092b06010401ce0f0101020200d7300f06092b06010401ce0f0102020201de300e06092b06010401ce0f01030201d8300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200300d06092b06010401ce0f01038200" } },
    },
    expect = {
      status = "unknown", summary = "switch: the table has more than 2 rows",
      metrics = {},
    },
  },
  {
    name = "version 3, proved and encrypted",
    args = { host = "switch", version = "3", user = "watch", auth_password = "authentic", privacy_password = "encrypted", oid = "1.3.6.1.4.1.9999.1.1" },
    host = {
      ["crypto.random"] = { { args = { 4 }, value = "00000001" }, { args = { 8 }, value = "0000000100000001" } },
      udp = {
        { args = { { host = "switch", port = 161, hex = true } }, value = { address = "192.0.2.7", seconds = 0.01,
          received = "3060020103300e020101020300ffe3040100020103041c301a040b80001f8804737769746368020107020203e8040004000400302d040b80001f88047377697463680400a81c0201000201000201003011300f060a2b060106030f01010400410105" }, once = true },
        { args = { { host = "switch", port = 161, hex = true } }, value = { address = "192.0.2.7", seconds = 0.01,
          received = "30818d020103300e020102020300ffe304010302010304353033040b80001f8804737769746368020107020203e804057761746368040c4a163809954e06de2ae037a4040873616c7473616c740441d892c39ea480662338c505ed70c903b4945bd8d2d520d18183790e94fcffe3d67d45c098570f2e277ded507dc48b4048b95c03155dd3fd7b3403148de9c905c2ad" }, once = true },
      },
      ["crypto.digest"] = {
        { value = "a4a5b5de9177f2d06c666ad3715a0248b4b42989", once = true },
        { value = "8509bf5528f39580c101c1b3e755380a9d0110eb", once = true },
        { value = "575a73f134bf020d474a1c277ce1a7b105584b2c", once = true },
        { value = "63abe0281413cbb54e768cbccb3f4fc1f0f324a6", once = true },
      },
      ["crypto.encrypt"] = { value = "e167b966a3841d728161d40cc793b8d042e0aad5c31fe1cefe176a811ab332209979d135f729c7d29816a1361a2738c8e04c061017a929eac0b777" },
      ["crypto.hmac"] = {
        { value = "d2f71b67824024656afeaca2e2f7c615ae2841cc", once = true },
        { value = "4a163809954e06de2ae037a4ead600c0fcaf7205", once = true },
      },
      ["crypto.decrypt"] = { value = "303f040b80001f88047377697463680400a22e0201020201000201003023300f06092b06010401ce0f0101020200d7301006082b0601020101030043040083d600" },
    },
    expect = {
      status = "ok", summary = "value 215",
      metrics = {
        ["value"] = 215,
      },
    },
  },
  {
    name = "version 3 with another password",
    args = { host = "switch", version = "3", user = "watch", auth_password = "another one", privacy_password = "encrypted", oid = "1.3.6.1.4.1.9999.1.1" },
    host = {
      ["crypto.random"] = { { args = { 4 }, value = "00000001" }, { args = { 8 }, value = "0000000100000001" } },
      udp = {
        { args = { { host = "switch", port = 161, hex = true } }, value = { address = "192.0.2.7", seconds = 0.01,
          received = "3060020103300e020101020300ffe3040100020103041c301a040b80001f8804737769746368020107020203e8040004000400302d040b80001f88047377697463680400a81c0201000201000201003011300f060a2b060106030f01010400410105" }, once = true },
        { args = { { host = "switch", port = 161, hex = true } }, value = { address = "192.0.2.7", seconds = 0.01,
          received = "3060020103300e020102020300ffe3040100020103041c301a040b80001f8804737769746368020107020203e8040004000400302d040b80001f88047377697463680400a81c0201000201000201003011300f060a2b060106030f01010500410105" }, once = true },
      },
      ["crypto.digest"] = {
        { value = "63977e7c012aa09c8538d524c290a6f000af49ff", once = true },
        { value = "f79d4dbc4febeec9dfb2b328453443cd833cbdd3", once = true },
        { value = "575a73f134bf020d474a1c277ce1a7b105584b2c", once = true },
        { value = "63abe0281413cbb54e768cbccb3f4fc1f0f324a6", once = true },
      },
      ["crypto.encrypt"] = { value = "e167b966a3841d728161d40cc793b8d042e0aad5c31fe1cefe176a811ab332209979d135f729c7d29816a1361a2738c8e04c061017a929eac0b777" },
      ["crypto.hmac"] = { value = "00260707ebeeadc9bb82b37bbb7be9f3791fed76" },
    },
    expect = {
      status = "critical", summary = "switch: the device does not accept the proof: auth or auth_password is another one",
      metrics = {},
    },
  },
  {
    name = "a user without a password is told so by the device",
    args = { host = "switch", version = "3", user = "watch", oid = "1.3.6.1.4.1.9999.1.1" },
    host = {
      ["crypto.random"] = { { args = { 4 }, value = "00000001" }, { args = { 8 }, value = "0000000100000001" } },
      udp = {
        { args = { { host = "switch", port = 161, hex = true } }, value = { address = "192.0.2.7", seconds = 0.01,
          received = "3060020103300e020101020300ffe3040100020103041c301a040b80001f8804737769746368020107020203e8040004000400302d040b80001f88047377697463680400a81c0201000201000201003011300f060a2b060106030f01010400410105" }, once = true },
        { args = { { host = "switch", port = 161, hex = true } }, value = { address = "192.0.2.7", seconds = 0.01,
          received = "3060020103300e020102020300ffe3040100020103041c301a040b80001f8804737769746368020107020203e8040004000400302d040b80001f88047377697463680400a81c0201000201000201003011300f060a2b060106030f01010100410105" }, once = true },
      },
    },
    expect = {
      status = "critical", summary = "switch: the device does not give this user such a security level: auth_password and privacy_password must both be given, or be left out",
      metrics = {},
    },
  },
  {
    name = "no OID",
    args = { host = "switch", oid = "sysUpTyme.0" },
    host = {
      ["crypto.random"] = { args = { 4 }, value = "00000001" },
    },
    expect = {
      status = "unknown", summary = "oid is \"sysUpTyme.0\", which is no name that is known here: write it in numbers (snmptranslate -On tells them)",
      metrics = {},
    },
  },
  {
    name = "an answer that ends too early",
    args = { host = "switch", oid = "1.3.6.1.2.1.1.3.0", retries = 0 },
    host = {
      ["crypto.random"] = { args = { 4 }, value = "00000001" },
      udp = { args = { { host = "switch", port = 161, hex = true } }, value = { address = "192.0.2.7", seconds = 0.01,
          received = "302a02010104067075626c6963a21d0201020201" } },
    },
    expect = {
      status = "critical", summary = "switch: the answer is no BER: an element is longer than what is around it",
      metrics = {},
    },
  },
  {
    name = "no answer",
    args = { host = "switch", oid = "1.3.6.1.2.1.1.3.0" },
    host = {
      ["crypto.random"] = { args = { 4 }, value = "00000001" },
      udp = {
        { args = { { host = "switch", port = 161, hex = true } }, code = "timeout", text = "192.0.2.7:161 did not answer within 2 s", once = true },
        { args = { { host = "switch", port = 161, hex = true } }, code = "timeout", text = "192.0.2.7:161 did not answer within 2 s", once = true },
        { args = { { host = "switch", port = 161, hex = true } }, code = "timeout", text = "192.0.2.7:161 did not answer within 2 s", once = true },
      },
    },
    expect = {
      status = "critical", summary = "192.0.2.7:161 did not answer within 2 s, asked 3 times; nor does a device that has another community",
      metrics = {},
    },
  },
  {
    name = "the policy forbids it",
    args = { host = "switch", oid = "1.3.6.1.2.1.1.3.0" },
    host = {
      ["crypto.random"] = { args = { 4 }, value = "00000001" },
      udp = { args = { { host = "switch", port = 161, hex = true } }, code = "denied", text = "192.0.2.7 port 161 is not granted to udp" },
    },
    expect = {
      status = "unknown", summary = "192.0.2.7 port 161 is not granted to udp",
      metrics = {},
    },
  },
}
