local check = {
  summary = "A name resolves, to the expected values",
  needs = { "dns" },
  timeout = "20s",
  args = {
    name = { type = "string", required = true, help = "the name to ask for; for PTR an address" },
    type = { type = "string", default = "A", choices = { "A", "AAAA", "MX", "TXT", "NS", "CNAME", "SOA", "PTR" }, help = "the type of record" },
    server = { type = "string", help = "address of the name server; without it those of the host" },
    port = { type = "integer", default = 53, min = 1, max = 65535, help = "its port" },
    expect = { type = "list", default = {}, help = "values that must all be among the answers" },
    exact = { type = "boolean", default = false, help = "no other value may be among the answers" },
    absent = { type = "boolean", default = false, help = "the name must not exist" },
    limit = { type = "duration", default = "5s", max = 15, help = "time it may take; more is critical" },
    warn = { type = "range", default = "0.5", help = "time in seconds" },
    crit = { type = "range", default = "2", help = "time in seconds" },
  },
}

-- Returns the eight groups of an IPv6 address without leading zeros, or nil if the text is none.
local function ipv6(text)
  local front, a, b, c, d = text:match("^(.*:)(%d+)%.(%d+)%.(%d+)%.(%d+)$")
  if front then
    if math.max(tonumber(a), tonumber(b), tonumber(c), tonumber(d)) > 255 then return nil end
    text = string.format("%s%x:%x", front, a * 256 + b, c * 256 + d)
  end
  local head, tail = text:match("^(.-)::(.*)$")
  local groups, behind = {}, {}
  for group in (head or text):gmatch("[^:]+") do groups[#groups + 1] = group end
  for group in (tail or ""):gmatch("[^:]+") do behind[#behind + 1] = group end
  while head and #groups + #behind < 8 do groups[#groups + 1] = "0" end
  for _, group in ipairs(behind) do groups[#groups + 1] = group end
  if #groups ~= 8 then return nil end
  for index, group in ipairs(groups) do
    if not group:find("^%x%x?%x?%x?$") then return nil end
    groups[index] = string.format("%x", tonumber(group, 16))
  end
  return table.concat(groups, ":")
end

-- Returns the one writing of a value that all its writings have: names have no final point, capitals count for nothing,
-- and IPv6 addresses have all their groups.
local function plain(value, kind)
  local text = value:lower():match("^%s*(.-)%s*$")
  if kind == "TXT" then return text end
  if kind == "AAAA" then return ipv6(text) or text end
  return (text:gsub("%.%f[%s\0]", ""):gsub("%s+", " "))
end

-- Returns the values of the type, and a table of all their writings: an MX record is also "10 mail.example".
local function values_of(answer, kind)
  local values, set = {}, {}
  for _, record in ipairs(answer.answers) do
    local value = record.type == kind and plain(record.value, kind)
    if value and not set[value] then
      values[#values + 1] = record.value
      set[value] = value
      if record.preference then set[string.format("%d %s", record.preference, value)] = value end
    end
  end
  table.sort(values)
  return values, set
end

-- `absent`: only the answer that there is no such name is a proof.
local function evaluate_absence(question, answer, values, words)
  if answer.status == "NXDOMAIN" then return "ok", question .. " does not exist, as it should" end
  if answer.status ~= "NOERROR" then return "unknown", question .. ": the server answers " .. answer.status end
  if #values == 0 then return "critical", question .. " has no record, but the name exists" end
  return "critical", question .. " exists: " .. words.list(values, 5)
end

local function evaluate(args, answer, words)
  local question = args.name .. " " .. args.type
  local values, set = values_of(answer, args.type)
  if args.absent then return evaluate_absence(question, answer, values, words) end
  if answer.status ~= "NOERROR" then return "critical", question .. ": the server answers " .. answer.status, values end
  if #values == 0 then return "critical", question .. " has no record", values end
  local missing, expected = {}, {}
  for _, wanted in ipairs(args.expect) do
    local value = set[plain(wanted, args.type)]
    if value then expected[value] = true else missing[#missing + 1] = wanted end
  end
  local summary = question .. " is " .. words.list(values, 5)
  if #missing > 0 then return "critical", summary .. ", without " .. words.list(missing, 5), values end
  for _, value in ipairs(args.exact and values or {}) do
    if not expected[plain(value, args.type)] then return "critical", summary .. ", which is more than expected", values end
  end
  return "ok", summary, values
end

function check.run(args, host)
  local words, status = require "words", require "status"
  local answer, code, text = host.dns {
    name = args.name, type = args.type, server = args.server, port = args.port, timeout = args.limit,
  }
  if not answer then
    if code == "denied" or code == "bad-arguments" or code == "unsupported" then return "unknown", text end
    return "critical", text
  end
  local labels = { name = args.name, type = args.type }
  local time = host.metric("time", answer.seconds, { unit = "s", warn = args.warn, crit = args.crit, min = 0, labels = labels })
  local state, summary, values = evaluate(args, answer, words)
  host.metric("records", values and #values or 0, { unit = "records", min = 0, labels = labels })
  return status.worse(state, time), string.format("%s (%s, %s)", summary, answer.server, words.duration(answer.seconds))
end

return check
