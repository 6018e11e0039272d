local check = {
  summary = "A pool of PHP-FPM: processes, queue, and how often it reached its limit, from its status page over FastCGI",
  needs = { "tcp", "unix" },
  timeout = "20s",
  args = {
    host = { type = "string", default = "localhost", help = "name or address" },
    port = { type = "integer", default = 9000, min = 1, max = 65535, help = "the port" },
    socket = { type = "string", help = "path of its socket, such as /run/php/php8.2-fpm.sock, instead of host and port" },
    path = { type = "string", default = "/status", help = "pm.status_path of the pool" },
    children = { type = "integer", min = 1, help = "pm.max_children of the pool, for warn and crit: the page does not tell it" },
    warn = { type = "range", default = "80", help = "active processes in percent of children" },
    crit = { type = "range", default = "100", help = "active processes in percent of children" },
    queue_warn = { type = "range", default = "0", help = "requests that wait for a process" },
    queue_crit = { type = "range", help = "requests that wait for a process" },
    full_warn = { type = "range", default = "0", help = "times that the limit of processes was reached in the last minutes" },
    full_crit = { type = "range", help = "times that the limit of processes was reached in the last minutes" },
  },
}

-- Returns the document of the status page and the seconds it took.
local function asked(args, host)
  local stream = require "stream"
  local connection = stream.open(args.socket and host.unix or host.tcp, args, 8)
  local status, body, errors = require("fastcgi").get(connection, {
    SCRIPT_NAME = args.path, SCRIPT_FILENAME = args.path, REQUEST_URI = args.path .. "?json", QUERY_STRING = "json", REQUEST_METHOD = "GET",
    SERVER_PROTOCOL = "HTTP/1.1", GATEWAY_INTERFACE = "CGI/1.1", REMOTE_ADDR = "127.0.0.1", SERVER_NAME = "localhost",
  })
  connection:close("")
  if status == 404 or status == 403 then
    stream.fail("unsupported", string.format("the pool has no status page at %s (%d): set pm.status_path", args.path, status))
  end
  if status ~= 200 then stream.fail("failed", string.format("the pool answers %d%s", status, errors ~= "" and ": " .. errors:sub(1, 200) or "")) end
  local document = require("json").decode(body)
  if type(document) ~= "table" then stream.fail("protocol", string.format("%s is no status page of PHP-FPM", args.path)) end
  return document, connection.took
end

-- Adds the metrics, and returns the worst status of their thresholds.
local function measure(args, host, page, active, took)
  local fields, worse, worst = require "fields", require("status").worse, "ok"
  local labels = { pool = fields.text(page, "pool") or "?" }
  local function add(name, value, unit, warn, crit)
    if value then worst = worse(worst, host.metric(name, value, { unit = unit, warn = warn, crit = crit, min = 0, labels = labels })) end
  end
  if args.children then add("used", active * 100 / args.children, "%", args.warn, args.crit) end
  add("active", active, "processes")
  add("idle", fields.number(page, "idle processes"), "processes")
  add("queue", fields.number(page, "listen queue"), "requests", args.queue_warn, args.queue_crit)
  local full = fields.number(page, "max children reached")
  if full then add("limit_reached", require("recent").growth(host, "limit", full), "times", args.full_warn, args.full_crit) end
  add("uptime", fields.number(page, "start since"), "s")
  for name, field in pairs { requests = "accepted conn", slow_requests = "slow requests" } do
    local value = fields.number(page, field)
    if value then host.metric(name, value, { unit = "c", kind = "counter", labels = labels }) end
  end
  add("time", took, "s")
  return worst
end

function check.run(args, host)
  local stream, fields, words = require "stream", require "fields", require "words"
  local page, took, text = stream.guarded(asked, args, host)
  if not page then
    if took == "denied" or took == "bad-arguments" or took == "unsupported" or took == "budget" then return "unknown", text end
    return "critical", text
  end
  local active, total, queue = fields.number(page, "active processes"), fields.number(page, "total processes"), fields.number(page, "listen queue")
  if not (active and total and queue) then return "unknown", args.path .. " is no status page of PHP-FPM" end
  local worst = measure(args, host, page, active, took)
  local summary = string.format("pool %s, %.0f of %s active, %s", fields.text(page, "pool") or "?", active, words.count(total, "process", "processes"),
    queue == 0 and "nothing waits" or words.count(queue, "request waits", "requests wait"))
  return worst, summary
end

return check
