local whole = {
  name = "md0", level = "raid1", active = true, read_only = false, members = 2, working = 2, failed = {}, spares = {}, degraded = false,
  action = "", progress_percent = 100.0,
}
local broken = {
  name = "md1", level = "raid5", active = true, read_only = false, members = 3, working = 2, failed = { "sdc1" }, spares = {}, degraded = true,
  action = "", progress_percent = 100.0,
}
local rebuilding = {
  name = "md1", level = "raid5", active = true, read_only = false, members = 3, working = 2, failed = {}, spares = {}, degraded = true,
  action = "recovery", progress_percent = 12.6,
}

return {
  {
    name = "all there",
    host = { raid = { value = { whole } } },
    expect = {
      status = "ok", summary = "md0 (raid1) has all 2 devices",
      metrics = { ["working{array=md0}"] = { value = 2, unit = "devices", max = 2 }, ["members{array=md0}"] = 2 },
    },
  },
  {
    name = "one disk has failed",
    host = { raid = { value = { whole, broken } } },
    expect = { status = "critical", summary = "md1 (raid5) is degraded: 2 of 3 devices work, failed sdc1" },
  },
  {
    name = "its successor is being filled",
    host = { raid = { value = { rebuilding } } },
    expect = {
      status = "critical", summary = "md1 (raid5) is degraded: 2 of 3 devices work; recovery at 12.6 %",
      metrics = { ["progress{array=md1}"] = { value = 12.6, unit = "%" } },
    },
  },
  {
    name = "a resync of a whole array",
    host = { raid = { value = { { name = "md0", level = "raid1", active = true, read_only = false, members = 2, working = 2, failed = {},
      spares = {}, degraded = false, action = "resync", progress_percent = 50.0 } } } },
    expect = { status = "warning", summary = "md0 (raid1): resync at 50.0 %" },
  },
  {
    name = "an array that did not start",
    host = { raid = { value = { { name = "md127", level = "", active = false, read_only = false, members = 0, working = 0, failed = {},
      spares = { "sdb1" }, degraded = false, action = "", progress_percent = 100.0 } } } },
    expect = { status = "critical", summary = "md127 is not active" },
  },
  {
    name = "all disks of an array have gone",
    host = { raid = { value = { whole, { name = "md7", level = "raid5", active = false, state = "broken", read_only = false, members = 4,
      working = 0, failed = { "sda", "sdb", "sdc", "sdd" }, spares = {}, degraded = true, action = "", progress_percent = 100.0 } } } },
    expect = { status = "critical", summary = "md7 is broken (raid5), failed sda, sdb, sdc, sdd" },
  },
  {
    name = "a state that is not known",
    host = { raid = { value = { { name = "md7", level = "", active = false, state = "frozen", read_only = false, members = 2,
      working = 2, failed = {}, spares = {}, degraded = false, action = "", progress_percent = 100.0 } } } },
    expect = { status = "unknown", summary = "md7 is frozen" },
  },
  {
    name = "a container of firmware RAID and its array",
    host = { raid = { value = {
      { name = "md127", level = "", active = false, state = "inactive", container = true, read_only = false, members = 0, working = 0,
        failed = {}, spares = { "sda", "sdb" }, degraded = false, action = "", progress_percent = 100.0 },
      whole } } },
    expect = { status = "ok", summary = "md0 (raid1) has all 2 devices" },
  },
  {
    name = "an array of a container that did not start",
    host = { raid = { value = {
      { name = "md127", level = "", active = false, state = "inactive", container = true, read_only = false, members = 0, working = 0,
        failed = {}, spares = { "sda", "sdb" }, degraded = false, action = "", progress_percent = 100.0 },
      { name = "md126", level = "", active = false, state = "inactive", read_only = false, members = 2, working = 2,
        failed = {}, spares = {}, degraded = false, action = "", progress_percent = 100.0 } } } },
    expect = { status = "critical", summary = "md126 is not active" },
  },
  {
    name = "no arrays",
    host = { raid = { code = "unsupported", text = "/proc/mdstat does not exist on this host" } },
    expect = { status = "ok", summary = "this host has no software RAID", metrics = {} },
  },
  {
    name = "no arrays where there should be some",
    args = { none = "critical" },
    host = { raid = { value = {} } },
    expect = { status = "critical", summary = "this host has no software RAID" },
  },
  {
    name = "not granted",
    host = { raid = { code = "denied", text = 'this host does not grant "host"' } },
    expect = { status = "unknown", summary = 'this host does not grant "host"', metrics = {} },
  },
}
