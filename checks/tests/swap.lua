local none = { total_bytes = 0, free_bytes = 0, used_bytes = 0, used_percent = 0.0, in_bytes = 0, out_bytes = 0 }
local some = {
  total_bytes = 2147479552, free_bytes = 805306368, used_bytes = 1342173184, used_percent = 62.5, in_bytes = 1048576, out_bytes = 2097152,
}

return {
  {
    name = "a host without swap",
    host = { swap = { value = none } },
    expect = { status = "ok", summary = "this host has no swap", metrics = { used = 0, total = 0 } },
  },
  {
    name = "a host that should have swap",
    args = { require_swap = true },
    host = { swap = { value = none } },
    expect = { status = "warning", summary = "this host has no swap" },
  },
  {
    name = "more than half in use",
    host = { swap = { value = some } },
    expect = {
      status = "warning", summary = "used 62.5 %, 768.0 MiB of 2.0 GiB free",
      metrics = { used = 62.5, free = 805306368, ["out"] = { value = 2097152, unit = "B", kind = "counter" } },
    },
  },
  {
    name = "over the critical limit",
    args = { crit = "60" },
    host = { swap = { value = some } },
    expect = { status = "critical" },
  },
  {
    name = "not granted",
    host = { swap = { code = "denied", text = 'this host does not grant "host"' } },
    expect = { status = "unknown", summary = 'this host does not grant "host"', metrics = {} },
  },
}
