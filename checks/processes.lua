local check = {
  summary = "Number of processes, of zombies, and of processes that wait for disks",
  needs = { "procs" },
  every = "1m",
  timeout = "15s",
  args = {
    warn = { type = "range", default = "2000", help = "processes in all" },
    crit = { type = "range", default = "10000", help = "processes in all" },
    zombie_warn = { type = "range", default = "5", help = "ended processes that their parent has not reaped" },
    zombie_crit = { type = "range", default = "50", help = "ended processes that their parent has not reaped" },
    stuck_warn = { type = "range", default = "10", help = "processes in uninterruptible sleep" },
    stuck_crit = { type = "range", default = "50", help = "processes in uninterruptible sleep" },
  },
}

function check.run(args, host)
  local words, status = require "words", require "status"
  local procs, _, text = host.procs { limit = 1 }
  if not procs then return "unknown", text end
  local states = procs.by_state
  local all = host.metric("processes", procs.count, { unit = "processes", warn = args.warn, crit = args.crit, min = 0 })
  local zombies = host.metric("zombies", states.Z, { unit = "processes", warn = args.zombie_warn, crit = args.zombie_crit, min = 0 })
  local stuck = host.metric("stuck", states.D, { unit = "processes", warn = args.stuck_warn, crit = args.stuck_crit, min = 0 })
  host.metric("running", states.R, { unit = "processes", min = 0 })
  host.metric("threads", procs.threads, { unit = "threads", min = 0 })
  local largest = procs.list[1]
  local summary = string.format("%s, %s, %d running, %d stuck", words.count(procs.count, "process", "processes"),
    words.count(states.Z, "zombie", "zombies"), states.R, states.D)
  if largest then
    summary = string.format("%s; largest is %s with %s", summary, largest.name, words.bytes(largest.resident_bytes))
  end
  return status.worse(all, status.worse(zombies, stuck)), summary
end

return check
