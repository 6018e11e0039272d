local check = {
  summary = "Processor time in use, of all processors together",
  needs = { "cpu" },
  every = "1m",
  timeout = "15s",
  args = {
    window = { type = "duration", default = "1s", min = 0.1, max = 600, help = "look back at least this far" },
    warn = { type = "range", default = "90", help = "busy time in percent" },
    crit = { type = "range", default = "98", help = "busy time in percent" },
    iowait_warn = { type = "range", help = "time waiting for disks, in percent" },
    iowait_crit = { type = "range", help = "time waiting for disks, in percent" },
    steal_warn = { type = "range", help = "time taken by the hypervisor, in percent" },
    steal_crit = { type = "range", help = "time taken by the hypervisor, in percent" },
  },
}

local PARTS = { "user", "nice", "system", "iowait", "irq", "softirq", "steal", "guest" }

function check.run(args, host)
  local words, status = require "words", require "status"
  local cpu, _, text = host.cpu(args.window)
  if not cpu then return "unknown", text end
  local worst = host.metric("busy", cpu.busy_percent, { unit = "%", warn = args.warn, crit = args.crit, min = 0, max = 100 })
  for _, part in ipairs(PARTS) do
    local limits = { unit = "%", min = 0, max = 100, warn = args[part .. "_warn"], crit = args[part .. "_crit"] }
    worst = status.worse(worst, host.metric(part, cpu[part .. "_percent"], limits))
  end
  host.metric("context_switches", cpu.context_switches, { unit = "c", kind = "counter" })
  host.metric("forks", cpu.forks, { unit = "c", kind = "counter" })
  host.metric("running", cpu.processes_running, { unit = "processes" })
  host.metric("blocked", cpu.processes_blocked, { unit = "processes" })
  return worst, string.format("busy %.1f %% over %s on %s (user %.1f %%, system %.1f %%, waiting for disks %.1f %%)",
    cpu.busy_percent, words.duration(cpu.window_seconds), words.count(cpu.cpus, "processor", "processors"),
    cpu.user_percent, cpu.system_percent, cpu.iowait_percent)
end

return check
