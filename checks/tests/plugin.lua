return {
  {
    name = "a plugin of Nagios that is content",
    args = { name = "check_disk", slots = { "warn=20", "path=/" } },
    host = { plugin = { args = { "check_disk", { warn = "20", path = "/" } }, value = {
      status = "ok", summary = "DISK OK - free space: / 231 GB", exit_status = 0, seconds = 0.021, truncated = false,
      metrics = { { name = "/", value = 31709986816, unit = "B", kind = "gauge", warn = "243497277849", min = 0, max = 270553174016 } } } } },
    expect = {
      status = "ok", summary = "DISK OK - free space: / 231 GB",
      metrics = { ["_{label=/}"] = { value = 31709986816, unit = "B", warn = "243497277849", max = 270553174016 }, plugin_time = 0.021 },
    },
  },
  {
    name = "one that complains, at length",
    args = { name = "check_load" },
    host = { plugin = { args = { "check_load", {} }, value = {
      status = "warning", summary = "WARNING - load average: 8.49", output = "the long text", exit_status = 1, seconds = 0.021, truncated = false,
      metrics = { { name = "load1", value = 8.49, unit = "", kind = "gauge", warn = "5.000", crit = "10.000" } } } } },
    expect = { status = "warning", output = "the long text\n", metrics = { load1 = { value = 8.49, warn = "5.000", crit = "10.000" } } },
  },
  {
    name = "an agent plugin with a figure that is text",
    args = { name = "agent_plugin" },
    host = { plugin = { value = { status = "critical", summary = "it is down", exit_status = 0, seconds = 0.5, truncated = false,
      metrics = { { name = "state", value = "down", unit = "", kind = "gauge" }, { name = "requests", value = 12, unit = "c", kind = "counter" } } } } },
    expect = { status = "critical", summary = "it is down", metrics = { requests = { value = 12, kind = "counter" } } },
  },
  {
    name = "too slow",
    args = { name = "check_slow" },
    host = { plugin = { code = "timeout", text = "plugin check_slow timed out after 30 s" } },
    expect = { status = "unknown", summary = "plugin check_slow timed out after 30 s", metrics = {} },
  },
  {
    name = "nobody allows it",
    args = { name = "rm" },
    host = { plugin = { code = "denied", text = "/etc/equus/policy.toml names no plugin rm" } },
    expect = { status = "unknown", summary = "/etc/equus/policy.toml names no plugin rm", metrics = {} },
  },
  {
    name = "slots that are none",
    args = { name = "check_disk", slots = { "20" } },
    expect = { status = "unknown", summary = "slots: 20 is no NAME=VALUE", metrics = {} },
  },
}
