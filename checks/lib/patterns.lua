-- Names against lists of shell-like patterns (* and ?), as arguments of checks give them. Pure text; no host.
local patterns = {}

-- Whether a whole name fits one pattern.
function patterns.fits(name, pattern)
  local lua = pattern:gsub("[%^%$%(%)%%%.%[%]%+%-]", "%%%0"):gsub("%*", ".*"):gsub("%?", ".")
  return name:find("^" .. lua .. "$") ~= nil
end

-- Whether a name fits any of a list; an empty list fits nothing.
function patterns.any(name, list)
  for _, pattern in ipairs(list) do
    if patterns.fits(name, pattern) then return true end
  end
  return false
end

return patterns
