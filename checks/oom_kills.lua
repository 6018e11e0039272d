local check = {
  summary = "Programs that the kernel has killed because memory was used up",
  needs = { "kernel" },
  timeout = "20s",
  args = {
    warn = { type = "range", help = "programs killed in the last minutes" },
    crit = { type = "range", default = "0", help = "programs killed in the last minutes" },
  },
}

function check.run(args, host)
  local words = require "words"
  local counters, _, text = host.kernel.vmstat()
  if not counters then return "unknown", text end
  local all = counters.oom_kill
  if not all then return "unknown", "this kernel does not count them (before Linux 4.13)" end
  local lately = require("recent").growth(host, "oom", all)
  local status = host.metric("killed_lately", lately, { unit = "programs", warn = args.warn, crit = args.crit, min = 0 })
  host.metric("killed", all, { unit = "c", kind = "counter" })
  if lately == 0 then return status, string.format("none in the last minutes, %.0f since the start", all) end
  return status, words.count(lately, "program was", "programs were") .. " killed because memory was used up: see dmesg for their names"
end

return check
