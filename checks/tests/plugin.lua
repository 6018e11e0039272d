return {
  {
    name = "a plugin of Nagios that is content",
    args = { name = "check_disk", slots = { "warn=20", "path=/" } },
    host = { plugin = { args = { "check_disk", { warn = "20", path = "/" } }, value = {
      status = "ok", summary = "DISK OK - free space: / 231 GB", exit_status = 0, seconds = 0.021, truncated = false,
      metrics = { { name = "/", value = 31709986816, unit = "B", kind = "gauge", warn = "243497277849", min = 0, max = 270553174016 } } } } },
    expect = {
      status = "ok", summary = "DISK OK - free space: / 231 GB",
      metrics = { ["check_disk{label=/}"] = { value = 31709986816, unit = "B", warn = "243497277849", max = 270553174016 }, plugin_time = 0.021 },
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
    name = "labels that are no names",
    args = { name = "check disk" },
    host = { plugin = { value = { status = "ok", summary = "OK", exit_status = 0, seconds = 0.5, truncated = false, metrics = {
      { name = "/", value = 1, unit = "", kind = "gauge" }, { name = "/var", value = 2, unit = "", kind = "gauge" },
      { name = "5 min", value = 3, unit = "", kind = "gauge" }, { name = "free space", value = 4, unit = "", kind = "gauge" },
      { name = "_", value = 5, unit = "", kind = "gauge" }, { name = "€", value = 6, unit = "", kind = "gauge" } } } } },
    expect = { status = "ok", metrics = {
      ["check_disk{label=/}"] = 1, ["check_disk{label=/var}"] = 2, ["check_disk{label=5 min}"] = 3, ["free_space{label=free space}"] = 4,
      ["check_disk{label=_}"] = 5, ["check_disk{label=€}"] = 6,
    } },
  },
  {
    name = "thresholds that are no ranges",
    args = { name = "check_disk" },
    host = { plugin = { value = { status = "critical", summary = "DISK CRITICAL - / 97%", exit_status = 2, seconds = 0.5, truncated = false,
      metrics = { { name = "root", value = 97, unit = "%", kind = "gauge", warn = "80%", crit = "90", min = 0, max = 100 } } } } },
    expect = {
      status = "critical", summary = "DISK CRITICAL - / 97%", output = "warn of root is left out: 80%\n",
      metrics = { root = { value = 97, unit = "%", crit = "90", max = 100 } },
    },
  },
  {
    name = "an agent that took a line for the status",
    args = { name = "check_cluster" },
    host = { plugin = { value = { status = "ok", summary = "all is well", exit_status = 2, seconds = 0.5, truncated = false, metrics = {} } } },
    expect = { status = "critical", summary = "all is well (exit status 2)" },
  },
  {
    name = "output that was cut",
    args = { name = "check_many" },
    host = { plugin = { value = { status = "ok", summary = "OK", exit_status = 0, seconds = 0.5, truncated = true, output_bytes = 70000,
      metrics_total = 3, metrics = { { name = "a", value = 1, unit = "", kind = "gauge" } } } } },
    expect = {
      status = "ok", summary = "OK", truncated = { output = 70000, metrics = 3 },
      output = "the output was cut: it has 70000 bytes\n2 of 3 figures of the plugin cannot be read, or are too many\n",
    },
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
