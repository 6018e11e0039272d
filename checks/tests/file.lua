local fresh = {
  path = "/var/backups/db.gz", type = "file", size_bytes = 104857600, mode = "0640", uid = 0, gid = 6, modified_at = 1699996400.0,
  accessed_at = 1699996400.0, changed_at = 1699996400.0, age_seconds = 3600.0, links = 1, inode = 4711,
}
local sum = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

return {
  {
    name = "there, and fresh",
    args = { path = "/var/backups/db.gz", age_crit = "90000", size_warn = "1:" },
    host = { ["file.stat"] = { args = { "/var/backups/db.gz" }, value = fresh } },
    expect = {
      status = "ok", summary = "/var/backups/db.gz 100.0 MiB, changed 1 h 0 min ago",
      metrics = {
        ["age{path=/var/backups/db.gz}"] = { value = 3600, unit = "s", crit = "90000" },
        ["size{path=/var/backups/db.gz}"] = { value = 104857600, unit = "B", warn = "1:" },
      },
    },
  },
  {
    name = "older than it should be",
    args = { path = "/var/backups/db.gz", age_warn = "1800", age_crit = "90000" },
    host = { ["file.stat"] = { value = fresh } },
    expect = { status = "warning" },
  },
  {
    name = "missing",
    args = { path = "/var/backups/db.gz" },
    host = { ["file.stat"] = { code = "not-found", text = "/var/backups/db.gz does not exist" } },
    expect = { status = "critical", summary = "/var/backups/db.gz does not exist", metrics = {} },
  },
  {
    name = "missing, as it should be",
    args = { path = "/run/nologin", missing = "ok" },
    host = { ["file.stat"] = { code = "not-found", text = "/run/nologin does not exist" } },
    expect = { status = "ok", summary = "/run/nologin does not exist" },
  },
  {
    name = "holds what it should",
    args = { path = "/etc/motd", sha256 = "9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08" },
    host = {
      ["file.stat"] = { value = fresh },
      ["file.checksum"] = { args = { "/etc/motd", "sha256" }, value = { algorithm = "sha256", digest = sum, size_bytes = 4 } },
    },
    expect = { status = "ok", summary = "/etc/motd 100.0 MiB, changed 1 h 0 min ago, SHA-256 as expected" },
  },
  {
    name = "holds something else",
    args = { path = "/etc/motd", sha256 = "00" },
    host = { ["file.stat"] = { value = fresh }, ["file.checksum"] = { value = { algorithm = "sha256", digest = sum, size_bytes = 4 } } },
    expect = { status = "critical", summary = "/etc/motd holds something else: its SHA-256 is " .. sum },
  },
  {
    name = "not granted",
    args = { path = "/etc/shadow" },
    host = { ["file.stat"] = { code = "denied", text = "/etc/shadow is not granted" } },
    expect = { status = "unknown", summary = "/etc/shadow is not granted", metrics = {} },
  },
}
