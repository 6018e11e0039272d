return {
  {
    name = "nothing waits",
    host = { mail_queue = { value = { program = "postfix", queued = 0, incoming = 0, active = 0, deferred = 0, hold = 0, capped = false } } },
    expect = {
      status = "ok", summary = "0 messages in the queues of postfix, 0 of them deferred",
      metrics = { queued = { value = 0, unit = "messages", warn = "100", crit = "1000" }, deferred = 0, active = 0 },
    },
  },
  {
    name = "some are late",
    args = { deferred_warn = "20" },
    host = { mail_queue = { value = { program = "exim", queued = 42, incoming = 0, active = 0, deferred = 42, hold = 0, capped = false } } },
    expect = { status = "warning", summary = "42 messages in the queues of exim, 42 of them deferred" },
  },
  {
    name = "more than anybody counts",
    host = { mail_queue = { value = { program = "postfix", queued = 10001, incoming = 0, active = 1, deferred = 10000, hold = 0, capped = true } } },
    expect = { status = "critical", summary = "more than 10001 messages in the queues of postfix, 10000 of them deferred" },
  },
  {
    name = "no mail system",
    host = { mail_queue = { code = "unsupported", text = "this host has no queue of Postfix or Exim" } },
    expect = { status = "unknown", summary = "this host has no queue of Postfix or Exim", metrics = {} },
  },
}
