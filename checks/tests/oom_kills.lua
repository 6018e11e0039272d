return {
  {
    name = "none",
    host = {
      ["kernel.vmstat"] = { value = { oom_kill = 3, pgfault = 10 } },
    },
    expect = {
      status = "ok",
      summary = "none in the last minutes, 3 since the start",
      metrics = {
        killed_lately = { value = 0, unit = "programs", crit = "0" },
        killed = { value = 3, unit = "c", kind = "counter" },
      },
    },
  },
  {
    name = "two were killed",
    host = {
      ["kernel.vmstat"] = { value = { oom_kill = 5, pgfault = 10 } },
      state = { ["recent oom"] = { older = 3, newer = 3, at = 1699999900 } },
    },
    expect = { status = "critical", summary = "2 programs were killed because memory was used up: see dmesg for their names" },
  },
  {
    name = "one was killed, which is a warning here",
    args = { warn = "0", crit = "5" },
    host = {
      ["kernel.vmstat"] = { value = { oom_kill = 4, pgfault = 10 } },
      state = { ["recent oom"] = { older = 3, newer = 3, at = 1699999900 } },
    },
    expect = { status = "warning" },
  },
  {
    name = "an old kernel",
    host = {
      ["kernel.vmstat"] = { value = { pgfault = 10 } },
    },
    expect = { status = "unknown", summary = "this kernel does not count them (before Linux 4.13)", metrics = {} },
  },
  {
    name = "the policy does not grant it",
    host = {
      ["kernel.vmstat"] = { code = "denied", text = "kernel is not granted" },
    },
    expect = { status = "unknown", metrics = {} },
  },
}
