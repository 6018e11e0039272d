local check = {
  summary = "A web page or API: status, body, JSON values, response time",
  needs = { "http" },
  timeout = "40s",
  args = {
    url = { type = "string", required = true, help = "http:// or https://" },
    method = { type = "string", default = "GET", choices = { "GET", "HEAD", "POST", "PUT", "OPTIONS" }, help = "the method" },
    headers = { type = "list", default = {}, help = "lines such as Accept: text/plain" },
    body = { type = "string", help = "the body of the request" },
    status = { type = "list", default = { "2xx", "3xx" }, help = "expected statuses: 200, 2xx ..." },
    contains = { type = "string", help = "plain text that the body must contain" },
    lacks = { type = "string", help = "plain text that the body must not contain" },
    json_path = { type = "string", help = "a value of a JSON body: data.items.1.state (lists count from 1)" },
    json_equals = { type = "string", help = "what that value must be" },
    json_warn = { type = "range", help = "for a value that is a number" },
    json_crit = { type = "range", help = "for a value that is a number" },
    redirects = { type = "integer", default = 3, min = 0, max = 10, help = "how many redirects are followed" },
    verify = { type = "boolean", default = true, help = "the certificate must be valid" },
    limit = { type = "duration", default = "10s", max = 30, help = "time it may take; more is critical" },
    warn = { type = "range", default = "2", help = "response time in seconds" },
    crit = { type = "range", default = "5", help = "response time in seconds" },
  },
}

local function headers_of(lines)
  local headers = {}
  for _, line in ipairs(lines) do
    local name, value = line:match("^([^:]+):%s*(.*)$")
    if not name then return nil, "headers: " .. line .. " is no line of NAME: VALUE" end
    headers[name] = value
  end
  return headers
end

local function is_right(status, wanted)
  for _, one in ipairs(wanted) do
    if tostring(status) == one or one == string.format("%dxx", status // 100) then return true end
  end
  return false
end

-- Returns the value at a path of names and numbers with dots between, or nil.
local function value_at(document, path)
  local value = document
  for step in path:gmatch("[^.]+") do
    if type(value) ~= "table" then return nil end
    local inner = value[step]
    if inner == nil and math.tointeger(tonumber(step)) then inner = value[math.tointeger(tonumber(step))] end
    value = inner
  end
  return value
end

local function evaluate_json(args, answer, host)
  local value = value_at(answer.json, args.json_path)
  if value == nil then return "critical", "the JSON has no " .. args.json_path end
  if type(value) == "table" then return "unknown", args.json_path .. " is no single value" end
  if args.json_equals and tostring(value) ~= args.json_equals then
    return "critical", string.format("%s is %s, not %s", args.json_path, tostring(value), args.json_equals)
  end
  local status = "ok"
  if type(value) == "number" then
    status = host.metric("value", value, { unit = "", warn = args.json_warn, crit = args.json_crit, labels = { path = args.json_path } })
  elseif args.json_warn or args.json_crit then
    return "unknown", args.json_path .. " is no number"
  end
  return status, string.format("%s is %s", args.json_path, tostring(value))
end

-- True if the answer is a redirect that was not followed any more, and that was not asked for: a status of its own
-- in `status` does, or 3xx without 2xx. A redirect that leads nowhere is no page.
local function leads_on(args, answer)
  local redirect = ({ [301] = true, [302] = true, [303] = true, [307] = true, [308] = true })[answer.status]
  if not redirect or not answer.headers.location or args.redirects == 0 then return false end
  local classes = {}
  for _, one in ipairs(args.status) do
    if one == tostring(answer.status) then return false end
    classes[one] = true
  end
  return not classes["3xx"] or classes["2xx"] == true
end

-- Returns why the body was not read whole, or nil. Agents of earlier versions do not unpack it, and do not say so.
local function body_fault(answer)
  if answer.body_fault and answer.body_fault ~= "" then return answer.body_fault end
  local encoding = answer.headers["content-encoding"]
  if not answer.body_fault and encoding and encoding ~= "identity" and answer.body_bytes > 0 then return "its encoding is " .. encoding end
  return answer.truncated and "it is longer than 1 MiB" or nil
end

-- Returns why a text that was not found may be in the body all the same, or nil.
local function maybe_there(answer, text)
  local fault = body_fault(answer)
  if fault then return fault end
  local is_ascii = not text:find("[\x80-\xff]")
  if not is_ascii and answer.body:find("\u{FFFD}", 1, true) then return "some of its bytes are not of its charset" end
end

-- Returns the status of `contains` and `lacks`, and a sentence if it is not ok.
local function evaluate_text(args, answer)
  if args.lacks and answer.body:find(args.lacks, 1, true) then return "critical", string.format("the body holds %q", args.lacks) end
  for _, name in ipairs { "contains", "lacks" } do
    local text = args[name]
    if text and not answer.body:find(text, 1, true) then
      local why = maybe_there(answer, text)
      if why then return "unknown", string.format("%s %q: the body cannot be read whole: %s", name, text, why) end
      if name == "contains" then return "critical", string.format("the body does not hold %q", text) end
    end
  end
  return "ok"
end

-- Returns the status and the parts of the summary.
local function evaluate(args, answer, host)
  local parts = { string.format("%d %s", answer.status, answer.reason) }
  if leads_on(args, answer) then
    return "critical", { parts[1] .. ", the redirects go in a circle or exceed the limit of " .. args.redirects }
  end
  if not is_right(answer.status, args.status) then
    return "critical", { parts[1] .. ", expected " .. table.concat(args.status, " or ") }
  end
  local status, sentence = evaluate_text(args, answer)
  if status ~= "ok" then return status, { parts[1], sentence } end
  if args.json_path then
    status, parts[2] = evaluate_json(args, answer, host)
  end
  return status, parts
end

function check.run(args, host)
  local words, worse = require "words", require("status").worse
  local headers, fault = headers_of(args.headers)
  if not headers then return "unknown", fault end
  local answer, code, text = host.http {
    url = args.url, method = args.method, headers = headers, body = args.body, timeout = args.limit,
    redirects = args.redirects, verify = args.verify, json = args.json_path ~= nil,
  }
  if not answer then
    if code == "denied" or code == "bad-arguments" or code == "unsupported" then return "unknown", text end
    return "critical", text
  end
  local labels = { url = args.url }
  local time = host.metric("time", answer.seconds, { unit = "s", warn = args.warn, crit = args.crit, min = 0, labels = labels })
  host.metric("first_byte_time", answer.first_byte_seconds, { unit = "s", min = 0, labels = labels })
  host.metric("size", answer.body_bytes, { unit = "B", min = 0, labels = labels })
  host.metric("status", answer.status, { unit = "", labels = labels })
  local status, parts = evaluate(args, answer, host)
  parts[#parts + 1] = string.format("%s in %s", words.bytes(answer.body_bytes), words.duration(answer.seconds))
  if answer.redirects > 0 then parts[#parts + 1] = "after a redirect to " .. answer.url end
  return worse(status, time), table.concat(parts, ", ")
end

return check
