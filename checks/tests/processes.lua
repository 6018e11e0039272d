local largest = {
  pid = 6474, parent = 6424, name = "python", state = "S", user = "root", uid = 0, threads = 16, resident_bytes = 65847296, cpu_seconds = 2.86,
  started_at = 1699999000.0, age_seconds = 1000.0,
}
local calm = { count = 83, threads = 112, by_state = { R = 2, S = 47, D = 0, Z = 0, T = 0, I = 34 }, list = { largest } }

return {
  {
    name = "a small machine",
    host = { procs = { args = { { limit = 1 } }, value = calm } },
    expect = {
      status = "ok", summary = "83 processes, 0 zombies, 2 running, 0 stuck; largest is python with 62.8 MiB",
      metrics = {
        processes = { value = 83, unit = "processes", warn = "2000", crit = "10000" }, zombies = 0, stuck = 0, running = 2,
        threads = { value = 112, unit = "threads" },
      },
    },
  },
  {
    name = "somebody does not collect",
    host = { procs = { value = { count = 90, threads = 112, by_state = { R = 1, S = 60, D = 0, Z = 7, T = 0, I = 22 }, list = { largest } } } },
    expect = { status = "warning", metrics = { zombies = 7 } },
  },
  {
    name = "a dead disk holds fifty-one",
    host = { procs = { value = { count = 200, threads = 300, by_state = { R = 1, S = 120, D = 51, Z = 0, T = 0, I = 28 }, list = { largest } } } },
    expect = { status = "critical", metrics = { stuck = 51 } },
  },
  {
    name = "too few are a fault as well",
    args = { crit = "100:" },
    host = { procs = { value = calm } },
    expect = { status = "critical" },
  },
  {
    name = "not granted",
    host = { procs = { code = "denied", text = 'this host does not grant "procs"' } },
    expect = { status = "unknown", summary = 'this host does not grant "procs"', metrics = {} },
  },
}
