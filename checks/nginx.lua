local check = {
  summary = "nginx: connections and requests, from its stub_status page",
  needs = { "http" },
  timeout = "20s",
  args = {
    url = { type = "string", default = "http://localhost/nginx_status", help = "the stub_status page" },
    warn = { type = "range", help = "active connections" },
    crit = { type = "range", help = "active connections" },
  },
}

function check.run(args, host)
  local answer, code, text = host.http { url = args.url, timeout = 8, limit = 4096 }
  if not answer then
    if code == "denied" or code == "bad-arguments" then return "unknown", text end
    return "critical", text
  end
  local active = tonumber(answer.body:match("Active connections:%s*(%d+)"))
  local accepts, handled, requests = answer.body:match("requests%s+(%d+)%s+(%d+)%s+(%d+)")
  local reading, writing, waiting = answer.body:match("Reading:%s*(%d+)%s+Writing:%s*(%d+)%s+Waiting:%s*(%d+)")
  if answer.status ~= 200 or not (active and accepts and reading) then
    return "unknown", string.format("%s is no stub_status page (%d %s)", args.url, answer.status, answer.reason)
  end
  local status = host.metric("active", active, { unit = "connections", warn = args.warn, crit = args.crit, min = 0 })
  for name, value in pairs { reading = reading, writing = writing, waiting = waiting } do
    host.metric(name, tonumber(value), { unit = "connections", min = 0 })
  end
  for name, value in pairs { accepts = accepts, handled = handled, requests = requests } do
    host.metric(name, tonumber(value), { unit = "c", kind = "counter" })
  end
  return status, string.format("%d active connections (%s reading, %s writing, %s waiting)", active, reading, writing, waiting)
end

return check
