return {
  {
    name = "online",
    host = {
      ["kernel.zfs"] = { value = { pools = { { name = "tank", state = "ONLINE" }, { name = "rpool", state = "ONLINE" } }, cache = { bytes = 1000, most_bytes = 4000, hits = 90, misses = 10 } } },
    },
    expect = {
      status = "ok",
      summary = "tank is online, rpool is online",
      metrics = {
        ["online{pool=tank}"] = { value = 1 },
        cache = { value = 1000, unit = "B", max = 4000 },
        cache_hits = { value = 90, unit = "c", kind = "counter" },
        cache_misses = 10,
      },
    },
  },
  {
    name = "degraded",
    host = {
      ["kernel.zfs"] = { value = { pools = { { name = "tank", state = "DEGRADED" }, { name = "rpool", state = "ONLINE" } } } },
    },
    expect = {
      status = "critical",
      summary = "tank is degraded",
      metrics = {
        ["online{pool=tank}"] = 0,
      },
    },
  },
  {
    name = "degraded, which is a warning here",
    args = { degraded = "warning" },
    host = {
      ["kernel.zfs"] = { value = { pools = { { name = "tank", state = "DEGRADED" } } } },
    },
    expect = { status = "warning" },
  },
  {
    name = "suspended",
    args = { degraded = "warning" },
    host = {
      ["kernel.zfs"] = { value = { pools = { { name = "tank", state = "SUSPENDED" } } } },
    },
    expect = { status = "critical", summary = "tank is suspended" },
  },
  {
    name = "a pool is not there",
    args = { pools = { "tank", "backup" } },
    host = {
      ["kernel.zfs"] = { value = { pools = { { name = "tank", state = "ONLINE" } } } },
    },
    expect = { status = "critical", summary = "there is no pool backup" },
  },
  {
    name = "ZFS is not loaded, and a pool is needed",
    args = { pools = { "tank" } },
    host = {
      ["kernel.zfs"] = { code = "unsupported", text = "this host has no ZFS" },
    },
    expect = { status = "critical", summary = "there is no pool tank", metrics = {} },
  },
  {
    name = "no pool",
    host = {
      ["kernel.zfs"] = { value = { pools = {} } },
    },
    expect = { status = "unknown", summary = "ZFS is loaded, and has no pool", metrics = {} },
  },
  {
    name = "no ZFS",
    host = {
      ["kernel.zfs"] = { code = "unsupported", text = "this host has no ZFS" },
    },
    expect = { status = "unknown", summary = "this host has no ZFS", metrics = {} },
  },
}
