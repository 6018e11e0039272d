return {
  {
    name = "in order",
    host = {
      program = { args = { { name = "lvs", json = true } }, value = { json = { report = { { lv = { { vg_name = "vg0", lv_name = "root", lv_attr = "-wi-ao----", lv_size = "100", data_percent = "", metadata_percent = "", lv_health_status = "" }, { vg_name = "vg0", lv_name = "pool", lv_attr = "twi-aotz--", lv_size = "100", data_percent = "45.20", metadata_percent = "12.5", lv_health_status = "" } } } } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = {
      status = "ok",
      summary = "2 volumes in order",
      metrics = {
        ["data_used{volume=vg0/pool}"] = { value = 45.2, unit = "%", warn = "80", crit = "95" },
        ["metadata_used{volume=vg0/pool}"] = 12.5,
      },
    },
  },
  {
    name = "a thin pool fills up",
    host = {
      program = { args = { { name = "lvs", json = true } }, value = { json = { report = { { lv = { { vg_name = "vg0", lv_name = "pool", lv_attr = "twi-aotz--", lv_size = "100", data_percent = "85.00", metadata_percent = "12.5", lv_health_status = "" } } } } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "warning", summary = "vg0/pool: data 85 %" },
  },
  {
    name = "its metadata is full",
    host = {
      program = { args = { { name = "lvs", json = true } }, value = { json = { report = { { lv = { { vg_name = "vg0", lv_name = "pool", lv_attr = "twi-aotz--", lv_size = "100", data_percent = "10", metadata_percent = "99.9", lv_health_status = "" } } } } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "critical", summary = "vg0/pool: metadata 99.9 %" },
  },
  {
    name = "a snapshot that is lost",
    host = {
      program = { args = { { name = "lvs", json = true } }, value = { json = { report = { { lv = { { vg_name = "vg0", lv_name = "snap", lv_attr = "swi-I-s---", lv_size = "100", data_percent = "100.00", metadata_percent = "", lv_health_status = "" } } } } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "critical" },
  },
  {
    name = "a mirror to refresh",
    host = {
      program = { args = { { name = "lvs", json = true } }, value = { json = { report = { { lv = { { vg_name = "vg0", lv_name = "data", lv_attr = "rwi-aor-r-", lv_size = "100", data_percent = "", metadata_percent = "", lv_health_status = "refresh needed" } } } } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "warning", summary = "vg0/data: refresh needed" },
  },
  {
    name = "a mirror without a disk",
    host = {
      program = { args = { { name = "lvs", json = true } }, value = { json = { report = { { lv = { { vg_name = "vg0", lv_name = "data", lv_attr = "rwi-aor-p-", lv_size = "100", data_percent = "", metadata_percent = "", lv_health_status = "partial" } } } } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "critical", summary = "vg0/data: partial" },
  },
  {
    name = "which does not matter",
    args = { ignore = { "vg0/d*" } },
    host = {
      program = { args = { { name = "lvs", json = true } }, value = { json = { report = { { lv = { { vg_name = "vg0", lv_name = "data", lv_attr = "rwi-aor-p-", lv_size = "100", data_percent = "", metadata_percent = "", lv_health_status = "partial" } } } } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "ok" },
  },
  {
    name = "columns are missing",
    host = {
      program = { args = { { name = "lvs", json = true } }, value = { json = { report = { { lv = { { lv_name = "a" } } } } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "the report lacks vg_name, lv_name or lv_attr: see docs/checks.rst for the command", metrics = {} },
  },
  {
    name = "no volume",
    host = {
      program = { args = { { name = "lvs", json = true } }, value = { json = { report = { { lv = {} } } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "this host has no logical volume", metrics = {} },
  },
  {
    name = "it fails",
    host = {
      program = { args = { { name = "lvs", json = true } }, value = { json = { report = { { lv = {} } } }, errors = "", exit_status = 5, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "the program lvs writes no report of lvs (exit status 5)", metrics = {} },
  },
  {
    name = "another program",
    host = {
      program = { args = { { name = "lvs", json = true } }, value = { json = { report = 7 }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "unknown", metrics = {} },
  },
  {
    name = "the policy does not name it",
    host = {
      program = { code = "denied", text = "program lvs is not granted: add it to /etc/equus/policy.toml, section [programs.lvs]" },
    },
    expect = { status = "unknown", metrics = {} },
  },
  {
    name = "the column of the health is missing",
    host = {
      program = { args = { { name = "lvs", json = true } }, value = { json = { report = { { lv = { { vg_name = "vg7", lv_name = "thin", lv_attr = "rwi-aor-p-" } } } } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "the report lacks lv_health_status: see docs/checks.rst for the command" },
  },
  {
    name = "a column of how full it is is missing",
    host = {
      program = { args = { { name = "lvs", json = true } }, value = { json = { report = { { lv = { { vg_name = "vg7", lv_name = "thin", lv_attr = "twi-aotzD-", lv_health_status = "", data_percent = "12" } } } } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "the report lacks metadata_percent: see docs/checks.rst for the command" },
  },
  {
    name = "an active pool without a figure",
    host = {
      program = { args = { { name = "lvs", json = true } }, value = { json = { report = { { lv = { { vg_name = "vg7", lv_name = "thin", lv_attr = "twi-aotz--", lv_health_status = "", data_percent = "", metadata_percent = "3" } } } } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "vg7/thin: how full it is isn't told (data_percent)" },
  },
  {
    name = "a pool that is not active has none",
    host = {
      program = { args = { { name = "lvs", json = true } }, value = { json = { report = { { lv = { { vg_name = "vg7", lv_name = "thin", lv_attr = "twi---tz--", lv_health_status = "", data_percent = "", metadata_percent = "" } } } } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "ok" },
  },
}
