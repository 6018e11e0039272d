-- Answers received and sent a quarter of a second after 2023-11-14 22:13:20: seconds since 1900, and their fraction.
-- Stratum 2, root delay 1/256 s, root dispersion 1/128 s, synchronised to 10.0.0.1.
local header = "240206e9" .. "00000100" .. "00000200" .. "0a000001"
local zero = "0000000000000000"
local quarter = "e8fe6f8040000000"
local late = { address = "127.0.0.1", seconds = 0.02, received = header .. zero .. zero .. quarter .. quarter }

return {
  {
    name = "a quarter of a second behind it",
    args = { warn = "-0.5:0.5" },
    host = { udp = { args = { { host = "localhost", port = 123, hex = true } }, value = late } },
    expect = {
      status = "ok", summary = "+0.2400 s, stratum 2 from 10.0.0.1, root dispersion 0.008 s",
      metrics = {
        ["offset{host=localhost}"] = { value = 0.24, unit = "s", warn = "-0.5:0.5" }, ["stratum{host=localhost}"] = 2,
        ["root_dispersion{host=localhost}"] = { value = 0.0078125, unit = "s" }, ["root_delay{host=localhost}"] = 0.00390625,
        ["delay{host=localhost}"] = 0.02,
      },
    },
  },
  { name = "too far", host = { udp = { value = late } }, expect = { status = "warning" } },
  { name = "much too far", args = { crit = "-0.2:0.2" }, host = { udp = { value = late } }, expect = { status = "critical" } },
  {
    name = "a reference clock, and a leap second to come",
    args = { warn = "-0.5:0.5" },
    host = { udp = { value = { address = "127.0.0.1", seconds = 0.02,
      received = "640106e9" .. "00000000" .. "00000010" .. "47505300" .. zero .. zero .. quarter .. quarter } } },
    expect = { status = "ok", summary = "+0.2400 s, stratum 1 from GPS, root dispersion 0.000 s, a leap second is announced" },
  },
  {
    name = "a server that has lost its own sources",
    args = { warn = "-0.5:0.5" },
    host = { udp = { value = { address = "127.0.0.1", seconds = 0.02,
      received = "240a06e9" .. "00000100" .. "00068000" .. "0a000001" .. zero .. zero .. quarter .. quarter } } },
    expect = { status = "critical", metrics = { ["stratum{host=localhost}"] = 10, ["root_dispersion{host=localhost}"] = 6.5 } },
  },
  {
    name = "a server that does not know the time",
    host = { udp = { value = { address = "127.0.0.1", seconds = 0.02,
      received = "e40006e9" .. "00000100" .. "00000200" .. "494e4954" .. zero .. zero .. zero .. zero } } },
    expect = { status = "critical", summary = "localhost does not know the time itself", metrics = {} },
  },
  {
    name = "something else listens there",
    host = { udp = { value = { address = "127.0.0.1", seconds = 0.02, received = "00" } } },
    expect = { status = "critical", summary = "localhost sent no NTP answer", metrics = {} },
  },
  {
    name = "no answer",
    host = { udp = { code = "timeout", text = "127.0.0.1:123 did not answer within 5 s" } },
    expect = { status = "critical", summary = "127.0.0.1:123 did not answer within 5 s", metrics = {} },
  },
  {
    name = "the policy forbids it",
    args = { host = "192.0.2.1" },
    host = { udp = { code = "denied", text = "192.0.2.1 port 123 is not granted to udp" } },
    expect = { status = "unknown", summary = "192.0.2.1 port 123 is not granted to udp", metrics = {} },
  },
}
