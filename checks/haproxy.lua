local check = {
  summary = "HAProxy: backends without a server, servers that are down, sessions, queues",
  needs = { "http", "unix" },
  timeout = "20s",
  args = {
    url = { type = "string", default = "http://localhost:8404/stats;csv", help = "the statistics page, with ;csv" },
    socket = { type = "string", help = "path of its statistics socket, instead of url; the host's policy has to grant it" },
    user = { type = "string", help = "the user of the page, if it wants a login" },
    password = { type = "string", help = "a secret: { secret = \"NAME\" }" },
    verify = { type = "boolean", default = true, help = "the certificate of an https url must be valid" },
    ca = { type = "string", help = "PEM text of the authorities to trust instead of the system's" },
    backends = { type = "list", default = {}, help = "names of backends that have to be there" },
    ignore = { type = "list", default = {}, help = "what is not judged: names of proxies, or of servers as backend/server; * and ? are wildcards" },
    down_warn = { type = "range", default = "0", help = "servers that are down, of all backends" },
    down_crit = { type = "range", help = "servers that are down, of all backends" },
    warn = { type = "range", default = "80", help = "sessions of a frontend in percent of its limit" },
    crit = { type = "range", default = "95", help = "sessions of a frontend in percent of its limit" },
    queue_warn = { type = "range", help = "requests that wait in the queue of a backend" },
    queue_crit = { type = "range", help = "requests that wait in the queue of a backend" },
  },
}

-- Proxies with all metrics; of more, only those that are judged. Beyond the second number nothing is.
local MOST_PROXIES, MOST_JUDGED = 50, 500
local LONGEST = 1048576

-- Splits a line of CSV. A field in quotes may hold commas, and quotes written twice.
local function split(line)
  local found, at = {}, 1
  while at <= #line + 1 do
    local value, behind
    if line:sub(at, at) == '"' then
      local stop = at + 1
      while true do
        stop = line:find('"', stop, true) or #line + 1
        if line:sub(stop + 1, stop + 1) ~= '"' then break end
        stop = stop + 2
      end
      value, behind = line:sub(at + 1, stop - 1):gsub('""', '"'), line:find(",", stop, true) or #line + 1
    else
      behind = line:find(",", at, true) or #line + 1
      value = line:sub(at, behind - 1)
    end
    found[#found + 1], at = value, behind + 1
  end
  return found
end

-- Returns the rows of the page as tables by the names of its first line, or nil.
local function rows_of(page)
  local names, rows
  for line in page:gmatch("[^\r\n]+") do
    if not names then
      if not (line:find("^# pxname,svname,") and line:find(",status,", 1, true) and line:find(",type,", 1, true)) then return nil end
      names, rows = split(line:sub(3)), {}
    else
      local row = {}
      for index, value in ipairs(split(line)) do row[names[index] or ""] = value end
      rows[#rows + 1] = row
    end
  end
  return rows
end

-- Returns the page, or nil, code, text.
local function fetch(args, host)
  if not args.socket then
    local answer, code, text = require("api").send(host, args, "")
    if not answer then return nil, code, text end
    return answer.body
  end
  local answer, code, text = host.unix { path = args.socket, send = "show stat\n", limit = LONGEST, timeout = 8 }
  if not answer then return nil, code, text end
  if not answer.closed then return nil, "too-large", string.format("the answer of %s is not over after %d bytes", args.socket, #answer.received) end
  return answer.received
end

-- The states that HAProxy writes, by their first word. "DOWN 1/2" is about to come up; "no check" has no health check.
local STATES = { UP = "up", OPEN = "up", no = "up", DOWN = "down", STOP = "down", MAINT = "maintenance", DRAIN = "maintenance", NOLB = "maintenance", FULL = "up" }

-- Returns "up", "down", "maintenance", or "odd" for what HAProxy does not write.
local function state_of(status)
  return STATES[status:match("^%a+") or ""] or "odd"
end

-- Adds the metrics of one frontend or backend, all of them or those that are judged. Returns the worst status of their thresholds;
-- adds to `unsaid` the name of one whose sessions or queue are not told.
local function measure_proxy(args, host, row, all, unsaid)
  local number, worst = require("words").number, "ok"
  local labels = { proxy = row.pxname, side = row.svname:lower() }
  local limit = number(row.slim)
  local sessions, queued = number(row.scur), number(row.qcur)
  if not sessions or (row.svname == "BACKEND" and not queued) then unsaid[#unsaid + 1] = string.format("%s/%s", row.pxname, row.svname) end
  if row.svname == "FRONTEND" and limit and limit > 0 and sessions then
    worst = host.metric("sessions_used", sessions * 100 / limit, { unit = "%", warn = args.warn, crit = args.crit, min = 0, labels = labels })
  elseif row.svname == "BACKEND" and queued then
    worst = host.metric("queue", queued, { unit = "requests", warn = args.queue_warn, crit = args.queue_crit, min = 0, labels = labels })
  end
  if not all then return worst end
  host.metric("sessions", sessions or 0, { unit = "sessions", min = 0, labels = labels })
  for name, field in pairs { received = "bin", sent = "bout" } do
    host.metric(name, number(row[field]) or 0, { unit = "B", kind = "counter", labels = labels })
  end
  for name, field in pairs { all_sessions = "stot", responses_5xx = "hrsp_5xx", errors = row.svname == "BACKEND" and "econ" or "ereq" } do
    if number(row[field]) then host.metric(name, number(row[field]), { unit = "c", kind = "counter", labels = labels }) end
  end
  return worst
end

-- Adds all metrics. Returns what was found, with the worst status of the thresholds.
local function measure(args, host, rows)
  local patterns, worse = require "patterns", require("status").worse
  local found = { up = 0, down = 0, maintenance = 0, odd = {}, dead = {}, downs = {}, seen = {}, proxies = 0, worst = "ok", unsaid = {} }
  for _, row in ipairs(rows) do
    local proxy, server, status = row.pxname or "", row.svname or "", row.status or ""
    local judged = not patterns.any(proxy, args.ignore) and not patterns.any(proxy .. "/" .. server, args.ignore)
    local state = state_of(status)
    if server == "BACKEND" then found.seen[proxy] = true end
    if state == "odd" then
      found.odd[#found.odd + 1] = string.format("%s/%s is %q", proxy, server, status:sub(1, 20))
    elseif not judged then
      state = "ignored"
    elseif server == "FRONTEND" or server == "BACKEND" then
      if server == "BACKEND" and state == "down" then found.dead[#found.dead + 1] = proxy end
      found.proxies = found.proxies + 1
      if found.proxies <= MOST_JUDGED then found.worst = worse(found.worst, measure_proxy(args, host, row, found.proxies <= MOST_PROXIES, found.unsaid)) end
    elseif row.type == "2" then
      found[state] = found[state] + 1
      if state == "down" then found.downs[#found.downs + 1] = proxy .. "/" .. server end
    end
  end
  found.worst = worse(found.worst, host.metric("servers_down", found.down, { unit = "servers", warn = args.down_warn, crit = args.down_crit, min = 0 }))
  host.metric("servers_up", found.up, { unit = "servers", min = 0 })
  host.metric("servers_maintenance", found.maintenance, { unit = "servers", min = 0 })
  return found
end

function check.run(args, host)
  local words, api, worse = require "words", require "api", require("status").worse
  local page, code, text = fetch(args, host)
  if not page then return api.verdict(code, text) end
  local rows = rows_of(page)
  if not rows or #rows == 0 then
    return "unknown", (args.socket or args.url) .. " is no statistics page of HAProxy in CSV" .. (args.socket and "" or "; the url ends with ;csv")
  end
  local found = measure(args, host, rows)
  local parts = {}
  for _, name in ipairs(args.backends) do
    if not found.seen[name] then parts[#parts + 1] = "there is no backend " .. name end
  end
  if #found.dead > 0 then parts[#parts + 1] = "no server is left for " .. words.list(found.dead, 5) end
  if #parts > 0 then found.worst = "critical" end
  if #found.odd > 0 then
    found.worst = worse(found.worst, "unknown")
    parts[#parts + 1] = words.list(found.odd, 3) .. ", which this check does not know"
  end
  if #found.downs > 0 then parts[#parts + 1] = words.list(found.downs, 5) .. (#found.downs == 1 and " is down" or " are down") end
  parts[#parts + 1] = string.format("%s up, %d down, %d in maintenance", words.count(found.up, "server", "servers"), found.down, found.maintenance)
  if found.proxies > MOST_JUDGED then
    found.worst, parts[#parts + 1] = worse(found.worst, "unknown"), string.format("sessions and queues of %d proxies are not judged: ignore some", found.proxies - MOST_JUDGED)
  end
  return require("lacking").verdict(found.worst, found.unsaid, table.concat(parts, ", "))
end

return check
