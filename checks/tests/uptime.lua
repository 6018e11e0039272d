return {
  {
    name = "up for days",
    host = { uptime = { value = { seconds = 1036800.25, booted_at = 1698963199.75 } } },
    expect = {
      status = "ok", summary = "up for 12 d 0 h",
      metrics = { uptime = { value = 1036800.25, unit = "s", warn = "600:" } },
    },
  },
  {
    name = "just restarted",
    host = { uptime = { value = { seconds = 75, booted_at = 1699999925 } } },
    expect = { status = "warning", summary = "up for 1 min 15 s" },
  },
  {
    name = "up for too long to have its kernel mended",
    args = { crit = "864000" },
    host = { uptime = { value = { seconds = 1036800, booted_at = 1698963200 } } },
    expect = { status = "critical" },
  },
  {
    name = "not granted",
    host = { uptime = { code = "denied", text = 'this host does not grant "host"' } },
    expect = { status = "unknown", summary = 'this host does not grant "host"', metrics = {} },
  },
}
