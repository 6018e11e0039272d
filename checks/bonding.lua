local check = {
  summary = "Bonded network interfaces: links that are down, lost redundancy, links that come and go",
  needs = { "kernel" },
  timeout = "20s",
  args = {
    bonds = { type = "list", default = {}, help = "names of bonds that have to be there" },
    members_crit = { type = "range", help = "working links of a bond, such as 2:; by default a single lost one is a warning" },
    failures_warn = { type = "range", default = "1", help = "times that links of a bond went down in the last minutes" },
    failures_crit = { type = "range", help = "times that links of a bond went down in the last minutes" },
  },
}

-- Judges one bond. Returns the status, and a sentence if it is not in order.
local function judge(args, host, bond)
  local worse, words = require("status").worse, require "words"
  local labels, failures, down = { bond = bond.name }, 0, {}
  for _, member in ipairs(bond.members) do
    failures = failures + (member.failures or 0)
    if member.status ~= "up" then down[#down + 1] = member.name end
  end
  local worst = host.metric("working", bond.working, { unit = "links", crit = args.members_crit, min = 0, max = #bond.members, labels = labels })
  local lately = require("recent").growth(host, "failures of " .. bond.name, failures)
  local flapping = host.metric("failures", lately, { unit = "failures", warn = args.failures_warn, crit = args.failures_crit, min = 0, labels = labels })
  worst = worse(worst, flapping)
  if bond.status ~= "up" or bond.working == 0 then return "critical", bond.name .. " is down" end
  if #down > 0 then return worse(worst, "warning"), string.format("%s has lost %s (%.0f of %.0f links work)", bond.name, words.list(down, 4), bond.working, #bond.members) end
  if #bond.members < 2 then return worse(worst, "warning"), bond.name .. " has but one link" end
  if flapping ~= "ok" then return worst, string.format("links of %s went down %.0f times lately", bond.name, lately) end
  return worst, worst ~= "ok" and string.format("%s has %.0f of %.0f links", bond.name, bond.working, #bond.members) or nil
end

function check.run(args, host)
  local worse, words = require("status").worse, require "words"
  local bonds, code, text = host.kernel.bonds()
  if code == "unsupported" and #args.bonds > 0 then bonds = {} end
  if not bonds then return "unknown", text end
  local worst, bad, good, seen = "ok", {}, {}, {}
  for _, bond in ipairs(bonds) do
    local status, sentence = judge(args, host, bond)
    worst, bad[#bad + 1], seen[bond.name] = worse(worst, status), sentence, true
    good[#good + 1] = string.format("%s (%s, %s)", bond.name, bond.mode or "?", words.count(bond.working, "link", "links"))
  end
  for _, name in ipairs(args.bonds) do
    if not seen[name] then worst, bad[#bad + 1] = "critical", "there is no bond " .. name end
  end
  if #bad > 0 then return worst, words.list(bad, 5) end
  if #good == 0 then return "unknown", "this host has no bonded interface" end
  return worst, words.list(good, 5)
end

return check
