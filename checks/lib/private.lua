-- Tells if a secret may be sent to a server: only if no other host can read it on the way. Pure; no host.
local private = {}

-- True if the name or address of an argument is this host.
function private.is_here(name)
  return name == "localhost" or name == "::1" or name == "[::1]" or name:find("^127%.%d+%.%d+%.%d+$") ~= nil
end

-- Returns the host and the scheme of a URL.
function private.parts(url)
  local scheme, rest = url:match("^(%a+)://([^/?#]*)")
  if not scheme then return "", "" end
  return rest:match("^(%[[%x:.]+%])") or rest:match("^([^:]*)"), scheme:lower()
end

return private
