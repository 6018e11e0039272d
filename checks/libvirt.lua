local check = {
  summary = "Virtual machines of libvirt (KVM): running, required, crashed, paused",
  needs = { "program" },
  timeout = "60s",
  args = {
    program = { type = "string", default = "virsh", help = "its name in the host's policy: virsh --readonly list --all" },
    machines = { type = "list", default = {}, help = "names of machines that have to run; of a name with *, all that fit it" },
    ignore = { type = "list", default = {}, help = "names of machines that are not judged; * and ? are wildcards" },
    warn = { type = "range", help = "running machines" },
    crit = { type = "range", help = "running machines" },
  },
}

local STATES = { ["running"] = "running", ["idle"] = "running", ["paused"] = "paused", ["in shutdown"] = "stopped", ["shut off"] = "stopped", ["crashed"] = "crashed",
  ["pmsuspended"] = "paused", ["dying"] = "crashed", ["no state"] = "running" }

-- Returns { name, state } of each machine, or nil if that is no list of virsh.
local function read(text)
  local found, headed = {}, false
  for line in text:gmatch("[^\n]+") do
    if line:find("^ *Id +Name +State%s*$") then
      headed = true
    elseif headed and not line:find("^ *%-%-%-+%s*$") then
      local name, state = line:match("^ *[%d-]+ +(.-)  +(%l[%l ]-)%s*$")
      if not name then name, state = line:match("^ *[%d-]+ +(%S+) +(%l[%l ]-)%s*$") end
      if not name then return nil end
      found[#found + 1] = { name = name, state = state }
    end
  end
  return headed and found or nil
end

function check.run(args, host)
  local worse, words, patterns = require("status").worse, require "words", require "patterns"
  local answer, code, text = host.program { name = args.program, timeout = 40, limit = 1048576 }
  if not answer then return code == "timeout" and "critical" or "unknown", text end
  if answer.exit_status ~= 0 then
    return "critical", string.format("%s fails (exit status %d): %s", args.program, answer.exit_status, answer.errors:match("[^\r\n]+") or "it says nothing")
  end
  local machines = read(answer.text)
  if not machines then return "unknown", string.format("the program %s writes no list of virsh", args.program) end
  -- Without rights virsh lists nothing, and so it does for a user of its own: that says nothing of the host's machines.
  if #machines == 0 and #args.machines == 0 and not require("lacking").is_judged(args.warn, args.crit) then
    return "unknown", string.format("the program %s lists no machine: see which libvirt it asks (--connect qemu:///system), or give machines, warn or crit", args.program)
  end
  local counts, worst, bad = { running = 0, paused = 0, stopped = 0, crashed = 0 }, "ok", {}
  for _, one in ipairs(machines) do
    local kind = STATES[one.state]
    local required, judged = patterns.any(one.name, args.machines), not patterns.any(one.name, args.ignore)
    if kind then counts[kind] = counts[kind] + 1 end
    if judged and kind ~= "running" and (required or kind ~= "stopped") then
      bad[#bad + 1] = string.format("%s is %s", one.name, one.state)
      worst = worse(worst, (required or kind == "crashed") and "critical" or kind and "warning" or "unknown")
    end
  end
  for _, wanted in ipairs(args.machines) do
    local seen = false
    for _, one in ipairs(machines) do seen = seen or patterns.fits(one.name, wanted) end
    if not seen then worst, bad[#bad + 1] = "critical", "there is no machine " .. wanted end
  end
  worst = worse(worst, host.metric("running", counts.running, { unit = "machines", warn = args.warn, crit = args.crit, min = 0 }))
  for _, kind in ipairs { "paused", "stopped", "crashed" } do host.metric(kind, counts[kind], { unit = "machines", min = 0 }) end
  bad[#bad + 1] = string.format("%s running, %d stopped", words.count(counts.running, "machine", "machines"), counts.stopped)
  return worst, words.list(bad, 6)
end

return check
