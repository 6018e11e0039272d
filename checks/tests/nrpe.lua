-- Questions and answers of NRPE 4.1.0 of Debian, as they were on the wire; of version 2 the buffer is filled with zeros here.
local good = "000400024d820416000000000000001b4f4b202d20616c6c2069732077656c6c207c20613d313b323b3300"
local warning = "00040002721848db000100000000000d5741524e494e47202d20686d00"
local unknown = "00040002f34eab9400030000000000214e5250453a20436f6d6d616e6420276e6f706527206e6f7420646566696e656400"
local long = "00040002972ff55800010000000000384449534b205741524e494e47202d2035206c656674207c202f3d354d423b333a3b40313a323b303b39206120623d31730a7365636f6e6400"
local zeros = "00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
local version_2 = "00020002f558893800014f6c64206f6e65" .. zeros .. zeros .. zeros .. "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"

return {
  {
    name = "a command that is content",
    args = { host = "10.0.0.5", command = "ok" },
    host = { tcp = {
      args = { { host = "10.0.0.5", port = 5666, send = "00040001a8ff1e6700000000000000036f6b00", hex = true, tls = true, anonymous = true, timeout = 20 } },
      value = { address = "10.0.0.5", connect_seconds = 0.001, seconds = 0.02, received = good, closed = true } } },
    expect = { status = "ok", summary = "OK - all is well", metrics = { a = { value = 1, warn = "2", crit = "3" } } },
  },
  {
    name = "a warning in the clear",
    args = { command = "warn", tls = "off", version = "4" },
    host = { tcp = { args = { { host = "localhost", send = "00040001d4155f2e00000000000000057761726e00" } }, value = { address = "10.0.0.5", connect_seconds = 0.001, seconds = 0.02, received = warning, closed = true } } },
    expect = { status = "warning", summary = "WARNING - hm", metrics = {} },
  },
  {
    name = "figures, thresholds and further lines",
    args = { command = "many" },
    host = { tcp = { value = { address = "10.0.0.5", connect_seconds = 0.001, seconds = 0.02, received = long, closed = true } } },
    expect = {
      status = "warning", summary = "DISK WARNING - 5 left", output = "second\n1 of 3 figures of the command cannot be read, or are too many\n",
      metrics = { ["many{label=/}"] = { value = 5, unit = "MB", warn = "3:", crit = "@1:2", max = 9 }, b = { value = 1, unit = "s" } },
    },
  },
  {
    name = "arguments, and a command that is not there",
    args = { command = "args", arguments = { "a", "b" } },
    host = { tcp = { args = { { send = "000400011c4162f40000000000000009617267732161216200" } }, value = { address = "10.0.0.5", connect_seconds = 0.001, seconds = 0.02, received = unknown, closed = true } } },
    expect = { status = "unknown", summary = "NRPE: Command 'nope' not defined", metrics = {} },
  },
  {
    name = "an old daemon, with packets of version 2",
    args = { command = "ok", version = "2" },
    host = { tcp = { value = { address = "10.0.0.5", connect_seconds = 0.001, seconds = 0.02, received = version_2, closed = true } } },
    expect = { status = "warning", summary = "Old one", metrics = {} },
  },
  {
    name = "it refuses this host",
    args = { command = "ok" },
    host = { tcp = { value = { address = "10.0.0.5", connect_seconds = 0.001, seconds = 0.02, received = "", closed = true } } },
    expect = {
      status = "critical", summary = "the daemon hangs up without an answer: it refuses this host, the command or the packet", metrics = {},
    },
  },
  {
    name = "something else listens there",
    args = { command = "ok" },
    host = { tcp = { value = { address = "10.0.0.5", connect_seconds = 0.001, seconds = 0.02, received = "485454502f312e3120343030204261642052657175657374", closed = true } } },
    expect = { status = "critical", summary = "what answers is no NRPE daemon", metrics = {} },
  },
  {
    name = "a checksum that is wrong",
    args = { command = "ok", version = "4" },
    host = { tcp = { value = { address = "10.0.0.5", connect_seconds = 0.001, seconds = 0.02, received = "000400024d820416000000000000001b4f4c202d20616c6c2069732077656c6c207c20613d313b323b3300", closed = true } } },
    expect = { status = "critical", summary = "the checksum of the answer is wrong", metrics = {} },
  },
  {
    name = "an answer that is cut",
    args = { command = "ok", version = "3" },
    host = { tcp = { value = { address = "10.0.0.5", connect_seconds = 0.001, seconds = 0.02, received = "000400024d820416000000000000001b4f4b202d20616c6c206973207765", closed = true } } },
    expect = { status = "critical", summary = "the daemon's answer is cut", metrics = {} },
  },
  {
    name = "a text without an end",
    args = { command = "ok" },
    host = { tcp = { value = { address = "10.0.0.5", connect_seconds = 0.001, seconds = 0.02, received = "000400024d820416000000007fffffff4f4b", closed = true } } },
    expect = { status = "critical", summary = "the daemon announces a text of 2147483647 bytes", metrics = {} },
  },
  {
    name = "nobody listens",
    args = { command = "ok" },
    host = { tcp = { code = "refused", text = "localhost port 5666: connection refused" } },
    expect = { status = "critical", summary = "localhost port 5666: connection refused", metrics = {} },
  },
  {
    name = "the policy denies it",
    args = { command = "ok", host = "10.0.0.5" },
    host = { tcp = { code = "denied", text = "10.0.0.5 port 5666 is not granted to tcp" } },
    expect = { status = "unknown", summary = "10.0.0.5 port 5666 is not granted to tcp", metrics = {} },
  },
  {
    name = "a command that no packet holds",
    args = { command = "a\nb" },
    expect = { status = "unknown", summary = "the command or an argument holds a control character", metrics = {} },
  },
}
