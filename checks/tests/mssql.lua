-- What sqlcmd writes for the queries of docs/checks.rst.

return {
  {
    name = "a server",
    host = {
      program = { args = { { name = "mssql" } }, value = { text = "version|16.0.4135.4\nuptime|86400\nsessions|12\nblocked|0\ndatabase|master|ONLINE|3600\ndatabase|tempdb|ONLINE|NULL\ndatabase|shop|ONLINE|7200\ndatabase|old|OFFLINE|NULL\nlog|master|40\nlog|shop|12\nend\n", errors = "", exit_status = 0, seconds = 0.2 } },
    },
    expect = { status = "ok", summary = "version 16.0.4135.4, 3 databases online", metrics = {
      sessions = { value = 12, unit = "sessions" }, blocked = { value = 0, unit = "requests", warn = "10" }, uptime = { value = 86400, unit = "s" },
      online = { value = 3, unit = "databases" }, ["log_used{database=shop}"] = { value = 12, unit = "%", warn = "80", crit = "95" }, ["backup_age{database=shop}"] = { value = 7200, unit = "s" },
      ["log_used{database=master}"] = 40, ["backup_age{database=master}"] = 3600,
    } },
  },
  {
    name = "lines as Windows ends them",
    host = {
      program = { args = { { name = "mssql" } }, value = { text = "version|16.0.4135.4\r\nuptime|86400\r\nsessions|12\r\nblocked|0\r\ndatabase|master|ONLINE|3600\r\ndatabase|tempdb|ONLINE|NULL\r\ndatabase|shop|ONLINE|7200\r\ndatabase|old|OFFLINE|NULL\r\nlog|master|40\r\nlog|shop|12\r\nend\r\n", errors = "", exit_status = 0, seconds = 0.2 } },
    },
    expect = { status = "ok", summary = "version 16.0.4135.4, 3 databases online" },
  },
  {
    name = "a database that must be online isn't",
    args = { databases = { "old" } },
    host = {
      program = { args = { { name = "mssql" } }, value = { text = "version|16.0.4135.4\nuptime|86400\nsessions|12\nblocked|0\ndatabase|master|ONLINE|3600\ndatabase|tempdb|ONLINE|NULL\ndatabase|shop|ONLINE|7200\ndatabase|old|OFFLINE|NULL\nlog|master|40\nlog|shop|12\nend\n", errors = "", exit_status = 0, seconds = 0.2 } },
    },
    expect = { status = "critical", summary = "old is offline, version 16.0.4135.4, 3 databases online" },
  },
  {
    name = "one that is not there",
    args = { databases = { "shop", "crm*" } },
    host = {
      program = { args = { { name = "mssql" } }, value = { text = "version|16.0.4135.4\nuptime|86400\nsessions|12\nblocked|0\ndatabase|master|ONLINE|3600\ndatabase|tempdb|ONLINE|NULL\ndatabase|shop|ONLINE|7200\ndatabase|old|OFFLINE|NULL\nlog|master|40\nlog|shop|12\nend\n", errors = "", exit_status = 0, seconds = 0.2 } },
    },
    expect = { status = "critical", summary = "there is no database crm*, version 16.0.4135.4, 3 databases online" },
  },
  {
    name = "one that is suspect",
    host = {
      program = { args = { { name = "mssql" } }, value = { text = "version|16.0.4135.4\nuptime|86400\nsessions|12\nblocked|0\ndatabase|master|ONLINE|3600\ndatabase|tempdb|ONLINE|NULL\ndatabase|shop|SUSPECT|7200\ndatabase|old|OFFLINE|NULL\nlog|master|40\nlog|shop|12\nend\n", errors = "", exit_status = 0, seconds = 0.2 } },
    },
    expect = { status = "critical", summary = "shop is suspect, version 16.0.4135.4, 2 databases online" },
  },
  {
    name = "one that recovers",
    host = {
      program = { args = { { name = "mssql" } }, value = { text = "version|16.0.4135.4\nuptime|86400\nsessions|12\nblocked|0\ndatabase|master|ONLINE|3600\ndatabase|tempdb|ONLINE|NULL\ndatabase|shop|RECOVERING|7200\ndatabase|old|OFFLINE|NULL\nlog|master|40\nlog|shop|12\nend\n", errors = "", exit_status = 0, seconds = 0.2 } },
    },
    expect = { status = "warning", summary = "shop is recovering, version 16.0.4135.4, 2 databases online" },
  },
  {
    name = "a copy that is always restored",
    args = { ignore = { "shop" } },
    host = {
      program = { args = { { name = "mssql" } }, value = { text = "version|16.0.4135.4\nuptime|86400\nsessions|12\nblocked|0\ndatabase|master|ONLINE|3600\ndatabase|tempdb|ONLINE|NULL\ndatabase|shop|RESTORING|7200\ndatabase|old|OFFLINE|NULL\nlog|master|40\nlog|shop|12\nend\n", errors = "", exit_status = 0, seconds = 0.2 } },
    },
    expect = { status = "ok", summary = "version 16.0.4135.4, 2 databases online" },
  },
  {
    name = "a state that nobody knows",
    host = {
      program = { args = { { name = "mssql" } }, value = { text = "version|16.0.4135.4\nuptime|86400\nsessions|12\nblocked|0\ndatabase|master|ONLINE|3600\ndatabase|tempdb|ONLINE|NULL\ndatabase|shop|DREAMING|7200\ndatabase|old|OFFLINE|NULL\nlog|master|40\nlog|shop|12\nend\n", errors = "", exit_status = 0, seconds = 0.2 } },
    },
    expect = { status = "unknown", summary = "shop is dreaming, version 16.0.4135.4, 2 databases online" },
  },
  {
    name = "a log that is full",
    host = {
      program = { args = { { name = "mssql" } }, value = { text = "version|16.0.4135.4\nuptime|86400\nsessions|12\nblocked|0\ndatabase|master|ONLINE|3600\ndatabase|tempdb|ONLINE|NULL\ndatabase|shop|ONLINE|7200\ndatabase|old|OFFLINE|NULL\nlog|master|40\nlog|shop|97\nend\n", errors = "", exit_status = 0, seconds = 0.2 } },
    },
    expect = { status = "critical", summary = "the log of shop is full to 97 %, version 16.0.4135.4, 3 databases online" },
  },
  {
    name = "requests that are blocked",
    host = {
      program = { args = { { name = "mssql" } }, value = { text = "version|16.0.4135.4\nuptime|86400\nsessions|12\nblocked|31\ndatabase|master|ONLINE|3600\ndatabase|tempdb|ONLINE|NULL\ndatabase|shop|ONLINE|7200\ndatabase|old|OFFLINE|NULL\nlog|master|40\nlog|shop|12\nend\n", errors = "", exit_status = 0, seconds = 0.2 } },
    },
    expect = { status = "warning", summary = "31 requests are blocked, version 16.0.4135.4, 3 databases online" },
  },
  {
    name = "a backup that is old",
    args = { backup_warn = "86400", backup_crit = "172800" },
    host = {
      program = { args = { { name = "mssql" } }, value = { text = "version|16.0.4135.4\nuptime|86400\nsessions|12\nblocked|0\ndatabase|master|ONLINE|3600\ndatabase|tempdb|ONLINE|NULL\ndatabase|shop|ONLINE|100000\ndatabase|old|OFFLINE|NULL\nlog|master|40\nlog|shop|12\nend\n", errors = "", exit_status = 0, seconds = 0.2 } },
    },
    expect = { status = "warning", summary = "the backup of shop is 1 d 3 h old, version 16.0.4135.4, 3 databases online" },
  },
  {
    name = "no backup at all",
    args = { backup_crit = "172800" },
    host = {
      program = { args = { { name = "mssql" } }, value = { text = "version|16.0.4135.4\nuptime|86400\nsessions|12\nblocked|0\ndatabase|master|ONLINE|3600\ndatabase|tempdb|ONLINE|NULL\ndatabase|shop|ONLINE|NULL\ndatabase|old|OFFLINE|NULL\nlog|master|40\nlog|shop|12\nend\n", errors = "", exit_status = 0, seconds = 0.2 } },
    },
    expect = { status = "critical", summary = "shop has no full backup, version 16.0.4135.4, 3 databases online" },
  },
  {
    name = "a name with a bar in it",
    args = { databases = { "a|b" } },
    host = {
      program = { args = { { name = "mssql" } }, value = { text = "version|16.0.4135.4\nuptime|86400\nsessions|12\nblocked|0\ndatabase|master|ONLINE|3600\ndatabase|tempdb|ONLINE|NULL\ndatabase|a|b|ONLINE|7200\ndatabase|old|OFFLINE|NULL\nlog|master|40\nlog|a|b|12\nend\n", errors = "", exit_status = 0, seconds = 0.2 } },
    },
    expect = { status = "ok", summary = "version 16.0.4135.4, 3 databases online" },
  },
  {
    name = "a name with a line's end in it",
    host = {
      program = { args = { { name = "mssql" } }, value = { text = "version|16.0.4135.4\nuptime|86400\nsessions|12\nblocked|0\ndatabase|master|ONLINE|3600\ndatabase|tempdb|ONLINE|NULL\ndatabase|x\nend\ny|ONLINE|7200\ndatabase|old|OFFLINE|NULL\nlog|master|40\nlog|shop|12\nend\n", errors = "", exit_status = 0, seconds = 0.2 } },
    },
    expect = { status = "unknown", summary = "the program mssql writes a line that the queries do not have: database|x" },
  },
  {
    name = "a name that would end the answer",
    host = {
      program = { args = { { name = "mssql" } }, value = { text = "version|16.0.4135.4\nuptime|86400\nsessions|12\nblocked|0\ndatabase|master|ONLINE|3600\ndatabase|tempdb|ONLINE|NULL\ndatabase|x|ONLINE|1\nend\ny|ONLINE|7200\ndatabase|old|OFFLINE|NULL\nlog|master|40\nlog|shop|12\nend\n", errors = "", exit_status = 0, seconds = 0.2 } },
    },
    expect = { status = "unknown", summary = "the program mssql writes more behind the end of the queries" },
  },
  {
    name = "escapes of a terminal",
    host = {
      program = { args = { { name = "mssql" } }, value = { text = "\27[2J\nversion|16.0.4135.4\nuptime|86400\nsessions|12\nblocked|0\ndatabase|master|ONLINE|3600\ndatabase|tempdb|ONLINE|NULL\ndatabase|shop|ONLINE|7200\ndatabase|old|OFFLINE|NULL\nlog|master|40\nlog|shop|12\nend\n", errors = "", exit_status = 0, seconds = 0.2 } },
    },
    expect = { status = "unknown" },
  },
  {
    name = "an answer that breaks off",
    host = {
      program = { args = { { name = "mssql" } }, value = { text = "version|16.0.4135.4\nuptime|86400\nsessions|12\nblocked|0\ndatabase|master|ONLINE|3600\ndatabase|tempdb|ONLINE|NULL\ndatabase|shop|ONLINE|7200\ndatabase|old|OFFLINE|NULL\n", errors = "", exit_status = 0, seconds = 0.2 } },
    },
    expect = { status = "unknown", summary = "the program mssql breaks off before the end of the queries" },
  },
  {
    name = "another program's answer",
    host = {
      program = { args = { { name = "mssql" } }, value = { text = "Microsoft (R) SQL Server Command Line Tool\n", errors = "", exit_status = 0, seconds = 0.2 } },
    },
    expect = { status = "unknown", summary = "the program mssql writes a line that the queries do not have: Microsoft (R) SQL Server Command Line Tool" },
  },
  {
    name = "nothing",
    host = {
      program = { args = { { name = "mssql" } }, value = { text = "", errors = "", exit_status = 0, seconds = 0.2 } },
    },
    expect = { status = "unknown", summary = "the program mssql breaks off before the end of the queries" },
  },
  {
    name = "a figure that is none",
    host = {
      program = { args = { { name = "mssql" } }, value = { text = "version|16.0.4135.4\nuptime|86400\nsessions|nan\nblocked|0\ndatabase|master|ONLINE|3600\ndatabase|tempdb|ONLINE|NULL\ndatabase|shop|ONLINE|7200\ndatabase|old|OFFLINE|NULL\nlog|master|40\nlog|shop|12\nend\n", errors = "", exit_status = 0, seconds = 0.2 } },
    },
    expect = { status = "unknown" },
  },
  {
    name = "figures that are left out",
    host = {
      program = { args = { { name = "mssql" } }, value = { text = "database|master|ONLINE|3600\ndatabase|tempdb|ONLINE|NULL\ndatabase|shop|ONLINE|7200\ndatabase|old|OFFLINE|NULL\nend\n", errors = "", exit_status = 0, seconds = 0.2 } },
    },
    expect = { status = "unknown" },
  },
  {
    name = "a login that is refused",
    host = {
      program = { args = { { name = "mssql" } }, value = { text = "", errors = "Sqlcmd: Error: Microsoft ODBC Driver 18 for SQL Server : Login failed for user 'equus'..\n", exit_status = 1, seconds = 0.2 } },
    },
    expect = { status = "critical", summary = "mssql fails (exit status 1): Sqlcmd: Error: Microsoft ODBC Driver 18 for SQL Server : Login failed for user 'equus'.." },
  },
  {
    name = "a right that is missing",
    host = {
      program = { args = { { name = "mssql" } }, value = { text = "Msg 300, Level 14, State 1, Server db, Line 3\nVIEW SERVER STATE permission was denied\n", errors = "", exit_status = 1, seconds = 0.2 } },
    },
    expect = { status = "critical", summary = "mssql fails (exit status 1): VIEW SERVER STATE permission was denied" },
  },
  {
    name = "a server that hangs",
    host = { program = { args = { { name = "mssql" } }, code = "timeout", text = "the program mssql did not end within 40 s" } },
    expect = { status = "critical", summary = "the program mssql did not end within 40 s" },
  },
  {
    name = "a program that the policy does not name",
    host = { program = { args = { { name = "mssql" } }, code = "denied", text = "the policy has no program mssql" } },
    expect = { status = "unknown" },
  },
}
