local check = {
  summary = "Swap space in use; a host without swap is ok",
  needs = { "host" },
  every = "1m",
  timeout = "10s",
  args = {
    warn = { type = "range", default = "50", help = "used swap in percent" },
    crit = { type = "range", default = "80", help = "used swap in percent" },
    require_swap = { type = "boolean", default = false, help = "a host without swap is a warning" },
  },
}

function check.run(args, host)
  local words = require "words"
  local swap, _, text = host.swap()
  if not swap then return "unknown", text end
  local status = host.metric("used", swap.used_percent, { unit = "%", warn = args.warn, crit = args.crit, min = 0, max = 100 })
  host.metric("free", swap.free_bytes, { unit = "B", min = 0, max = swap.total_bytes })
  host.metric("total", swap.total_bytes, { unit = "B" })
  host.metric("in", swap.in_bytes, { unit = "B", kind = "counter" })
  host.metric("out", swap.out_bytes, { unit = "B", kind = "counter" })
  if swap.total_bytes == 0 then return args.require_swap and "warning" or "ok", "this host has no swap" end
  return status, string.format("used %.1f %%, %s of %s free", swap.used_percent,
    words.bytes(swap.free_bytes), words.bytes(swap.total_bytes))
end

return check
