return {
  {
    name = "none",
    host = {
      program = { args = { { name = "apt-upgrades" } }, value = { text = "Reading package lists...\n0 upgraded, 0 newly installed, 0 to remove and 0 not upgraded.\n", errors = "", exit_status = 0, seconds = 0.1 } },
      ["file.stat"] = { args = { "/var/lib/apt/lists" }, value = { path = "/var/lib/apt/lists", type = "directory", age_seconds = 3600 } },
    },
    expect = {
      status = "ok",
      summary = "0 updates, 0 of them for security",
      metrics = {
        updates = { value = 0, unit = "packages" },
        security = { value = 0, warn = "0" },
        lists_age = { value = 3600, unit = "s", warn = "604800" },
      },
    },
  },
  {
    name = "two, one of them for security",
    host = {
      program = { args = { { name = "apt-upgrades" } }, value = { text = "Reading package lists...\nInst libc6 [2.36-9] (2.36-10 Debian:12.11/stable, Debian-Security:12/stable-security [amd64]) []\nInst vim [9.0] (9.1 Debian:12.11/stable [amd64])\nConf libc6 (2.36-10 Debian-Security:12/stable-security [amd64])\n2 upgraded, 0 newly installed, 0 to remove and 0 not upgraded.\n", errors = "", exit_status = 0, seconds = 0.1 } },
      ["file.stat"] = { args = { "/var/lib/apt/lists" }, value = { path = "/var/lib/apt/lists", type = "directory", age_seconds = 3600 } },
    },
    expect = {
      status = "warning",
      summary = "2 updates, 1 of them for security",
      metrics = {
        updates = 2,
        security = 1,
      },
    },
  },
  {
    name = "one for security is critical here",
    args = { security_crit = "0" },
    host = {
      program = { args = { { name = "apt-upgrades" } }, value = { text = "Reading package lists...\nInst libc6 [2.36-9] (2.36-10 Debian:12.11/stable, Debian-Security:12/stable-security [amd64]) []\nInst vim [9.0] (9.1 Debian:12.11/stable [amd64])\nConf libc6 (2.36-10 Debian-Security:12/stable-security [amd64])\n2 upgraded, 0 newly installed, 0 to remove and 0 not upgraded.\n", errors = "", exit_status = 0, seconds = 0.1 } },
      ["file.stat"] = { args = { "/var/lib/apt/lists" }, value = { path = "/var/lib/apt/lists", type = "directory", age_seconds = 3600 } },
    },
    expect = { status = "critical" },
  },
  {
    name = "lists that nobody has renewed know no updates",
    host = {
      program = { args = { { name = "apt-upgrades" } }, value = { text = "Reading package lists...\n0 upgraded, 0 newly installed, 0 to remove and 0 not upgraded.\n", errors = "", exit_status = 0, seconds = 0.1 } },
      ["file.stat"] = { args = { "/var/lib/apt/lists" }, value = { path = "/var/lib/apt/lists", type = "directory", age_seconds = 1209600 } },
    },
    expect = { status = "warning", summary = "0 updates, 0 of them for security, by lists that are 14 d 0 h old: run apt-get update" },
  },
  {
    name = "lists whose age may not be read",
    host = {
      program = { args = { { name = "apt-upgrades" } }, value = { text = "Reading package lists...\n0 upgraded, 0 newly installed, 0 to remove and 0 not upgraded.\n", errors = "", exit_status = 0, seconds = 0.1 } },
      ["file.stat"] = { code = "denied", text = "/var/lib/apt/lists is not granted" },
    },
    expect = { status = "unknown", summary = "0 updates, 0 of them for security; the age of the lists is not known: /var/lib/apt/lists is not granted" },
  },
  {
    name = "lists whose age does not matter",
    args = { lists = "" },
    host = {
      program = { args = { { name = "apt-upgrades" } }, value = { text = "Reading package lists...\n0 upgraded, 0 newly installed, 0 to remove and 0 not upgraded.\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "ok" },
  },
  {
    name = "apt fails",
    host = {
      program = { args = { { name = "apt-upgrades" } }, value = { text = "", errors = "E: Could not open lock file\n", exit_status = 100, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "the program apt-upgrades fails (exit status 100): E: Could not open lock file", metrics = {} },
  },
  {
    name = "another program",
    host = {
      program = { args = { { name = "apt-upgrades" } }, value = { text = "hello\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "the program apt-upgrades writes no simulation of apt-get: see docs/checks.rst for its command", metrics = {} },
  },
  {
    name = "dnf has none",
    args = { manager = "dnf" },
    host = {
      program = {
        { args = { { name = "dnf-updates" } }, value = { text = "", errors = "", exit_status = 0, seconds = 0.1 } },
        { args = { { name = "dnf-security" } }, value = { text = "", errors = "", exit_status = 0, seconds = 0.1 } },
      },
    },
    expect = { status = "ok", summary = "0 updates, 0 of them for security" },
  },
  {
    name = "dnf has two",
    args = { manager = "dnf" },
    host = {
      program = {
        { args = { { name = "dnf-updates" } }, value = { text = "\nkernel.x86_64     5.14.0-503.el9     baseos\nvim-enhanced.x86_64   2:8.2-21.el9   appstream\n\nObsoleting Packages\nold.noarch  1-1  base\n", errors = "", exit_status = 100, seconds = 0.1 } },
        { args = { { name = "dnf-security" } }, value = { text = "\nkernel.x86_64   5.14.0-503.el9   baseos\n", errors = "", exit_status = 100, seconds = 0.1 } },
      },
    },
    expect = { status = "warning", summary = "2 updates, 1 of them for security" },
  },
  {
    name = "dnf has some, and its list cannot be read",
    args = { manager = "dnf" },
    host = {
      program = {
        { args = { { name = "dnf-updates" } }, value = { text = "what?\n", errors = "", exit_status = 100, seconds = 0.1 } },
        { args = { { name = "dnf-security" } }, value = { text = "", errors = "", exit_status = 0, seconds = 0.1 } },
      },
    },
    expect = { status = "unknown", summary = "the program dnf-updates writes no list of dnf check-update", metrics = {} },
  },
  {
    name = "dnf fails",
    args = { manager = "dnf" },
    host = {
      program = {
        { args = { { name = "dnf-updates" } }, value = { text = "", errors = "", exit_status = 1, seconds = 0.1 } },
        { args = { { name = "dnf-security" } }, value = { text = "", errors = "", exit_status = 0, seconds = 0.1 } },
      },
    },
    expect = { status = "unknown", summary = "the program dnf-updates fails (exit status 1): it says nothing", metrics = {} },
  },
  {
    name = "the policy does not name it",
    host = {
      program = { code = "denied", text = "program apt-upgrades is not granted: add it to /etc/equus/policy.toml, section [programs.apt-upgrades]" },
    },
    expect = { status = "unknown", metrics = {} },
  },
}
