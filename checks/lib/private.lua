-- Whether a secret may be said to a server: only where nobody else can hear it. Pure; no host.
local private = {}

-- Whether a host, as an argument names it, is this one.
function private.is_here(name)
  return name == "localhost" or name == "::1" or name == "[::1]" or name:find("^127%.%d+%.%d+%.%d+$") ~= nil
end

-- The host and the scheme of a URL.
function private.parts(url)
  local scheme, rest = url:match("^(%a+)://([^/?#]*)")
  if not scheme then return "", "" end
  return rest:match("^(%[[%x:.]+%])") or rest:match("^([^:]*)"), scheme:lower()
end

return private
