local good = {
  synchronized = true, offset_seconds = -0.000412, estimated_error_seconds = 0.0001, max_error_seconds = 0.0215, frequency_ppm = 11.2, state = "ok",
}
-- An answer of stratum 2, received and sent 0.25 s after 2023-11-14 22:13:20: seconds since 1900, and their fraction.
local header = "240206e9" .. "00000100" .. "00000200" .. "0a000001"
local zero = "0000000000000000"
local quarter = "e8fe6f8040000000"

return {
  {
    name = "a clock that is kept right",
    host = { clock = { value = good } },
    expect = {
      status = "ok", summary = "-0.000412 s by the kernel's estimate, at most 0.021 s off",
      metrics = { offset = { value = -0.000412, unit = "s", warn = "-0.1:0.1", crit = "-1:1" }, max_error = 0.0215 },
    },
  },
  {
    name = "nobody keeps it right",
    host = { clock = { value = { synchronized = false, offset_seconds = 0.0, estimated_error_seconds = 16.0, max_error_seconds = 16.0,
      frequency_ppm = 0.0, state = "unsynchronized" } } },
    expect = { status = "warning", summary = "no time service keeps this clock right", metrics = {} },
  },
  {
    name = "against a server: a quarter of a second behind it",
    args = { server = "192.0.2.1" },
    host = {
      udp = {
        args = { { host = "192.0.2.1", port = 123, hex = true } },
        value = { address = "192.0.2.1", seconds = 0.02, received = header .. zero .. zero .. quarter .. quarter },
      },
    },
    expect = {
      status = "warning", summary = "+0.2400 s against 192.0.2.1 (stratum 2)",
      metrics = { offset = { value = 0.24, unit = "s" }, delay = 0.02, stratum = 2 },
    },
  },
  {
    name = "the same with tighter limits",
    args = { server = "192.0.2.1", crit = "-0.2:0.2" },
    host = { udp = { value = { address = "192.0.2.1", seconds = 0.02, received = header .. zero .. zero .. quarter .. quarter } } },
    expect = { status = "critical" },
  },
  {
    name = "a server that does not know the time",
    args = { server = "192.0.2.1" },
    host = { udp = { value = { address = "192.0.2.1", seconds = 0.02,
      received = "e40006e9" .. "00000100" .. "00000200" .. "494e4954" .. zero .. zero .. zero .. zero } } },
    expect = { status = "unknown", summary = "192.0.2.1 does not know the time itself", metrics = {} },
  },
  {
    name = "something else listens there",
    args = { server = "192.0.2.1" },
    host = { udp = { value = { address = "192.0.2.1", seconds = 0.02, received = "00" } } },
    expect = { status = "unknown", summary = "192.0.2.1 sent no NTP answer", metrics = {} },
  },
  {
    name = "no answer",
    args = { server = "192.0.2.1" },
    host = { udp = { code = "timeout", text = "192.0.2.1:123 did not answer within 5 s" } },
    expect = { status = "unknown", summary = "192.0.2.1:123 did not answer within 5 s", metrics = {} },
  },
}
