-- Comparing the words for states. Pure; no host.
local status = {}

local RANK = { ok = 0, unknown = 1, warning = 2, critical = 3 }

-- The worse of two.
function status.worse(one, other)
  return RANK[other] > RANK[one] and other or one
end

return status
