local check = {
  summary = "Messages that wait in the queues of Postfix or Exim",
  needs = { "host" },
  timeout = "30s",
  args = {
    warn = { type = "range", default = "100", help = "messages in all queues" },
    crit = { type = "range", default = "1000", help = "messages in all queues" },
    deferred_warn = { type = "range", help = "messages that could not be delivered yet" },
    deferred_crit = { type = "range", help = "messages that could not be delivered yet" },
  },
}

function check.run(args, host)
  local words, status = require "words", require "status"
  local queue, _, text = host.mail_queue()
  if not queue then return "unknown", text end
  local all = host.metric("queued", queue.queued, { unit = "messages", warn = args.warn, crit = args.crit, min = 0 })
  local deferred = host.metric("deferred", queue.deferred,
    { unit = "messages", warn = args.deferred_warn, crit = args.deferred_crit, min = 0 })
  host.metric("active", queue.active, { unit = "messages", min = 0 })
  local summary = string.format("%s%s in the queues of %s, %d of them deferred", queue.capped and "more than " or "",
    words.count(queue.queued, "message", "messages"), queue.program, queue.deferred)
  return status.worse(all, deferred), summary
end

return check
