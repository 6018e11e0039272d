local list = {
  { pid = 901, parent = 1, name = "nginx", state = "S", user = "root", uid = 0, threads = 1, resident_bytes = 1048576, cpu_seconds = 0.25,
    started_at = 1699990000.0, age_seconds = 10000.0 },
  { pid = 902, parent = 901, name = "nginx", state = "S", user = "www", uid = 33, threads = 5, resident_bytes = 4194304, cpu_seconds = 3.5,
    started_at = 1699999910.0, age_seconds = 90.0 },
}
local two = { count = 2, threads = 6, by_state = { R = 0, S = 2, D = 0, Z = 0, T = 0, I = 0 }, list = list }
local none = { count = 0, threads = 0, by_state = { R = 0, S = 0, D = 0, Z = 0, T = 0, I = 0 }, list = {} }

return {
  {
    name = "a service with a worker",
    args = { name = "nginx" },
    host = { procs = { args = { { name = "nginx", limit = 200 } }, value = two } },
    expect = {
      status = "ok", summary = "2 processes named nginx, 5.0 MiB of memory, youngest started 1 min 30 s ago",
      metrics = {
        ["processes{name=nginx}"] = { value = 2, crit = "1:" }, ["memory{name=nginx}"] = { value = 5242880, unit = "B" },
        ["cpu_time{name=nginx}"] = { value = 3.75, unit = "s", kind = "gauge" }, ["youngest{name=nginx}"] = 90, ["threads{name=nginx}"] = 6,
      },
    },
  },
  {
    name = "more than the list holds",
    args = { name = "nginx", memory_crit = "1000000000", age_warn = "60:" },
    host = { procs = { value = { count = 260, threads = 260, resident_bytes = 2000000000, cpu_seconds = 77.5, youngest_age_seconds = 12.5,
      by_state = { R = 0, S = 260, D = 0, Z = 0, T = 0, I = 0 }, list = list } } },
    expect = {
      status = "critical", summary = "260 processes named nginx, 1.9 GiB of memory, youngest started 12.5 s ago",
      metrics = { ["memory{name=nginx}"] = 2000000000, ["cpu_time{name=nginx}"] = 77.5, ["youngest{name=nginx}"] = 12.5 },
    },
  },
  {
    name = "an agent that sums up nothing, and more than its list holds",
    args = { name = "nginx" },
    host = { procs = { value = { count = 260, threads = 260, by_state = { R = 0, S = 260, D = 0, Z = 0, T = 0, I = 0 }, list = list } } },
    expect = {
      status = "ok",
      summary = "260 processes named nginx, 5.0 MiB of memory, youngest started 1 min 30 s ago (figures of the 2 largest)",
    },
  },
  {
    name = "nobody there",
    args = { name = "nginx", user = "www" },
    host = { procs = { args = { { name = "nginx", user = "www" } }, value = none } },
    expect = { status = "critical", summary = "0 processes named nginx of user www", metrics = { ["processes{name=nginx}"] = 0 } },
  },
  {
    name = "a restart not long ago",
    args = { name = "nginx", age_warn = "300:" },
    host = { procs = { value = two } },
    expect = { status = "warning" },
  },
  {
    name = "the kernel keeps fifteen characters of a name",
    args = { name = "systemd-timesyncd" },
    host = { procs = { args = { { name = "systemd-timesyn" } }, value = none } },
    expect = { status = "critical", summary = "0 processes named systemd-timesyncd" },
  },
  {
    name = "no such user",
    args = { name = "nginx", user = "ghost" },
    host = { procs = { code = "not-found", text = "this host has no user ghost" } },
    expect = { status = "unknown", summary = "this host has no user ghost", metrics = {} },
  },
  {
    name = "which one?",
    expect = { status = "unknown", reason = "bad-arguments", metrics = {} },
  },
}
