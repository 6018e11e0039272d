local check = {
  summary = "Processes of one name: how many, how large, how old",
  needs = { "procs" },
  timeout = "15s",
  args = {
    name = { type = "string", required = true, help = "the name that the kernel holds: at most 15 characters" },
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
  local memory, cpu, youngest = 0, 0.0, nil
  for _, one in ipairs(procs.list) do
    memory, cpu = memory + one.resident_bytes, cpu + one.cpu_seconds
    youngest = math.min(youngest or one.age_seconds, one.age_seconds)
  end
  local told = words.count(procs.count, "process", "processes") .. " named " .. args.name
  if args.user then told = told .. " of user " .. args.user end
  if procs.count == 0 then return worst, told end
  worst = status.worse(worst, host.metric("memory", memory,
    { unit = "B", warn = args.memory_warn, crit = args.memory_crit, min = 0, labels = labels }))
  worst = status.worse(worst, host.metric("youngest", youngest,
    { unit = "s", warn = args.age_warn, crit = args.age_crit, min = 0, labels = labels }))
  -- Not a counter: a process that ends takes its time away.
  host.metric("cpu_time", cpu, { unit = "s", min = 0, labels = labels })
  host.metric("threads", procs.threads, { unit = "threads", min = 0, labels = labels })
  return worst, string.format("%s, %s of memory, youngest started %s ago", told, words.bytes(memory), words.duration(youngest))
end

return check
