-- Asks HTTP APIs for JSON documents, by the arguments url, user and password, token, verify and ca of a check. A login goes to
-- no other host in plain text, and follows no redirect.
local api = {}

-- Codes of failures that lie with the check or its arguments, and say nothing about the server.
local OURS = { denied = true, ["bad-arguments"] = true, unsupported = true, ["too-large"] = true, budget = true }

-- Returns the status and the summary for a failure.
function api.verdict(code, text)
  return OURS[code] and "unknown" or "critical", text
end

-- Returns the headers of a request, or nil, code, text if the login would be readable on its way.
function api.headers(args)
  local headers = { accept = "application/json" }
  if not (args.password or args.token) then return headers end
  local private = require "private"
  local name, scheme = private.parts(args.url)
  if scheme ~= "https" and not private.is_here(name) then
    return nil, "bad-arguments", "the login would go to another host in plain text: give an https url"
  end
  if args.token then
    headers.authorization = "Bearer " .. args.token
  else
    headers.authorization = "Basic " .. require("bytes").base64((args.user or "") .. ":" .. args.password)
  end
  return headers
end

-- Says what a status other than 200 means. Returns code, text.
local function refusal(args, answer, url)
  if answer.status == 401 or answer.status == 403 then
    local advice = (args.password or args.token) and "check the login, and what it may read" or "give a login"
    return "bad-arguments", string.format("%s refuses access (%d): %s", url, answer.status, advice)
  end
  if answer.status == 404 then return "unsupported", url .. " does not exist there (404): check the url" end
  if answer.status >= 300 and answer.status < 400 then
    return "unsupported", string.format("%s leads on to another address (%d): give that one as url", url, answer.status)
  end
  return "failed", string.format("%s answers %d %s", url, answer.status, answer.reason)
end

-- Sends a request. asked: method, body, headers, timeout (each optional). Returns the answer with status 200, or nil, code, text.
function api.send(host, args, path, asked)
  asked = asked or {}
  local headers, code, text = api.headers(args)
  if not headers then return nil, code, text end
  for name, value in pairs(asked.headers or {}) do headers[name] = value end
  -- A path that a server names could lead the login to another host: "@other" behind "https://this".
  if path ~= "" and path:sub(1, 1) ~= "/" then return nil, "protocol", string.format("the server names %q, which is no path", path) end
  local url = args.url:gsub("/+$", "") .. path
  local answer
  answer, code, text = host.http {
    url = url, method = asked.method, body = asked.body, headers = headers, verify = args.verify, ca = args.ca, redirects = 0,
    timeout = asked.timeout or 10,
  }
  if not answer then return nil, code, text end
  if answer.status ~= 200 then return nil, refusal(args, answer, url) end
  if answer.truncated then return nil, "too-large", url .. " answers with more than 1 MiB" end
  if answer.body_fault and answer.body_fault ~= "" then return nil, "protocol", string.format("the answer of %s cannot be read: %s", url, answer.body_fault) end
  return answer
end

-- Returns the JSON document (a table) that answers a request, and the seconds it took; or nil, code, text.
function api.get(host, args, path, asked)
  local answer, code, text = api.send(host, args, path, asked)
  if not answer then return nil, code, text end
  local document, why = require("json").decode(answer.body)
  if type(document) ~= "table" then
    return nil, "protocol", string.format("%s%s answers with what is no JSON document (%s)", args.url, path, why or "a single value")
  end
  return document, answer.seconds
end

return api
