-- Compares statuses. Pure; no host.
local status = {}

local RANK = { ok = 0, unknown = 1, warning = 2, critical = 3 }

-- Returns the worse of two statuses.
function status.worse(one, other)
  return RANK[other] > RANK[one] and other or one
end

return status
