local check = {
  summary = "Reads, writes and busy time of block devices",
  needs = { "disk_io" },
  every = "1m",
  timeout = "15s",
  args = {
    device = { type = "string", help = "one device, which must be there; without it all" },
    exclude = { type = "list", default = { "loop*", "sr*", "fd*" }, help = "devices to leave out" },
    window = { type = "duration", default = "1s", min = 0.1, max = 600, help = "look back at least this far" },
    busy_warn = { type = "range", help = "time with requests under way, in percent" },
    busy_crit = { type = "range", help = "time with requests under way, in percent" },
    wait_warn = { type = "range", default = "0.5", help = "mean time of a request in seconds" },
    wait_crit = { type = "range", default = "2", help = "mean time of a request in seconds" },
  },
}

function check.run(args, host)
  local words, status, patterns = require "words", require "status", require "patterns"
  local devices, _, text = host.disk_io(args.window)
  if not devices then return "unknown", text end
  local worst, shown = "ok", {}
  for _, one in ipairs(devices) do
    local wanted = not patterns.any(one.device, args.exclude)
    if args.device then wanted = one.device == args.device end
    if wanted then
      local labels = { device = one.device }
      host.metric("read", one.read_bytes, { unit = "B", kind = "counter", labels = labels })
      host.metric("written", one.written_bytes, { unit = "B", kind = "counter", labels = labels })
      host.metric("read_rate", one.read_bytes_per_second, { unit = "B/s", labels = labels })
      host.metric("write_rate", one.written_bytes_per_second, { unit = "B/s", labels = labels })
      host.metric("reads", one.reads, { unit = "c", kind = "counter", labels = labels })
      host.metric("writes", one.writes, { unit = "c", kind = "counter", labels = labels })
      local busy = host.metric("busy", one.busy_percent,
        { unit = "%", warn = args.busy_warn, crit = args.busy_crit, min = 0, max = 100, labels = labels })
      local wait = host.metric("wait", one.wait_seconds,
        { unit = "s", warn = args.wait_warn, crit = args.wait_crit, min = 0, labels = labels })
      worst = status.worse(worst, status.worse(busy, wait))
      shown[#shown + 1] = string.format("%s busy %.0f %%, read %s/s, written %s/s, %s a request", one.device, one.busy_percent,
        words.bytes(math.floor(one.read_bytes_per_second)), words.bytes(math.floor(one.written_bytes_per_second)),
        words.duration(one.wait_seconds))
    end
  end
  if args.device and #shown == 0 then return "critical", "this host has no block device " .. args.device end
  if #shown == 0 then return "ok", "this host has no block device but those that are left out" end
  return worst, words.list(shown, 3)
end

return check
