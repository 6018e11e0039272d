local check = {
  summary = "Processes of one name: how many, how large, how old",
  needs = { "procs" },
  timeout = "15s",
  args = {
    name = { type = "string", required = true, help = "the name in the kernel: at most 15 characters" },
    user = { type = "string", help = "only those of this user" },
    warn = { type = "range", help = "number of processes" },
    crit = { type = "range", default = "1:", help = "number of processes" },
    memory_warn = { type = "range", help = "memory of all of them, in bytes" },
    memory_crit = { type = "range", help = "memory of all of them, in bytes" },
    age_warn = { type = "range", help = "age of the youngest in seconds: 300: tells of restarts in the last five minutes" },
    age_crit = { type = "range", help = "age of the youngest in seconds" },
  },
}

function check.run(args, host)
  local words, status = require "words", require "status"
  local procs, _, text = host.procs { name = args.name:sub(1, 15), user = args.user, limit = 200 }
  if not procs then return "unknown", text end
  local labels = { name = args.name }
  local worst = host.metric("processes", procs.count, { unit = "processes", warn = args.warn, crit = args.crit, min = 0, labels = labels })
  local memory, cpu, youngest, of = procs.resident_bytes, procs.cpu_seconds, procs.youngest_age_seconds, ""
  if not memory then  -- an agent that does not sum up all of them
    memory, cpu = 0, 0.0
    for _, one in ipairs(procs.list) do
      memory, cpu = memory + one.resident_bytes, cpu + one.cpu_seconds
      youngest = math.min(youngest or one.age_seconds, one.age_seconds)
    end
    if procs.count > #procs.list then of = string.format(" (figures of the %d largest)", #procs.list) end
  end
  local summary = words.count(procs.count, "process", "processes") .. " named " .. args.name
  if args.user then summary = summary .. " of user " .. args.user end
  if procs.count == 0 then return worst, summary end
  worst = status.worse(worst, host.metric("memory", memory,
    { unit = "B", warn = args.memory_warn, crit = args.memory_crit, min = 0, labels = labels }))
  worst = status.worse(worst, host.metric("youngest", youngest,
    { unit = "s", warn = args.age_warn, crit = args.age_crit, min = 0, labels = labels }))
  -- Not a counter: the sum falls when a process ends.
  host.metric("cpu_time", cpu, { unit = "s", min = 0, labels = labels })
  host.metric("threads", procs.threads, { unit = "threads", min = 0, labels = labels })
  return worst, string.format("%s, %s of memory, youngest started %s ago%s", summary, words.bytes(memory), words.duration(youngest), of)
end

return check
