-- Matches names with lists of shell-like patterns (* and ?) from the arguments of checks. Pure text; no host.
local patterns = {}

-- True if a whole name matches one pattern.
function patterns.fits(name, pattern)
  local lua = pattern:gsub("[%^%$%(%)%%%.%[%]%+%-]", "%%%0"):gsub("%*", ".*"):gsub("%?", ".")
  return name:find("^" .. lua .. "$") ~= nil
end

-- True if a name matches any pattern of a list. An empty list matches nothing.
function patterns.any(name, list)
  for _, pattern in ipairs(list) do
    if patterns.fits(name, pattern) then return true end
  end
  return false
end

return patterns
