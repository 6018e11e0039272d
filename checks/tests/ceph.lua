return {
  {
    name = "well",
    host = {
      program = { args = { { name = "ceph", json = true } }, value = { json = { health = { status = "HEALTH_OK", checks = {} }, quorum_names = { "a", "b", "c" }, osdmap = { num_osds = 6, num_up_osds = 6, num_in_osds = 6 }, pgmap = { num_pgs = 100, bytes_used = 40, bytes_total = 100, degraded_ratio = 0.02, read_bytes_sec = 5000 } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = {
      status = "ok",
      summary = "HEALTH_OK, 6 of 6 storage daemons up, 40 B of 100 B used",
      metrics = {
        osds = { value = 6, unit = "daemons" },
        osds_up = 6,
        monitors_in_quorum = 3,
        used = { value = 40, unit = "%", warn = "75", crit = "85" },
        free = { value = 60, unit = "B" },
        degraded = { value = 2, unit = "%" },
        read = { value = 5000, unit = "B/s" },
      },
    },
  },
  {
    name = "a daemon is down",
    host = {
      program = { args = { { name = "ceph", json = true } }, value = { json = { health = { status = "HEALTH_WARN", checks = { OSD_DOWN = { severity = "HEALTH_WARN", summary = { message = "1 osds down" }, muted = false } } }, quorum_names = { "a", "b", "c" }, osdmap = { osdmap = { num_osds = 6, num_up_osds = 5, num_in_osds = 6 } }, pgmap = { num_pgs = 100, bytes_used = 40, bytes_total = 100, degraded_ratio = 0.02, read_bytes_sec = 5000 } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = {
      status = "warning",
      summary = "1 osds down (OSD_DOWN), HEALTH_WARN, 5 of 6 storage daemons up, 40 B of 100 B used",
      metrics = {
        osds_up = 5,
      },
    },
  },
  {
    name = "which does not matter",
    args = { ignore = { "OSD_*" } },
    host = {
      program = { args = { { name = "ceph", json = true } }, value = { json = { health = { status = "HEALTH_WARN", checks = { OSD_DOWN = { severity = "HEALTH_WARN", summary = { message = "1 osds down" }, muted = false } } }, quorum_names = { "a", "b", "c" }, osdmap = { num_osds = 6, num_up_osds = 6, num_in_osds = 6 }, pgmap = { num_pgs = 100, bytes_used = 40, bytes_total = 100, degraded_ratio = 0.02, read_bytes_sec = 5000 } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "ok" },
  },
  {
    name = "an error beside what does not matter",
    args = { ignore = { "OSD_*" } },
    host = {
      program = { args = { { name = "ceph", json = true } }, value = { json = { health = { status = "HEALTH_ERR", checks = { OSD_DOWN = { severity = "HEALTH_WARN", summary = { message = "1 osds down" }, muted = false }, PG_DAMAGED = { severity = "HEALTH_ERR", summary = { message = "1 pg inconsistent" } } } }, quorum_names = { "a", "b", "c" }, osdmap = { num_osds = 6, num_up_osds = 6, num_in_osds = 6 }, pgmap = { num_pgs = 100, bytes_used = 40, bytes_total = 100, degraded_ratio = 0.02, read_bytes_sec = 5000 } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "critical", summary = "1 pg inconsistent (PG_DAMAGED), HEALTH_ERR, 6 of 6 storage daemons up, 40 B of 100 B used" },
  },
  {
    name = "bad without a reason",
    host = {
      program = { args = { { name = "ceph", json = true } }, value = { json = { health = { status = "HEALTH_ERR", checks = {} }, quorum_names = { "a", "b", "c" }, osdmap = { num_osds = 6, num_up_osds = 6, num_in_osds = 6 }, pgmap = { num_pgs = 100, bytes_used = 40, bytes_total = 100, degraded_ratio = 0.02, read_bytes_sec = 5000 } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "critical", summary = "HEALTH_ERR, 6 of 6 storage daemons up, 40 B of 100 B used" },
  },
  {
    name = "nearly full",
    host = {
      program = { args = { { name = "ceph", json = true } }, value = { json = { health = { status = "HEALTH_OK", checks = {} }, quorum_names = { "a", "b", "c" }, osdmap = { num_osds = 6, num_up_osds = 6, num_in_osds = 6 }, pgmap = { num_pgs = 100, bytes_used = 90, bytes_total = 100, degraded_ratio = 0.02, read_bytes_sec = 5000 } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "critical" },
  },
  {
    name = "a severity that nobody knows",
    host = {
      program = { args = { { name = "ceph", json = true } }, value = { json = { health = { status = "HEALTH_OK", checks = { X = { severity = "HEALTH_ODD" } } }, quorum_names = { "a", "b", "c" }, osdmap = { num_osds = 6, num_up_osds = 6, num_in_osds = 6 }, pgmap = { num_pgs = 100, bytes_used = 40, bytes_total = 100, degraded_ratio = 0.02, read_bytes_sec = 5000 } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "no message (X), HEALTH_OK, 6 of 6 storage daemons up, 40 B of 100 B used" },
  },
  {
    name = "no status",
    host = {
      program = { args = { { name = "ceph", json = true } }, value = { json = { a = 1 }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "the program ceph writes no status of Ceph", metrics = {} },
  },
  {
    name = "no monitor answers",
    host = {
      program = { code = "timeout", text = "program ceph did not end within 40 s" },
    },
    expect = { status = "critical", summary = "program ceph did not end within 40 s", metrics = {} },
  },
  {
    name = "the policy does not name it",
    host = {
      program = { code = "denied", text = "program ceph is not granted: add it to /etc/equus/policy.toml, section [programs.ceph]" },
    },
    expect = { status = "unknown", metrics = {} },
  },
  {
    name = "nothing of its storage",
    host = {
      program = { args = { { name = "ceph", json = true } }, value = { json = { health = { status = "HEALTH_OK", checks = {} }, quorum_names = { "a" } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "HEALTH_OK, 0 of 0 storage daemons up, it tells nothing of its storage daemons or its space" },
  },
  {
    name = "nothing of its space",
    host = {
      program = { args = { { name = "ceph", json = true } }, value = { json = { health = { status = "HEALTH_OK", checks = {} }, osdmap = { num_osds = 4, num_up_osds = 4, num_in_osds = 4 } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "HEALTH_OK, 4 of 4 storage daemons up, it tells nothing of its storage daemons or its space" },
  },
}
