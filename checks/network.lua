local check = {
  summary = "Traffic and errors of network interfaces",
  needs = { "net_io" },
  every = "1m",
  timeout = "15s",
  args = {
    interface = { type = "string", help = "one interface, which must be there; without it all that are up" },
    exclude = { type = "list", default = { "lo", "veth*", "docker*", "br-*", "virbr*", "cali*", "flannel*" }, help = "interfaces to leave out" },
    window = { type = "duration", default = "1s", min = 0.1, max = 600, help = "look back at least this far" },
    error_warn = { type = "range", default = "1", help = "errors and drops a second" },
    error_crit = { type = "range", default = "100", help = "errors and drops a second" },
    use_warn = { type = "range", help = "use of the link's speed in percent, where the speed is known" },
    use_crit = { type = "range", help = "use of the link's speed in percent" },
  },
}

local function errors_of(link)
  return link.receive_errors + link.send_errors + link.receive_dropped + link.send_dropped
end

-- Returns errors and drops per second since the last run; nil in the first run and after a counter was reset.
local function error_rate(before, link, now)
  local total, old = errors_of(link), before and before.totals[link.interface]
  if not old or old > total or now <= before.at then return nil end
  return (total - old) / (now - before.at)
end

function check.run(args, host)
  local words, status, patterns = require "words", require "status", require "patterns"
  local links, _, text = host.net_io(args.window)
  if not links then return "unknown", text end
  local worst, shown, totals, now = "ok", {}, {}, host.now()
  local before = host.state.get("errors")
  for _, link in ipairs(links) do
    local name = link.interface
    local wanted = link.up and not patterns.any(name, args.exclude)
    if args.interface then wanted = name == args.interface end
    if wanted then
      local labels = { interface = name }
      if args.interface and (not link.up or link.carrier == false) then
        return "critical", name .. (link.up and " has no carrier" or " is down")
      end
      host.metric("received", link.received_bytes, { unit = "B", kind = "counter", labels = labels })
      host.metric("sent", link.sent_bytes, { unit = "B", kind = "counter", labels = labels })
      host.metric("received_rate", link.received_bytes_per_second, { unit = "B/s", labels = labels })
      host.metric("sent_rate", link.sent_bytes_per_second, { unit = "B/s", labels = labels })
      totals[name] = errors_of(link)
      local rate = error_rate(before, link, now)
      if rate then
        worst = status.worse(worst, host.metric("errors_rate", rate,
          { unit = "1/s", warn = args.error_warn, crit = args.error_crit, min = 0, labels = labels }))
      end
      if link.speed_bits_per_second then
        local busier = math.max(link.received_bytes_per_second, link.sent_bytes_per_second)
        worst = status.worse(worst, host.metric("use", busier * 800 / link.speed_bits_per_second,
          { unit = "%", warn = args.use_warn, crit = args.use_crit, min = 0, labels = labels }))
      end
      shown[#shown + 1] = string.format("%s in %s/s, out %s/s", name,
        words.bytes(math.floor(link.received_bytes_per_second)), words.bytes(math.floor(link.sent_bytes_per_second)))
    end
  end
  host.state.put("errors", { totals = totals, at = now })
  if args.interface and #shown == 0 then return "critical", "this host has no interface " .. args.interface end
  if #shown == 0 then return "ok", "no interface is up but those that are left out" end
  return worst, words.list(shown, 4)
end

return check
