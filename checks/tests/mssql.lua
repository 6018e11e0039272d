-- What sqlcmd writes for the queries of docs/checks.rst.

-- A server of 120 databases, of which the last two have a full log and an old backup; a result keeps fewer metrics than that makes.
local MANY = "version|16.0.4135.4\nuptime|86400\nsessions|12\nblocked|0\ndatabase|d001|ONLINE|60\nlog|d001|10\ndatabase|d002|ONLINE|60\nlog|d002|10\ndatabase|d003|ONLINE|60\nlog|d003|10\ndatabase|d004|ONLINE|60\nlog|d004|10\ndatabase|d005|ONLINE|60\nlog|d005|10\ndatabase|d006|ONLINE|60\nlog|d006|10\ndatabase|d007|ONLINE|60\nlog|d007|10\ndatabase|d008|ONLINE|60\nlog|d008|10\ndatabase|d009|ONLINE|60\nlog|d009|10\ndatabase|d010|ONLINE|60\nlog|d010|10\ndatabase|d011|ONLINE|60\nlog|d011|10\ndatabase|d012|ONLINE|60\nlog|d012|10\ndatabase|d013|ONLINE|60\nlog|d013|10\ndatabase|d014|ONLINE|60\nlog|d014|10\ndatabase|d015|ONLINE|60\nlog|d015|10\ndatabase|d016|ONLINE|60\nlog|d016|10\ndatabase|d017|ONLINE|60\nlog|d017|10\ndatabase|d018|ONLINE|60\nlog|d018|10\ndatabase|d019|ONLINE|60\nlog|d019|10\ndatabase|d020|ONLINE|60\nlog|d020|10\ndatabase|d021|ONLINE|60\nlog|d021|10\ndatabase|d022|ONLINE|60\nlog|d022|10\ndatabase|d023|ONLINE|60\nlog|d023|10\ndatabase|d024|ONLINE|60\nlog|d024|10\ndatabase|d025|ONLINE|60\nlog|d025|10\ndatabase|d026|ONLINE|60\nlog|d026|10\ndatabase|d027|ONLINE|60\nlog|d027|10\ndatabase|d028|ONLINE|60\nlog|d028|10\ndatabase|d029|ONLINE|60\nlog|d029|10\ndatabase|d030|ONLINE|60\nlog|d030|10\ndatabase|d031|ONLINE|60\nlog|d031|10\ndatabase|d032|ONLINE|60\nlog|d032|10\ndatabase|d033|ONLINE|60\nlog|d033|10\ndatabase|d034|ONLINE|60\nlog|d034|10\ndatabase|d035|ONLINE|60\nlog|d035|10\ndatabase|d036|ONLINE|60\nlog|d036|10\ndatabase|d037|ONLINE|60\nlog|d037|10\ndatabase|d038|ONLINE|60\nlog|d038|10\ndatabase|d039|ONLINE|60\nlog|d039|10\ndatabase|d040|ONLINE|60\nlog|d040|10\ndatabase|d041|ONLINE|60\nlog|d041|10\ndatabase|d042|ONLINE|60\nlog|d042|10\ndatabase|d043|ONLINE|60\nlog|d043|10\ndatabase|d044|ONLINE|60\nlog|d044|10\ndatabase|d045|ONLINE|60\nlog|d045|10\ndatabase|d046|ONLINE|60\nlog|d046|10\ndatabase|d047|ONLINE|60\nlog|d047|10\ndatabase|d048|ONLINE|60\nlog|d048|10\ndatabase|d049|ONLINE|60\nlog|d049|10\ndatabase|d050|ONLINE|60\nlog|d050|10\ndatabase|d051|ONLINE|60\nlog|d051|10\ndatabase|d052|ONLINE|60\nlog|d052|10\ndatabase|d053|ONLINE|60\nlog|d053|10\ndatabase|d054|ONLINE|60\nlog|d054|10\ndatabase|d055|ONLINE|60\nlog|d055|10\ndatabase|d056|ONLINE|60\nlog|d056|10\ndatabase|d057|ONLINE|60\nlog|d057|10\ndatabase|d058|ONLINE|60\nlog|d058|10\ndatabase|d059|ONLINE|60\nlog|d059|10\ndatabase|d060|ONLINE|60\nlog|d060|10\ndatabase|d061|ONLINE|60\nlog|d061|10\ndatabase|d062|ONLINE|60\nlog|d062|10\ndatabase|d063|ONLINE|60\nlog|d063|10\ndatabase|d064|ONLINE|60\nlog|d064|10\ndatabase|d065|ONLINE|60\nlog|d065|10\ndatabase|d066|ONLINE|60\nlog|d066|10\ndatabase|d067|ONLINE|60\nlog|d067|10\ndatabase|d068|ONLINE|60\nlog|d068|10\ndatabase|d069|ONLINE|60\nlog|d069|10\ndatabase|d070|ONLINE|60\nlog|d070|10\ndatabase|d071|ONLINE|60\nlog|d071|10\ndatabase|d072|ONLINE|60\nlog|d072|10\ndatabase|d073|ONLINE|60\nlog|d073|10\ndatabase|d074|ONLINE|60\nlog|d074|10\ndatabase|d075|ONLINE|60\nlog|d075|10\ndatabase|d076|ONLINE|60\nlog|d076|10\ndatabase|d077|ONLINE|60\nlog|d077|10\ndatabase|d078|ONLINE|60\nlog|d078|10\ndatabase|d079|ONLINE|60\nlog|d079|10\ndatabase|d080|ONLINE|60\nlog|d080|10\ndatabase|d081|ONLINE|60\nlog|d081|10\ndatabase|d082|ONLINE|60\nlog|d082|10\ndatabase|d083|ONLINE|60\nlog|d083|10\ndatabase|d084|ONLINE|60\nlog|d084|10\ndatabase|d085|ONLINE|60\nlog|d085|10\ndatabase|d086|ONLINE|60\nlog|d086|10\ndatabase|d087|ONLINE|60\nlog|d087|10\ndatabase|d088|ONLINE|60\nlog|d088|10\ndatabase|d089|ONLINE|60\nlog|d089|10\ndatabase|d090|ONLINE|60\nlog|d090|10\ndatabase|d091|ONLINE|60\nlog|d091|10\ndatabase|d092|ONLINE|60\nlog|d092|10\ndatabase|d093|ONLINE|60\nlog|d093|10\ndatabase|d094|ONLINE|60\nlog|d094|10\ndatabase|d095|ONLINE|60\nlog|d095|10\ndatabase|d096|ONLINE|60\nlog|d096|10\ndatabase|d097|ONLINE|60\nlog|d097|10\ndatabase|d098|ONLINE|60\nlog|d098|10\ndatabase|d099|ONLINE|60\nlog|d099|10\ndatabase|d100|ONLINE|60\nlog|d100|10\ndatabase|d101|ONLINE|60\nlog|d101|10\ndatabase|d102|ONLINE|60\nlog|d102|10\ndatabase|d103|ONLINE|60\nlog|d103|10\ndatabase|d104|ONLINE|60\nlog|d104|10\ndatabase|d105|ONLINE|60\nlog|d105|10\ndatabase|d106|ONLINE|60\nlog|d106|10\ndatabase|d107|ONLINE|60\nlog|d107|10\ndatabase|d108|ONLINE|60\nlog|d108|10\ndatabase|d109|ONLINE|60\nlog|d109|10\ndatabase|d110|ONLINE|60\nlog|d110|10\ndatabase|d111|ONLINE|60\nlog|d111|10\ndatabase|d112|ONLINE|60\nlog|d112|10\ndatabase|d113|ONLINE|60\nlog|d113|10\ndatabase|d114|ONLINE|60\nlog|d114|10\ndatabase|d115|ONLINE|60\nlog|d115|10\ndatabase|d116|ONLINE|60\nlog|d116|10\ndatabase|d117|ONLINE|60\nlog|d117|10\ndatabase|d118|ONLINE|60\nlog|d118|10\ndatabase|d119|ONLINE|60\nlog|d119|97\ndatabase|d120|ONLINE|100000\nlog|d120|10\nend\n"

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
    name = "a clock that was put back",
    args = { backup_warn = "86400" },
    host = {
      program = { args = { { name = "mssql" } }, value = { text = "version|16.0.4135.4\nuptime|-30\nsessions|12\nblocked|0\ndatabase|master|ONLINE|-1800\nlog|master|40\nend\n", errors = "", exit_status = 0, seconds = 0.2 } },
    },
    expect = { status = "ok", summary = "version 16.0.4135.4, 1 database online", metrics = { uptime = { value = 0, unit = "s" }, ["backup_age{database=master}"] = { value = 0, unit = "s", warn = "86400" } } },
  },
  {
    name = "an age that is none",
    host = {
      program = { args = { { name = "mssql" } }, value = { text = "version|16.0.4135.4\nuptime|86400\nsessions|12\nblocked|0\ndatabase|master|ONLINE|1-2\nlog|master|40\nend\n", errors = "", exit_status = 0, seconds = 0.2 } },
    },
    expect = { status = "unknown", summary = "the program mssql writes a line that the queries do not have: database|master|ONLINE|1-2" },
  },
  {
    name = "sessions that are too many",
    args = { warn = "10", crit = "11" },
    host = {
      program = { args = { { name = "mssql" } }, value = { text = "version|16.0.4135.4\nuptime|86400\nsessions|12\nblocked|0\ndatabase|master|ONLINE|3600\nlog|master|40\nend\n", errors = "", exit_status = 0, seconds = 0.2 } },
    },
    expect = { status = "critical", summary = "12 sessions of users, version 16.0.4135.4, 1 database online", metrics = { sessions = { value = 12, unit = "sessions", warn = "10", crit = "11" } } },
  },
  {
    name = "a right that is missing, behind rows",
    host = {
      program = { args = { { name = "mssql" } }, value = { text = "version|16.0.4135.4\nuptime|86400\nsessions|12\nblocked|0\ndatabase|master|ONLINE|3600\nlog|master|40\nMsg 229, Level 14, State 5, Server db, Line 7\r\nThe SELECT permission was denied on the object 'backupset'.\r\n", errors = "", exit_status = 1, seconds = 0.2 } },
    },
    expect = { status = "critical", summary = "mssql fails (exit status 1): The SELECT permission was denied on the object 'backupset'." },
  },
  {
    name = "the same, with errors apart from rows, behind a warning",
    host = {
      program = { args = { { name = "mssql" } }, value = { text = "version|16.0.4135.4\nuptime|86400\nsessions|12\nblocked|0\ndatabase|master|ONLINE|3600\nlog|master|40\n", errors = "Sqlcmd: Warning: The last operation was terminated.\nMsg 300, Level 14, State 1, Server db, Line 3\nVIEW SERVER STATE permission was denied\n", exit_status = 1, seconds = 0.2 } },
    },
    expect = { status = "critical", summary = "mssql fails (exit status 1): VIEW SERVER STATE permission was denied" },
  },
  {
    name = "one of very many databases",
    args = { backup_warn = "86400" },
    host = {
      program = { args = { { name = "mssql" } }, value = { text = MANY, errors = "", exit_status = 0, seconds = 0.2 } },
    },
    expect = {
      status = "critical", summary = "the log of d119 is full to 97 %, the backup of d120 is 1 d 3 h old, version 16.0.4135.4, 120 databases online",
      metrics = { sessions = 12, online = 120, ["log_used{database=d001}"] = 10 },
    },
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
