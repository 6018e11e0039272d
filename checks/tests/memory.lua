-- A virtual machine with 24 GiB.
local total = 25276063744
local quiet = {
  total_bytes = total, available_bytes = 24872124416, used_bytes = 403939328, used_percent = 1.598, free_bytes = 24809189376,
  buffers_bytes = 2703360, cached_bytes = 261410816, shared_bytes = 9166848, slab_bytes = 57933824, dirty_bytes = 4681728,
  committed_bytes = 302850048, commit_limit_bytes = 12638031872,
}
local full = {
  total_bytes = total, available_bytes = 2022085099, used_bytes = 23253978645, used_percent = 92.0, free_bytes = 302850048,
  buffers_bytes = 2703360, cached_bytes = 1719235051, shared_bytes = 9166848, slab_bytes = 57933824, dirty_bytes = 0,
  committed_bytes = 30285004800, commit_limit_bytes = 12638031872,
}

return {
  {
    name = "plenty",
    host = { mem = { value = quiet } },
    expect = {
      status = "ok", summary = "used 1.6 %, 23.2 GiB of 23.5 GiB available",
      metrics = {
        used = { value = 1.598, unit = "%", warn = "90", crit = "95", min = 0, max = 100 },
        available = { value = 24872124416, unit = "B", max = total }, total = total, dirty = 4681728,
      },
    },
  },
  {
    name = "little left",
    host = { mem = { value = full } },
    expect = { status = "warning", summary = "used 92.0 %, 1.9 GiB of 23.5 GiB available", metrics = { used = 92 } },
  },
  {
    name = "tighter limits",
    args = { warn = "50", crit = "91.5" },
    host = { mem = { value = full } },
    expect = { status = "critical", metrics = { used = { value = 92, crit = "91.5" } } },
  },
  {
    name = "no /proc",
    host = { mem = { code = "unsupported", text = "/proc/meminfo does not exist on this host" } },
    expect = { status = "unknown", summary = "/proc/meminfo does not exist on this host", metrics = {} },
  },
}
