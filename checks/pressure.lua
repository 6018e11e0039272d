local check = {
  summary = "Pressure: time that tasks wait for processors, memory and disks",
  needs = { "kernel" },
  timeout = "20s",
  args = {
    cpu_warn = { type = "range", help = "time in percent of the last five minutes in which a task waited for a processor" },
    cpu_crit = { type = "range", help = "time in percent in which a task waited for a processor" },
    memory_warn = { type = "range", default = "10", help = "time in percent of the last five minutes in which all tasks waited for memory" },
    memory_crit = { type = "range", default = "40", help = "time in percent in which all tasks waited for memory" },
    io_warn = { type = "range", default = "50", help = "time in percent of the last five minutes in which all tasks waited for disks" },
    io_crit = { type = "range", default = "90", help = "time in percent in which all tasks waited for disks" },
  },
}

-- What is judged: of processors, `some`; a whole host never waits for them.
local JUDGED = { { "cpu", "some", "processors" }, { "memory", "full", "memory" }, { "io", "full", "disks" } }

function check.run(args, host)
  local worse, short = require("status").worse, require("words").short
  local pressure, _, text = host.kernel.pressure()
  if not pressure then return "unknown", text end
  local worst, parts, bad, lacking = "ok", {}, {}, {}
  for _, judged in ipairs(JUDGED) do
    local kind, part, name = table.unpack(judged)
    local figures = pressure[kind] and pressure[kind][part]
    if figures and figures.percent_300s then
      local status = host.metric(kind, figures.percent_300s, { unit = "%", warn = args[kind .. "_warn"], crit = args[kind .. "_crit"], min = 0, max = 100 })
      worst = worse(worst, status)
      local list = status == "ok" and parts or bad
      list[#list + 1] = string.format("%s %% of the time for %s", short(figures.percent_300s), name)
      if figures.seconds then host.metric(kind .. "_time", figures.seconds, { unit = "s", kind = "counter" }) end
    else
      lacking[#lacking + 1] = name
    end
  end
  if #parts + #bad == 0 then return "unknown", "the kernel tells no pressure: it is built without it, or started with psi=0" end
  return require("lacking").verdict(worst, lacking, "waits " .. table.concat(#bad > 0 and bad or parts, ", "))
end

return check
