local check = {
  summary = "Load averages, by default for each processor",
  needs = { "load" },
  every = "1m",
  timeout = "10s",
  args = {
    per_cpu = { type = "boolean", default = true, help = "divide by the number of processors before comparing" },
    warn_1 = { type = "range", default = "10", help = "mean of 1 minute" },
    crit_1 = { type = "range", default = "20", help = "mean of 1 minute" },
    warn_5 = { type = "range", default = "4", help = "mean of 5 minutes" },
    crit_5 = { type = "range", default = "8", help = "mean of 5 minutes" },
    warn_15 = { type = "range", default = "2", help = "mean of 15 minutes" },
    crit_15 = { type = "range", default = "4", help = "mean of 15 minutes" },
  },
}

function check.run(args, host)
  local words, status = require "words", require "status"
  local load, _, text = host.load()
  if not load then return "unknown", text end
  local share = args.per_cpu and load.cpus or 1
  local worst = "ok"
  for _, one in ipairs { { "1", load.one }, { "5", load.five }, { "15", load.fifteen } } do
    local minutes, value = one[1], one[2]
    local limits = { unit = "processes", min = 0, warn = args["warn_" .. minutes], crit = args["crit_" .. minutes] }
    worst = status.worse(worst, host.metric("load" .. minutes, value / share, limits))
  end
  host.metric("running", load.running, { unit = "processes" })
  return worst, string.format("load %.2f, %.2f, %.2f on %s", load.one, load.five, load.fifteen,
    words.count(load.cpus, "processor", "processors"))
end

return check
