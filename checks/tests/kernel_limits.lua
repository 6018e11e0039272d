return {
  {
    name = "far from all limits",
    host = {
      ["kernel.files"] = { value = { open = 2000, most = 100000, most_of_process = 1048576 } },
      ["kernel.sockets"] = { value = { used = 300, tcp = { in_use = 40, orphans = 10, time_wait = 7, allocated = 50 }, tcp_most_orphans = 1000, established = 33, listen_overflows = 5 } },
      ["kernel.conntrack"] = { value = { count = 500, most = 1000, drop = 0, early_drop = 0, insert_failed = 0 } },
    },
    expect = {
      status = "ok",
      summary = "2000 files open, 500 of 1000 tracked connections, 300 sockets",
      metrics = {
        files_used = { value = 2, unit = "%", warn = "80", crit = "95" },
        files = 2000,
        conntrack_used = { value = 50, unit = "%" },
        conntrack = 500,
        orphans_used = 1,
        time_wait = { value = 7, unit = "connections" },
        established = 33,
        sockets = 300,
        listen_overflows = 0,
        conntrack_dropped = 0,
      },
    },
  },
  {
    name = "no firewall",
    host = {
      ["kernel.files"] = { value = { open = 2000, most = 100000, most_of_process = 1048576 } },
      ["kernel.sockets"] = { value = { used = 300, tcp = { in_use = 40, orphans = 10, time_wait = 7, allocated = 50 }, tcp_most_orphans = 1000, established = 33, listen_overflows = 5 } },
      ["kernel.conntrack"] = { code = "unsupported", text = "this host tracks no connections" },
    },
    expect = { status = "ok", summary = "2000 files open, 300 sockets" },
  },
  {
    name = "the table of connections is nearly full",
    host = {
      ["kernel.files"] = { value = { open = 2000, most = 100000, most_of_process = 1048576 } },
      ["kernel.sockets"] = { value = { used = 300, tcp = { in_use = 40, orphans = 10, time_wait = 7, allocated = 50 }, tcp_most_orphans = 1000, established = 33, listen_overflows = 5 } },
      ["kernel.conntrack"] = { value = { count = 850, most = 1000, drop = 0, early_drop = 0, insert_failed = 0 } },
    },
    expect = { status = "warning", summary = "85 % of the tracked connections in use" },
  },
  {
    name = "it was full",
    host = {
      ["kernel.files"] = { value = { open = 2000, most = 100000, most_of_process = 1048576 } },
      ["kernel.sockets"] = { value = { used = 300, tcp = { in_use = 40, orphans = 10, time_wait = 7, allocated = 50 }, tcp_most_orphans = 1000, established = 33, listen_overflows = 5 } },
      ["kernel.conntrack"] = { value = { count = 999, most = 1000, drop = 9, early_drop = 0, insert_failed = 0 } },
      state = { ["recent conntrack"] = { older = 2, newer = 2, at = 1699999900 } },
    },
    expect = { status = "critical", summary = "99.9 % of the tracked connections in use, 7 connections dropped because the table is full" },
  },
  {
    name = "nearly all files are open",
    host = {
      ["kernel.files"] = { value = { open = 98000, most = 100000 } },
      ["kernel.sockets"] = { value = { used = 300, tcp = { in_use = 40, orphans = 10, time_wait = 7, allocated = 50 }, tcp_most_orphans = 1000, established = 33, listen_overflows = 5 } },
      ["kernel.conntrack"] = { value = { count = 500, most = 1000, drop = 0, early_drop = 0, insert_failed = 0 } },
    },
    expect = { status = "critical", summary = "98 % of all files are open" },
  },
  {
    name = "a program is too slow to accept",
    host = {
      ["kernel.files"] = { value = { open = 2000, most = 100000, most_of_process = 1048576 } },
      ["kernel.sockets"] = { value = { used = 300, tcp = { in_use = 40, orphans = 10, time_wait = 7, allocated = 50 }, tcp_most_orphans = 1000, established = 33, listen_overflows = 100 } },
      ["kernel.conntrack"] = { value = { count = 500, most = 1000, drop = 0, early_drop = 0, insert_failed = 0 } },
      state = { ["recent overflows"] = { older = 10, newer = 20, at = 1699999900 } },
    },
    expect = { status = "warning", summary = "90 connections lost at full queues of listeners" },
  },
  {
    name = "an old kernel tells less",
    host = {
      ["kernel.files"] = { value = { open = 2000, most = 100000, most_of_process = 1048576 } },
      ["kernel.sockets"] = { value = { used = 3 } },
      ["kernel.conntrack"] = { value = { count = 500, most = 1000, drop = 0, early_drop = 0, insert_failed = 0 } },
    },
    expect = { status = "ok" },
  },
  {
    name = "the policy does not grant it",
    host = {
      ["kernel.files"] = { code = "denied", text = "kernel is not granted" },
    },
    expect = { status = "unknown", summary = "kernel is not granted", metrics = {} },
  },
  {
    name = "sockets are not told",
    host = {
      ["kernel.files"] = { value = { open = 2000, most = 100000, most_of_process = 1048576 } },
      ["kernel.sockets"] = { code = "failed", text = "/proc/net/sockstat: no" },
    },
    expect = { status = "unknown", metrics = {} },
  },
  {
    name = "the limit of files is not told",
    host = {
      ["kernel.files"] = { value = { open = 2000, most_of_process = 1048576 } },
      ["kernel.sockets"] = { value = { used = 3 } },
      ["kernel.conntrack"] = { value = { count = 500, most = 1000, drop = 0, early_drop = 0, insert_failed = 0 } },
    },
    expect = { status = "unknown" },
  },
}
