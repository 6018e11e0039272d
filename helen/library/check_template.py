"""Hold the texts that `helen check new` writes: a small check that runs anywhere, and its tests."""

from __future__ import annotations

CHECK = """---@type equus.Check
local check = {
  summary = "@NAME@: what it measures, in one line",
  needs = { "load" },
  -- With `every` it runs on each agent by default; without, only where it is assigned.
  timeout = "10s",
  args = {
    warn = { type = "range", default = "4", help = "load of one processor" },
    crit = { type = "range", default = "8", help = "load of one processor" },
  },
}

---@param host equus.Host
function check.run(args, host)
  -- A host call answers a value, or nil, a code and a sentence. docs/checks.rst lists them all.
  local load, code, text = host.load()
  if not load then return "unknown", text end
  -- With no status returned it is the worst of the metrics' thresholds, and the summary is written from them.
  host.metric("load_per_cpu", load.one / load.cpus, { unit = "load", warn = args.warn, crit = args.crit })
end

return check
"""

TESTS = """return {
  {
    name = "quiet",
    host = { load = { value = { one = 0.5, five = 0.4, fifteen = 0.3, running = 1, total = 90, cpus = 2 } } },
    expect = { status = "ok", metrics = { load_per_cpu = 0.25 } },
  },
  {
    name = "busy",
    args = { warn = "1", crit = "2" },
    host = { load = { value = { one = 6, five = 4, fifteen = 3, running = 7, total = 90, cpus = 2 } } },
    expect = { status = "critical", metrics = { load_per_cpu = { value = 3, crit = "2" } } },
  },
  {
    name = "the host does not tell",
    host = { load = { code = "denied", text = "not granted" } },
    expect = { status = "unknown", summary = "not granted", metrics = {} },
  },
}
"""


def check_of(name: str) -> str:
    return CHECK.replace("@NAME@", name)
