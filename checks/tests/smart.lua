return {
  {
    name = "a disk and an NVMe",
    args = { devices = { "/dev/sda", "/dev/nvme0" } },
    host = {
      program = {
        { args = { { name = "smartctl", json = true, args = { device = "/dev/sda" } } }, value = { json = { smartctl = { exit_status = 0 }, model_name = "ST4000", smart_status = { passed = true }, temperature = { current = 34 }, power_on_time = { hours = 100 }, ata_smart_attributes = { table = { { id = 5, name = "Reallocated_Sector_Ct", value = 100, raw = { value = 0 } }, { id = 197, name = "Current_Pending_Sector", value = 100, raw = { value = 0 } }, { id = 198, name = "Offline_Uncorrectable", value = 100, raw = { value = 0 } } } } }, errors = "", exit_status = 0, seconds = 0.1 } },
        { args = { { name = "smartctl", json = true, args = { device = "/dev/nvme0" } } }, value = { json = { smartctl = { exit_status = 0 }, model_name = "PM9A3", smart_status = { passed = true }, temperature = { current = 41 }, nvme_smart_health_information_log = { critical_warning = 0, percentage_used = 12, media_errors = 0, available_spare = 100, unsafe_shutdowns = 3 } }, errors = "", exit_status = 0, seconds = 0.1 } },
      },
    },
    expect = {
      status = "ok",
      summary = "/dev/sda (ST4000): good, /dev/nvme0 (PM9A3): good",
      metrics = {
        ["temperature{device=/dev/sda}"] = { value = 34, unit = "Cel", warn = "60", crit = "70" },
        ["reallocated{device=/dev/sda}"] = { value = 0, unit = "sectors", warn = "10" },
        ["pending{device=/dev/sda}"] = { value = 0, warn = "0" },
        ["age{device=/dev/sda}"] = { value = 360000, unit = "s" },
        ["wear{device=/dev/nvme0}"] = { value = 12, unit = "%", warn = "90" },
        ["media_errors{device=/dev/nvme0}"] = 0,
        ["spare{device=/dev/nvme0}"] = 100,
        ["unsafe_shutdowns{device=/dev/nvme0}"] = 3,
      },
    },
  },
  {
    name = "a disk that is failing",
    args = { devices = { "/dev/sda" } },
    host = {
      program = { args = { { name = "smartctl", json = true, args = { device = "/dev/sda" } } }, value = { json = { smartctl = { exit_status = 0 }, model_name = "ST4000", smart_status = { passed = false }, temperature = { current = 34 }, power_on_time = { hours = 100 }, ata_smart_attributes = { table = { { id = 5, name = "Reallocated_Sector_Ct", value = 100, raw = { value = 0 } }, { id = 197, name = "Current_Pending_Sector", value = 100, raw = { value = 0 } }, { id = 198, name = "Offline_Uncorrectable", value = 100, raw = { value = 0 } } } } }, errors = "", exit_status = 8, seconds = 0.1 } },
    },
    expect = { status = "critical", summary = "/dev/sda (ST4000): is failing: replace it" },
  },
  {
    name = "sectors that cannot be read",
    args = { devices = { "/dev/sda" } },
    host = {
      program = { args = { { name = "smartctl", json = true, args = { device = "/dev/sda" } } }, value = { json = { smartctl = { exit_status = 0 }, model_name = "ST4000", smart_status = { passed = true }, temperature = { current = 34 }, power_on_time = { hours = 100 }, ata_smart_attributes = { table = { { id = 5, name = "Reallocated_Sector_Ct", value = 100, raw = { value = 0 } }, { id = 197, name = "Current_Pending_Sector", value = 100, raw = { value = 8 } }, { id = 198, name = "Offline_Uncorrectable", value = 100, raw = { value = 8 } } } } }, errors = "", exit_status = 64, seconds = 0.1 } },
    },
    expect = { status = "warning", summary = "/dev/sda (ST4000): 8 sectors cannot be read, 8 sectors are lost" },
  },
  {
    name = "few replaced sectors",
    args = { devices = { "/dev/sda" } },
    host = {
      program = { args = { { name = "smartctl", json = true, args = { device = "/dev/sda" } } }, value = { json = { smartctl = { exit_status = 0 }, model_name = "ST4000", smart_status = { passed = true }, temperature = { current = 34 }, power_on_time = { hours = 100 }, ata_smart_attributes = { table = { { id = 5, name = "Reallocated_Sector_Ct", value = 100, raw = { value = 8 } }, { id = 197, name = "Current_Pending_Sector", value = 100, raw = { value = 0 } }, { id = 198, name = "Offline_Uncorrectable", value = 100, raw = { value = 0 } } } } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "ok" },
  },
  {
    name = "many replaced sectors, and a failed self-test",
    args = { devices = { "/dev/sda" } },
    host = {
      program = { args = { { name = "smartctl", json = true, args = { device = "/dev/sda" } } }, value = { json = { smartctl = { exit_status = 0 }, model_name = "ST4000", smart_status = { passed = true }, temperature = { current = 34 }, power_on_time = { hours = 100 }, ata_smart_attributes = { table = { { id = 5, name = "Reallocated_Sector_Ct", value = 100, raw = { value = 80 } }, { id = 197, name = "Current_Pending_Sector", value = 100, raw = { value = 0 } }, { id = 198, name = "Offline_Uncorrectable", value = 100, raw = { value = 0 } } } } }, errors = "", exit_status = 128, seconds = 0.1 } },
    },
    expect = { status = "warning", summary = "/dev/sda (ST4000): 80 sectors replaced, a self-test has failed" },
  },
  {
    name = "an attribute below its limit",
    args = { devices = { "/dev/sda" } },
    host = {
      program = { args = { { name = "smartctl", json = true, args = { device = "/dev/sda" } } }, value = { json = { smartctl = { exit_status = 0 }, model_name = "ST4000", smart_status = { passed = true }, temperature = { current = 34 }, power_on_time = { hours = 100 }, ata_smart_attributes = { table = { { id = 5, name = "Reallocated_Sector_Ct", value = 100, raw = { value = 0 } }, { id = 197, name = "Current_Pending_Sector", value = 100, raw = { value = 0 } }, { id = 198, name = "Offline_Uncorrectable", value = 100, raw = { value = 0 } } } } }, errors = "", exit_status = 16, seconds = 0.1 } },
    },
    expect = { status = "warning", summary = "/dev/sda (ST4000): an attribute is below its limit" },
  },
  {
    name = "it is hot",
    args = { devices = { "/dev/sda" } },
    host = {
      program = { args = { { name = "smartctl", json = true, args = { device = "/dev/sda" } } }, value = { json = { smartctl = { exit_status = 0 }, model_name = "ST4000", smart_status = { passed = true }, temperature = { current = 72 }, power_on_time = { hours = 100 }, ata_smart_attributes = { table = { { id = 5, name = "Reallocated_Sector_Ct", value = 100, raw = { value = 0 } }, { id = 197, name = "Current_Pending_Sector", value = 100, raw = { value = 0 } }, { id = 198, name = "Offline_Uncorrectable", value = 100, raw = { value = 0 } } } } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "critical", summary = "/dev/sda (ST4000): 72 °C" },
  },
  {
    name = "an NVMe with two warnings",
    args = { devices = { "/dev/sda" } },
    host = {
      program = { args = { { name = "smartctl", json = true, args = { device = "/dev/sda" } } }, value = { json = { smartctl = { exit_status = 0 }, model_name = "PM9A3", smart_status = { passed = true }, temperature = { current = 41 }, nvme_smart_health_information_log = { critical_warning = 9, percentage_used = 12, media_errors = 0, available_spare = 100, unsafe_shutdowns = 3 } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "critical", summary = "/dev/sda (PM9A3): few spare blocks are left, takes no writes any more" },
  },
  {
    name = "a flash disk that is used up",
    args = { devices = { "/dev/sda" } },
    host = {
      program = { args = { { name = "smartctl", json = true, args = { device = "/dev/sda" } } }, value = { json = { smartctl = { exit_status = 0 }, model_name = "PM9A3", smart_status = { passed = true }, temperature = { current = 41 }, nvme_smart_health_information_log = { critical_warning = 0, percentage_used = 103, media_errors = 2, available_spare = 100, unsafe_shutdowns = 3 } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "critical", summary = "/dev/sda (PM9A3): 2 media errors, 103 % of its life used" },
  },
  {
    name = "a flash disk that counts down",
    args = { devices = { "/dev/sda" } },
    host = {
      program = { args = { { name = "smartctl", json = true, args = { device = "/dev/sda" } } }, value = { json = { smartctl = { exit_status = 0 }, model_name = "ST4000", smart_status = { passed = true }, temperature = { current = 34 }, power_on_time = { hours = 100 }, ata_smart_attributes = { table = { { id = 177, name = "Wear_Leveling_Count", value = 8, raw = { value = 1 } } } } }, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = {
      status = "warning",
      metrics = {
        ["wear{device=/dev/sda}"] = 92,
      },
    },
  },
  {
    name = "it cannot be opened",
    args = { devices = { "/dev/sda" } },
    host = {
      program = { args = { { name = "smartctl", json = true, args = { device = "/dev/sda" } } }, value = { json = { smartctl = { exit_status = 2, messages = { { string = "Smartctl open device: /dev/sda failed: Permission denied", severity = "error" } } } }, errors = "", exit_status = 2, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "/dev/sda cannot be opened: Smartctl open device: /dev/sda failed: Permission denied", metrics = {} },
  },
  {
    name = "a disk of a virtual machine",
    args = { devices = { "/dev/sda" } },
    host = {
      program = { args = { { name = "smartctl", json = true, args = { device = "/dev/sda" } } }, value = { json = { smartctl = { exit_status = 4 }, model_name = "QEMU" }, errors = "", exit_status = 4, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "/dev/sda (QEMU) does not tell its health", metrics = {} },
  },
  {
    name = "one is good and one does not tell",
    args = { devices = { "/dev/sda", "/dev/sdb" } },
    host = {
      program = {
        { args = { { name = "smartctl", json = true, args = { device = "/dev/sda" } } }, value = { json = { smartctl = { exit_status = 0 }, model_name = "ST4000", smart_status = { passed = true }, temperature = { current = 34 }, power_on_time = { hours = 100 }, ata_smart_attributes = { table = { { id = 5, name = "Reallocated_Sector_Ct", value = 100, raw = { value = 0 } }, { id = 197, name = "Current_Pending_Sector", value = 100, raw = { value = 0 } }, { id = 198, name = "Offline_Uncorrectable", value = 100, raw = { value = 0 } } } } }, errors = "", exit_status = 0, seconds = 0.1 } },
        { args = { { args = { device = "/dev/sdb" } } }, code = "timeout", text = "program smartctl did not end within 25 s" },
      },
    },
    expect = { status = "unknown", summary = "/dev/sdb: program smartctl did not end within 25 s" },
  },
  {
    name = "an answer that is no table",
    args = { devices = { "/dev/sda" } },
    host = {
      program = { args = { { name = "smartctl", json = true, args = { device = "/dev/sda" } } }, value = { json = 7, errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "/dev/sda: the program smartctl writes no JSON document", metrics = {} },
  },
  {
    name = "no disk is named",
    args = { devices = {} },
    expect = { status = "unknown", summary = "devices: name 1 to 64 disks", metrics = {} },
  },
  {
    name = "the policy does not name it",
    args = { devices = { "/dev/sda" } },
    host = {
      program = { code = "denied", text = "program smartctl is not granted: add it to /etc/equus/policy.toml, section [programs.smartctl]" },
    },
    expect = { status = "unknown", summary = "/dev/sda: program smartctl is not granted: add it to /etc/equus/policy.toml, section [programs.smartctl]", metrics = {} },
  },
  {
    name = "an NVMe that does not tell its wear",
    args = { devices = { "/dev/sda", "/dev/nvme0" } },
    host = {
      program = {
        { args = { { name = "smartctl", json = true, args = { device = "/dev/sda" } } }, value = { json = { smartctl = { exit_status = 0 }, model_name = "ST4000", smart_status = { passed = true }, temperature = { current = 34 }, power_on_time = { hours = 100 }, ata_smart_attributes = { table = { { id = 5, name = "Reallocated_Sector_Ct", value = 100, raw = { value = 0 } }, { id = 197, name = "Current_Pending_Sector", value = 100, raw = { value = 0 } }, { id = 198, name = "Offline_Uncorrectable", value = 100, raw = { value = 0 } } } } }, errors = "", exit_status = 0, seconds = 0.1 } },
        { args = { { name = "smartctl", json = true, args = { device = "/dev/nvme0" } } }, value = { json = { smartctl = { exit_status = 0 }, model_name = "PM9A3", smart_status = { passed = true }, temperature = { current = 41 }, nvme_smart_health_information_log = { critical_warning = 0, percentage_unused = 12, media_errors = 0, available_spare = 100, unsafe_shutdowns = 3 } }, errors = "", exit_status = 0, seconds = 0.1 } },
      },
    },
    expect = { status = "unknown" },
  },
  {
    name = "a disk whose attributes are not asked for",
    args = { devices = { "/dev/sda", "/dev/nvme0" } },
    host = {
      program = {
        { args = { { name = "smartctl", json = true, args = { device = "/dev/sda" } } }, value = { json = { smartctl = { exit_status = 0 }, device = { protocol = "ATA" }, model_name = "ST4000", smart_status = { passed = true }, temperature = { current = 34 }, power_on_time = { hours = 100 } }, errors = "", exit_status = 0, seconds = 0.1 } },
        { args = { { name = "smartctl", json = true, args = { device = "/dev/nvme0" } } }, value = { json = { smartctl = { exit_status = 0 }, model_name = "PM9A3", smart_status = { passed = true }, temperature = { current = 41 }, nvme_smart_health_information_log = { critical_warning = 0, percentage_used = 12, media_errors = 0, available_spare = 100, unsafe_shutdowns = 3 } }, errors = "", exit_status = 0, seconds = 0.1 } },
      },
    },
    expect = { status = "unknown" },
  },
}
