local three = {
  { name = "ada", terminal = "pts/0", from = "192.0.2.7", since_at = 1699990000 },
  { name = "ada", terminal = "pts/1", from = "192.0.2.7", since_at = 1699990100 },
  { name = "grace", terminal = "tty1", from = "", since_at = 1699980000 },
}

return {
  {
    name = "nobody",
    host = { users = { value = {} } },
    expect = { status = "ok", summary = "0 logins", metrics = { users = { value = 0, unit = "logins", warn = "5", crit = "10" } } },
  },
  {
    name = "two people, three logins",
    host = { users = { value = three } },
    expect = {
      status = "ok", summary = "3 logins: ada, grace", output = "ada on pts/0 192.0.2.7\nada on pts/1 192.0.2.7\ngrace on tty1 \n",
      metrics = { users = 3 },
    },
  },
  {
    name = "more than there should be",
    args = { warn = "1", crit = "2" },
    host = { users = { value = three } },
    expect = { status = "critical" },
  },
  {
    name = "at least one too many",
    args = { warn = "2" },
    host = { users = { value = three } },
    expect = { status = "warning" },
  },
  {
    name = "nobody keeps records here",
    host = { users = { code = "unsupported", text = "this host has neither /var/run/utmp nor logind" } },
    expect = { status = "unknown", summary = "this host has neither /var/run/utmp nor logind", metrics = {} },
  },
}
