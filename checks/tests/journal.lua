return {
  {
    name = "the first run",
    host = {
      journal = { value = { entries = {}, cursor = "s=00000000000000000000000000000001;i=1", more = false } },
    },
    expect = {
      status = "ok",
      summary = "the journal is read from here on",
      state = { cursor = "s=00000000000000000000000000000001;i=1" },
      metrics = {
        ["entries{priority=err,unit=*}"] = { value = 0, unit = "entries", warn = "0" },
      },
    },
  },
  {
    name = "nothing new",
    host = {
      journal = { args = { { priority = "err", cursor = "s=00000000000000000000000000000001;i=1" } }, value = { entries = {}, cursor = "s=00000000000000000000000000000001;i=2", more = false } },
      state = { cursor = "s=00000000000000000000000000000001;i=1" },
    },
    expect = { status = "ok", summary = "0 new entries", state = { cursor = "s=00000000000000000000000000000001;i=2" } },
  },
  {
    name = "two errors",
    host = {
      journal = { args = { { priority = "err", cursor = "s=00000000000000000000000000000001;i=1" } }, value = { entries = { { at = 1700000000.5, message = "fatal: no hostkeys", identifier = "sshd", priority = "err" }, { at = 1700000000.5, message = "error: x", identifier = "sshd", priority = "err" } }, cursor = "s=00000000000000000000000000000001;i=2", more = false } },
      state = { cursor = "s=00000000000000000000000000000001;i=1" },
    },
    expect = {
      status = "warning",
      summary = "2 new entries, first: sshd: fatal: no hostkeys",
      output = "sshd: fatal: no hostkeys\nsshd: error: x\n",
      metrics = {
        ["entries{priority=err,unit=*}"] = 2,
      },
    },
  },
  {
    name = "of one unit, critical here",
    args = { unit = "nginx", crit = "0" },
    host = {
      journal = { args = { { priority = "err", cursor = "s=00000000000000000000000000000001;i=1", unit = "nginx" } }, value = { entries = { { at = 1700000000.5, message = "down", identifier = nil, priority = "err", unit = "nginx.service" } }, cursor = "s=00000000000000000000000000000001;i=2", more = false } },
      state = { cursor = "s=00000000000000000000000000000001;i=1" },
    },
    expect = {
      status = "critical",
      summary = "1 new entry, first: nginx.service: down",
      metrics = {
        ["entries{priority=err,unit=nginx}"] = 1,
      },
    },
  },
  {
    name = "some of them do not matter",
    args = { ignore = { "known", "pam" }, match = "%a" },
    host = {
      journal = { args = { { priority = "err", cursor = "s=00000000000000000000000000000001;i=1" } }, value = { entries = { { at = 1700000000.5, message = "a known one", identifier = "sshd", priority = "err" }, { at = 1700000000.5, message = "x", identifier = "pam", priority = "err" }, { at = 1700000000.5, message = "new", identifier = "sshd", priority = "err" } }, cursor = "s=00000000000000000000000000000001;i=2", more = false } },
      state = { cursor = "s=00000000000000000000000000000001;i=1" },
    },
    expect = { status = "warning", summary = "1 new entry of 3, first: sshd: new" },
  },
  {
    name = "none matches",
    args = { match = "^sshd: oom" },
    host = {
      journal = { args = { { priority = "err", cursor = "s=00000000000000000000000000000001;i=1" } }, value = { entries = { { at = 1700000000.5, message = "other", identifier = "sshd", priority = "err" } }, cursor = "s=00000000000000000000000000000001;i=2", more = false } },
      state = { cursor = "s=00000000000000000000000000000001;i=1" },
    },
    expect = { status = "ok", summary = "0 new entries of 1" },
  },
  {
    name = "in two parts",
    host = {
      journal = {
        { args = { { priority = "err", cursor = "s=00000000000000000000000000000001;i=1" } }, value = { entries = { { at = 1700000000.5, message = "one", identifier = "sshd", priority = "err" } }, cursor = "s=00000000000000000000000000000001;i=2", more = true } },
        { args = { { priority = "err", cursor = "s=00000000000000000000000000000001;i=2" } }, value = { entries = { { at = 1700000000.5, message = "two", identifier = "sshd", priority = "err" } }, cursor = "s=00000000000000000000000000000001;i=3", more = false } },
      },
      state = { cursor = "s=00000000000000000000000000000001;i=1" },
    },
    expect = { status = "warning", summary = "2 new entries, first: sshd: one", state = { cursor = "s=00000000000000000000000000000001;i=3" } },
  },
  {
    name = "more than one run reads",
    host = {
      journal = { value = { entries = { { at = 1700000000.5, message = "again", identifier = "sshd", priority = "err" } }, cursor = "s=00000000000000000000000000000001;i=2", more = true } },
      state = { cursor = "s=00000000000000000000000000000001;i=1" },
    },
    expect = { status = "warning", summary = "6 new entries, first: sshd: again (more waits for the next run)" },
  },
  {
    name = "the agent may not read it",
    host = {
      journal = { code = "failed", text = "the agent's user may not read the journal: add it to the group systemd-journal" },
      state = { cursor = "s=00000000000000000000000000000001;i=1" },
    },
    expect = { status = "unknown", summary = "the agent's user may not read the journal: add it to the group systemd-journal", metrics = {}, state = { cursor = "s=00000000000000000000000000000001;i=1" } },
  },
  {
    name = "the policy does not grant it",
    host = {
      journal = { code = "denied", text = "the journal of all units is not granted" },
    },
    expect = { status = "unknown", metrics = {} },
  },
}
