return {
  {
    name = "a quiet machine",
    host = { load = { value = { one = 0.09, five = 0.14, fifteen = 0.08, running = 1, total = 112, cpus = 2 } } },
    expect = {
      status = "ok", summary = "load 0.09, 0.14, 0.08 on 2 processors",
      metrics = {
        load1 = { value = 0.045, unit = "processes", warn = "10", crit = "20" }, load5 = 0.07, load15 = 0.04, running = 1,
      },
    },
  },
  {
    name = "a long queue on few processors",
    host = { load = { value = { one = 9.2, five = 8.9, fifteen = 5.5, running = 10, total = 400, cpus = 2 } } },
    expect = { status = "warning", summary = "load 9.20, 8.90, 5.50 on 2 processors", metrics = { load5 = 4.45, load15 = 2.75 } },
  },
  {
    name = "the same on many is nothing",
    host = { load = { value = { one = 9.2, five = 8.9, fifteen = 5.5, running = 10, total = 400, cpus = 16 } } },
    expect = { status = "ok" },
  },
  {
    name = "plain averages",
    args = { per_cpu = false, crit_1 = "9" },
    host = { load = { value = { one = 9.2, five = 1.0, fifteen = 0.5, running = 10, total = 400, cpus = 16 } } },
    expect = { status = "critical", metrics = { load1 = { value = 9.2, crit = "9" } } },
  },
  {
    name = "not granted",
    host = { load = { code = "denied", text = 'this host does not grant "load"' } },
    expect = { status = "unknown", summary = 'this host does not grant "load"', metrics = {} },
  },
}
