-- Tells of figures that are judged and that an answer lacks: nothing is known of them, so that it is no ok. Pure; no host.
local lacking = {}

-- Returns true if a figure is judged by these thresholds: "~:" alerts at nothing.
function lacking.is_judged(warn, crit)
  return (warn ~= nil and warn ~= "~:") or (crit ~= nil and crit ~= "~:")
end

-- Returns status and summary of an answer that lacks figures of these names: unknown at best, and said.
function lacking.verdict(status, names, summary)
  if #names == 0 then return status, summary end
  return require("status").worse(status, "unknown"), string.format("nothing is told of %s, %s", require("words").list(names, 4), summary)
end

return lacking
