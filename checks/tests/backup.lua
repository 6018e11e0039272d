return {
  {
    name = "fresh",
    host = {
      program = { args = { { name = "restic", json = true } }, value = { json = { { time = "2023-11-14T02:13:20.123456789+01:00", hostname = "web-1", paths = { "/srv" }, id = "ab" }, { time = "2023-11-13T02:13:20Z", hostname = "web-1", paths = { "/srv" }, id = "ab" } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = {
      status = "ok",
      summary = "the newest snapshot is 20 h 59 min old",
      metrics = {
        ["age{name=*}"] = { value = 75599.876543, unit = "s", warn = "93600", crit = "180000" },
        ["snapshots{name=*}"] = { value = 2, unit = "snapshots" },
      },
    },
  },
  {
    name = "too old",
    host = {
      program = { args = { { name = "restic", json = true } }, value = { json = { { time = "2023-11-13T12:13:20Z", hostname = "web-1", paths = { "/srv" }, id = "ab" } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "warning", summary = "the newest snapshot is 1 d 10 h old" },
  },
  {
    name = "far too old",
    host = {
      program = { args = { { name = "restic", json = true } }, value = { json = { { time = "2023-11-11T22:13:20Z", hostname = "web-1", paths = { "/srv" }, id = "ab" } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "critical", summary = "the newest snapshot is 3 d 0 h old" },
  },
  {
    name = "each host needs one",
    args = { names = { "web-*", "db-*", "mail" } },
    host = {
      program = { args = { { name = "restic", json = true } }, value = { json = { { time = "2023-11-14T20:13:20Z", hostname = "web-1", paths = { "/srv" }, id = "ab" }, { time = "2023-11-10T22:13:20Z", hostname = "db-1", paths = { "/srv" }, id = "ab" } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "critical", summary = "db-*: the newest snapshot is 4 d 0 h old, mail: there is no snapshot" },
  },
  {
    name = "of a path",
    args = { path = "/home" },
    host = {
      program = { args = { { name = "restic", json = true } }, value = { json = { { time = "2023-11-14T20:13:20Z", hostname = "web-1", paths = { "/srv" }, id = "ab" }, { time = "2023-11-10T22:13:20Z", hostname = "web-1", paths = { "/etc", "/home" }, id = "ab" } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "critical" },
  },
  {
    name = "no snapshot",
    host = {
      program = { args = { { name = "restic", json = true } }, value = { json = {}, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "critical", summary = "there is no snapshot", metrics = {} },
  },
  {
    name = "one from the future never gets old",
    host = {
      program = { args = { { name = "restic", json = true } }, value = { json = { { time = "2024-11-14T22:13:20Z", hostname = "web-1", paths = { "/srv" }, id = "ab" } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "the newest snapshot lies 366 d 0 h in the future: compare the clocks", metrics = {} },
  },
  {
    name = "a time that is none",
    host = {
      program = { args = { { name = "restic", json = true } }, value = { json = { { time = "yesterday", hostname = "web-1", paths = { "/srv" }, id = "ab" } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "web-1: the time of a snapshot cannot be read", metrics = {} },
  },
  {
    name = "another list",
    host = {
      program = { args = { { name = "restic", json = true } }, value = { json = { { a = 1 } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "the list has a snapshot without host or time: it is none of restic", metrics = {} },
  },
  {
    name = "Borg",
    args = { tool = "borg", program = "borg-home", names = { "home-*" }, warn = "200000", crit = "300000" },
    host = {
      program = { args = { { name = "borg-home", json = true } }, value = { json = { archives = { { name = "home-1", start = "2023-11-14T20:13:20.000000" } }, repository = { id = "x" } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "ok" },
  },
  {
    name = "Borg has none",
    args = { tool = "borg" },
    host = {
      program = { args = { { name = "borg", json = true } }, value = { json = { archives = {} }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "critical", summary = "there is no snapshot", metrics = {} },
  },
  {
    name = "no list of Borg",
    args = { tool = "borg" },
    host = {
      program = { args = { { name = "borg", json = true } }, value = { json = {}, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "the list has no archives: it is none of borg", metrics = {} },
  },
  {
    name = "the repository is locked",
    host = {
      program = { code = "protocol", text = "the output of program restic is not JSON (exit status 1): it is empty; the program says: Fatal: unable to open repository" },
    },
    expect = { status = "unknown", metrics = {} },
  },
  {
    name = "it fails, and writes a list all the same",
    host = {
      program = { args = { { name = "restic", json = true } }, value = { json = { { time = "2023-11-14T20:13:20Z", hostname = "web-1", paths = { "/srv" }, id = "ab" } }, errors = "", exit_status = 1, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "the program restic fails (exit status 1)", metrics = {} },
  },
}
