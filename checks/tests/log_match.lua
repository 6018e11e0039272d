local log = "/var/log/app.log"
local nothing = { lines = {}, cursor = "1:2:300", more = false, skipped_bytes = 0, rotated = false }

return {
  {
    name = "first run begins at the end",
    args = { path = log, match = "ERROR" },
    host = { ["file.tail"] = { args = { log }, value = { lines = {}, cursor = "1:2:100", skipped_bytes = 0, rotated = false } } },
    expect = {
      status = "ok", summary = "0 of 0 new lines in /var/log/app.log match", state = { cursor = "1:2:100" },
      metrics = { ["matches{path=/var/log/app.log}"] = { value = 0, unit = "lines", warn = "0" }, ["lines{path=/var/log/app.log}"] = 0 },
    },
  },
  {
    name = "one line matches, and one of that kind is to be ignored",
    args = { path = log, match = "ERROR", ignore = { "known" } },
    host = {
      state = { cursor = "1:2:100" },
      ["file.tail"] = {
        { args = { log, "1:2:100" }, value = {
          lines = { "ERROR one", "fine", "ERROR known" }, cursor = "1:2:300", more = true, skipped_bytes = 0, rotated = false } },
        { args = { log, "1:2:300" }, value = nothing },
      },
    },
    expect = {
      status = "warning", summary = "1 of 3 new lines in /var/log/app.log match, first: ERROR one", output = "ERROR one\n",
      state = { cursor = "1:2:300" }, metrics = { ["matches{path=/var/log/app.log}"] = 1, ["lines{path=/var/log/app.log}"] = 3 },
    },
  },
  {
    name = "a pattern, in any case, over the critical limit, in a rotated log that was too much",
    args = { path = log, match = "oom%-kill%w*: %d+", pattern = true, ignore_case = true, crit = "0" },
    host = {
      ["file.tail"] = {
        { once = true, value = { lines = { "OOM-Killed: 42" }, cursor = "1:3:15", more = true, skipped_bytes = 2097152, rotated = true } },
        { code = "budget", text = "the run has used up its 8 MiB" },
      },
      state = {},
    },
    expect = {
      status = "critical",
      summary = "1 of 1 new line in /var/log/app.log match, first: OOM-Killed: 42 (the log was rotated) (more waits for the next run) (2.0 MiB were too much to read)",
    },
  },
  {
    name = "a log that was cut, so that nothing is known of what stood there",
    args = { path = log, match = "ERROR" },
    host = {
      state = { cursor = "1:2:100:0123456789abcdef" },
      ["file.tail"] = { args = { log, "1:2:100:0123456789abcdef" }, value = {
        lines = { "ERROR one", "fine" }, cursor = "1:2:15:123456789abcdef0", more = false, skipped_bytes = 0, rotated = true, incomplete = true } },
    },
    expect = {
      status = "warning",
      summary = "1 of 2 new lines in /var/log/app.log match, first: ERROR one (the log was rotated, and lines before that may be missing)",
    },
  },
  {
    name = "no budget at all",
    args = { path = log, match = "x" },
    host = { ["file.tail"] = { code = "budget", text = "the run has used up its calls" } },
    expect = { status = "unknown", summary = "the run has used up its calls", metrics = {} },
  },
  {
    name = "not granted",
    args = { path = "/var/log/secure", match = "x" },
    host = { ["file.tail"] = { code = "denied", text = "/var/log/secure is not granted" } },
    expect = { status = "unknown", summary = "/var/log/secure is not granted", metrics = {} },
  },
}
