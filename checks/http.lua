local check = {
  summary = "A web page or API: status, body, JSON values, response time",
  needs = { "http" },
  timeout = "40s",
  args = {
    url = { type = "string", required = true, help = "http:// or https://" },
    method = { type = "string", default = "GET", choices = { "GET", "HEAD", "POST", "PUT", "OPTIONS" }, help = "the method" },
    headers = { type = "list", default = {}, help = "lines such as Accept: text/plain" },
    body = { type = "string", help = "what to send" },
    status = { type = "list", default = { "2xx", "3xx" }, help = "statuses that are right: 200, 2xx ..." },
    contains = { type = "string", help = "plain text that the body must hold" },
    lacks = { type = "string", help = "plain text that the body must not hold" },
    json_path = { type = "string", help = "a value of a JSON body: data.items.1.state (lists count from 1)" },
    json_equals = { type = "string", help = "what that value must be" },
    json_warn = { type = "range", help = "for a value that is a number" },
    json_crit = { type = "range", help = "for a value that is a number" },
    redirects = { type = "integer", default = 3, min = 0, max = 10, help = "how many redirects are followed" },
    verify = { type = "boolean", default = true, help = "the certificate must be good" },
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

-- The value at a path of names and numbers with dots between, or nil.
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

local function judge_json(args, answer, host)
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

-- Status and the parts of the summary.
local function judge(args, answer, host)
  local told = { string.format("%d %s", answer.status, answer.reason) }
  if not is_right(answer.status, args.status) then
    return "critical", { told[1] .. ", expected " .. table.concat(args.status, " or ") }
  end
  if args.contains and not answer.body:find(args.contains, 1, true) then
    return "critical", { told[1], string.format("the body does not hold %q", args.contains) }
  end
  if args.lacks and answer.body:find(args.lacks, 1, true) then
    return "critical", { told[1], string.format("the body holds %q", args.lacks) }
  end
  local status = "ok"
  if args.json_path then
    status, told[2] = judge_json(args, answer, host)
  end
  return status, told
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
    if code == "denied" or code == "bad-arguments" then return "unknown", text end
    return "critical", text
  end
  local labels = { url = args.url }
  local time = host.metric("time", answer.seconds, { unit = "s", warn = args.warn, crit = args.crit, min = 0, labels = labels })
  host.metric("first_byte_time", answer.first_byte_seconds, { unit = "s", min = 0, labels = labels })
  host.metric("size", answer.body_bytes, { unit = "B", min = 0, labels = labels })
  host.metric("status", answer.status, { unit = "", labels = labels })
  local status, told = judge(args, answer, host)
  told[#told + 1] = string.format("%s in %s", words.bytes(answer.body_bytes), words.duration(answer.seconds))
  if answer.redirects > 0 then told[#told + 1] = "after a redirect to " .. answer.url end
  return worse(status, time), table.concat(told, ", ")
end

return check
