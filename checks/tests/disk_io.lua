local vda = {
  device = "vda", reads = 27170, writes = 11256, read_bytes = 1565479936, written_bytes = 655618048, read_seconds = 25.203,
  write_seconds = 5.431, busy_seconds = 7.752, in_flight = 0, window_seconds = 60.0, reads_per_second = 1.5, writes_per_second = 12.0,
  read_bytes_per_second = 16384.0, written_bytes_per_second = 196506.0, busy_percent = 1.2, wait_seconds = 0.0006,
}
local slow = {
  device = "sdb", reads = 1, writes = 2, read_bytes = 512, written_bytes = 1024, read_seconds = 1.0, write_seconds = 3.0, busy_seconds = 4.0,
  in_flight = 9, window_seconds = 60.0, reads_per_second = 0.1, writes_per_second = 0.1, read_bytes_per_second = 0.0,
  written_bytes_per_second = 100.0, busy_percent = 99.0, wait_seconds = 1.4,
}
local loop = {
  device = "loop0", reads = 1, writes = 0, read_bytes = 512, written_bytes = 0, read_seconds = 0.0, write_seconds = 0.0, busy_seconds = 0.0,
  in_flight = 0, window_seconds = 60.0, reads_per_second = 0.0, writes_per_second = 0.0, read_bytes_per_second = 0.0,
  written_bytes_per_second = 0.0, busy_percent = 0.0, wait_seconds = 0.0,
}

return {
  {
    name = "a quick disk",
    host = { disk_io = { value = { vda, loop } } },
    expect = {
      status = "ok", summary = "vda busy 1 %, read 16.0 KiB/s, written 191.9 KiB/s, 0.6 ms a request",
      metrics = {
        ["busy{device=vda}"] = { value = 1.2, unit = "%" }, ["wait{device=vda}"] = { value = 0.0006, unit = "s", warn = "0.5" },
        ["read{device=vda}"] = { value = 1565479936, unit = "B", kind = "counter" }, ["writes{device=vda}"] = { value = 11256, kind = "counter" },
      },
    },
  },
  {
    name = "a slow one beside it",
    host = { disk_io = { value = { vda, slow } } },
    expect = { status = "warning", metrics = { ["wait{device=sdb}"] = 1.4 } },
  },
  {
    name = "busy has limits when they are given",
    args = { device = "sdb", busy_crit = "95" },
    host = { disk_io = { value = { vda, slow } } },
    expect = { status = "critical", summary = "sdb busy 99 %, read 0 B/s, written 100 B/s, 1.4 s a request" },
  },
  {
    name = "a disk that is gone",
    args = { device = "sdc" },
    host = { disk_io = { value = { vda } } },
    expect = { status = "critical", summary = "this host has no block device sdc", metrics = {} },
  },
  {
    name = "a host without disks of its own",
    host = { disk_io = { value = { loop } } },
    expect = { status = "ok", summary = "this host has no block device but those that are left out", metrics = {} },
  },
  {
    name = "no statistics",
    host = { disk_io = { code = "unsupported", text = "/proc/diskstats does not exist on this host" } },
    expect = { status = "unknown", summary = "/proc/diskstats does not exist on this host", metrics = {} },
  },
}
