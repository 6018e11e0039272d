-- Sends one GET over a Unix socket. The request is HTTP/1.0, so that the body is not chunked and ends with the connection.
local unix_http = {}

local LONGEST = 1048576

-- Returns status and body, or nil, code, text.
function unix_http.get(host, socket, path, seconds)
  local answer, code, text = host.unix {
    path = socket, send = "GET " .. path .. " HTTP/1.0\r\nHost: localhost\r\nAccept: application/json\r\n\r\n",
    limit = LONGEST, timeout = seconds,
  }
  if not answer then return nil, code, text end
  local status, body = answer.received:match("^HTTP/1%.[01] (%d%d%d).-\r\n\r\n(.*)$")
  if not status then return nil, "protocol", socket .. " does not speak HTTP" end
  if not answer.closed then return nil, "too-large", string.format("the answer to %s is not over after %d bytes", path, #body) end
  return tonumber(status), body
end

return unix_http
