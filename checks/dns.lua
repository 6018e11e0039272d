local check = {
  summary = "A name resolves, to what it should",
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

local function values_of(answer, kind)
  local values, set = {}, {}
  for _, record in ipairs(answer.answers) do
    if record.type == kind and not set[record.value:lower()] then
      values[#values + 1] = record.value
      set[record.value:lower()] = true
    end
  end
  table.sort(values)
  return values, set
end

local function judge(args, answer, words)
  local question = args.name .. " " .. args.type
  local values, set = values_of(answer, args.type)
  if args.absent then
    if answer.status == "NXDOMAIN" then return "ok", question .. " does not exist, as it should" end
    return "critical", question .. " exists: " .. words.list(values, 5)
  end
  if answer.status ~= "NOERROR" then return "critical", question .. ": the server answers " .. answer.status, values end
  if #values == 0 then return "critical", question .. " has no record", values end
  local missing = {}
  for _, wanted in ipairs(args.expect) do
    if not set[wanted:lower()] then missing[#missing + 1] = wanted end
  end
  local told = question .. " is " .. words.list(values, 5)
  if #missing > 0 then return "critical", told .. ", without " .. words.list(missing, 5), values end
  if args.exact and #values > #args.expect then return "critical", told .. ", which is more than expected", values end
  return "ok", told, values
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
  local state, told, values = judge(args, answer, words)
  host.metric("records", values and #values or 0, { unit = "records", min = 0, labels = labels })
  return status.worse(state, time), string.format("%s (%s, %s)", told, answer.server, words.duration(answer.seconds))
end

return check
