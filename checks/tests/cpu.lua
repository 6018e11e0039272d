-- Figures of a two-processor virtual machine, and of the same under pressure.
local idle = {
  window_seconds = 60.0, cpus = 2, busy_percent = 14.634, user_percent = 4.878, nice_percent = 0.0, system_percent = 9.756,
  idle_percent = 85.366, iowait_percent = 0.0, irq_percent = 0.0, softirq_percent = 0.0, steal_percent = 0.0, guest_percent = 0.0,
  context_switches = 4711000, forks = 6424, processes_running = 2, processes_blocked = 0,
}
local busy = {
  window_seconds = 59.98, cpus = 2, busy_percent = 93.2, user_percent = 71.4, nice_percent = 0.0, system_percent = 18.3,
  idle_percent = 1.7, iowait_percent = 5.1, irq_percent = 0.0, softirq_percent = 0.5, steal_percent = 3.0, guest_percent = 0.0,
  context_switches = 91000000, forks = 120000, processes_running = 9, processes_blocked = 3,
}

return {
  {
    name = "nearly idle",
    host = { cpu = { args = { 1 }, value = idle } },
    expect = {
      status = "ok",
      summary = "busy 14.6 % over 1 min 0 s on 2 processors (user 4.9 %, system 9.8 %, waiting for disks 0.0 %)",
      metrics = {
        busy = { value = 14.634, unit = "%", warn = "90", crit = "98", min = 0, max = 100 },
        system = 9.756, steal = 0, running = { value = 2, unit = "processes" },
        context_switches = { value = 4711000, unit = "c", kind = "counter" },
      },
    },
  },
  {
    name = "busy is a warning",
    host = { cpu = { value = busy } },
    expect = {
      status = "warning",
      summary = "busy 93.2 % over 60.0 s on 2 processors (user 71.4 %, system 18.3 %, waiting for disks 5.1 %)",
      metrics = { busy = 93.2, blocked = 3 },
    },
  },
  {
    name = "a limit of its own for what the hypervisor takes",
    args = { steal_crit = "2", window = "30s" },
    host = { cpu = { args = { 30 }, value = busy } },
    expect = { status = "critical", metrics = { steal = { value = 3.0, crit = "2" } } },
  },
  {
    name = "waiting for disks counts on its own",
    args = { iowait_warn = 5, warn = "95" },
    host = { cpu = { value = busy } },
    expect = { status = "warning", metrics = { iowait = { value = 5.1, warn = "5" } } },
  },
  {
    name = "not granted",
    host = { cpu = { code = "denied", text = 'this host does not grant "cpu"' } },
    expect = { status = "unknown", summary = 'this host does not grant "cpu"', metrics = {} },
  },
  {
    name = "a window that is too long",
    args = { window = "1h" },
    expect = { status = "unknown", reason = "bad-arguments", metrics = {} },
  },
}
