return {
  {
    name = "little",
    host = {
      ["kernel.pressure"] = { value = { cpu = { some = { percent_10s = 1, percent_60s = 2, percent_300s = 5, seconds = 100 } }, memory = { some = { percent_300s = 1 }, full = { percent_300s = 0, seconds = 2 } }, io = { full = { percent_300s = 12.5, seconds = 3 } } } },
    },
    expect = {
      status = "ok",
      summary = "waits 5 % of the time for processors, 0 % of the time for memory, 12.5 % of the time for disks",
      metrics = {
        cpu = { value = 5, unit = "%" },
        memory = { value = 0, warn = "10", crit = "40" },
        io = { value = 12.5, warn = "50" },
        cpu_time = { value = 100, unit = "s", kind = "counter" },
      },
    },
  },
  {
    name = "memory is short",
    host = {
      ["kernel.pressure"] = { value = { cpu = { some = { percent_10s = 1, percent_60s = 2, percent_300s = 5, seconds = 100 } }, memory = { some = { percent_300s = 1 }, full = { percent_300s = 15, seconds = 2 } }, io = { full = { percent_300s = 12.5, seconds = 3 } } } },
    },
    expect = { status = "warning", summary = "waits 15 % of the time for memory" },
  },
  {
    name = "disks are slow",
    host = {
      ["kernel.pressure"] = { value = { cpu = { some = { percent_10s = 1, percent_60s = 2, percent_300s = 5, seconds = 100 } }, memory = { some = { percent_300s = 1 }, full = { percent_300s = 0, seconds = 2 } }, io = { full = { percent_300s = 95, seconds = 3 } } } },
    },
    expect = { status = "critical", summary = "waits 95 % of the time for disks" },
  },
  {
    name = "a kernel without it",
    host = {
      ["kernel.pressure"] = { code = "unsupported", text = "this kernel tells no pressure" },
    },
    expect = { status = "unknown", metrics = {} },
  },
  {
    name = "a kernel with some of it",
    host = {
      ["kernel.pressure"] = { value = { memory = { some = { percent_300s = 1 } } } },
    },
    expect = { status = "unknown", summary = "the kernel tells no pressure: it is built without it, or started with psi=0", metrics = {} },
  },
  {
    name = "memory is not told",
    host = {
      ["kernel.pressure"] = { value = { cpu = { some = { percent_10s = 1, percent_60s = 2, percent_300s = 5, seconds = 100 } }, io = { full = { percent_300s = 12.5, seconds = 3 } } } },
    },
    expect = { status = "unknown", summary = "nothing is told of memory, waits 5 % of the time for processors, 12.5 % of the time for disks" },
  },
}
