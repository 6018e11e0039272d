local check = {
  summary = "Apache: workers and requests, from its server-status page",
  needs = { "http" },
  timeout = "20s",
  args = {
    url = { type = "string", default = "http://localhost/server-status?auto", help = "the page of mod_status, with ?auto" },
    warn = { type = "range", default = "80", help = "busy workers in percent" },
    crit = { type = "range", default = "95", help = "busy workers in percent" },
  },
}

function check.run(args, host)
  local words = require "words"
  local answer, code, text = host.http { url = args.url, timeout = 8, limit = 65536 }
  if not answer then
    if code == "denied" or code == "bad-arguments" then return "unknown", text end
    return "critical", text
  end
  local page = {}
  for name, value in answer.body:gmatch("([%w ]+): ([^\r\n]*)") do page[name] = value end
  local busy, idle = tonumber(page.BusyWorkers), tonumber(page.IdleWorkers)
  if answer.status ~= 200 or not (busy and idle) or busy + idle == 0 then
    return "unknown", string.format("%s is no page of mod_status (%d %s)", args.url, answer.status, answer.reason)
  end
  -- Slots that are not in use yet (".") can become workers, so that they count as free.
  local open = select(2, (page.Scoreboard or ""):gsub("%.", ""))
  local share = busy * 100 / (busy + idle + open)
  local status = host.metric("busy", share, { unit = "%", warn = args.warn, crit = args.crit, min = 0, max = 100 })
  host.metric("busy_workers", busy, { unit = "workers", min = 0 })
  host.metric("idle_workers", idle, { unit = "workers", min = 0 })
  local requests, kib = tonumber(page["Total Accesses"]), tonumber(page["Total kBytes"])
  if requests then host.metric("requests", requests, { unit = "c", kind = "counter" }) end
  if kib then host.metric("sent", kib * 1024, { unit = "B", kind = "counter" }) end
  return status, string.format("%s busy, %d idle, %.0f %% of what there can be", words.count(busy, "worker", "workers"), idle, share)
end

return check
