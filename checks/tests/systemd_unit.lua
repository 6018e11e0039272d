local running = {
  unit = "nginx.service", load_state = "loaded", active_state = "active", sub_state = "running", unit_file_state = "enabled",
  description = "A web server", main_pid = 901, restarts = 0, since_at = 1699913600.0, result = "success", memory_bytes = 5242880, tasks = 3,
}
local failed = {
  unit = "nginx.service", load_state = "loaded", active_state = "failed", sub_state = "failed", unit_file_state = "enabled",
  description = "A web server", main_pid = 0, restarts = 5, since_at = 1699999940.0, result = "exit-code",
}

return {
  {
    name = "runs",
    args = { unit = "nginx" },
    host = { systemd = { args = { "nginx" }, value = running } },
    expect = {
      status = "ok", summary = "nginx.service is active (running) for 1 d 0 h",
      metrics = { ["restarts{unit=nginx.service}"] = 0, ["memory{unit=nginx.service}"] = { value = 5242880, unit = "B" }, ["tasks{unit=nginx.service}"] = 3 },
    },
  },
  {
    name = "has failed",
    args = { unit = "nginx.service" },
    host = { systemd = { value = failed } },
    expect = { status = "critical", summary = "nginx.service is failed (failed) for 1 min 0 s, result exit-code" },
  },
  {
    name = "is on its way",
    args = { unit = "nginx.service" },
    host = { systemd = { value = { unit = "nginx.service", active_state = "activating", sub_state = "auto-restart", result = "exit-code" } } },
    expect = { status = "warning", summary = "nginx.service is activating (auto-restart)", metrics = {} },
  },
  {
    name = "was restarted too often",
    args = { unit = "nginx.service", states = { "active", "failed" }, restarts_warn = "3" },
    host = { systemd = { value = failed } },
    expect = { status = "warning", metrics = { ["restarts{unit=nginx.service}"] = { value = 5, warn = "3" } } },
  },
  {
    name = "does not exist",
    args = { unit = "nginy.service" },
    host = { systemd = { code = "not-found", text = "this host has no unit nginy.service" } },
    expect = { status = "critical", summary = "this host has no unit nginy.service", metrics = {} },
  },
  {
    name = "no unit has failed",
    host = { systemd_failed = { value = { units = {}, count = 0 } } },
    expect = { status = "ok", summary = "no unit has failed", metrics = { failed_units = { value = 0, unit = "units" } } },
  },
  {
    name = "two have",
    host = { systemd_failed = { value = { units = { "a.service", "b.timer" }, count = 2 } } },
    expect = { status = "critical", summary = "2 units have failed: a.service, b.timer" },
  },
  {
    name = "no systemd",
    host = { systemd_failed = { code = "unsupported", text = "systemctl: System has not been booted with systemd" } },
    expect = { status = "unknown", summary = "systemctl: System has not been booted with systemd", metrics = {} },
  },
}
