return {
  {
    name = "without a fault",
    host = {
      ["kernel.btrfs"] = { value = { { uuid = "1b2c", label = "data", names = { "sda" }, data = { total_bytes = 1000, used_bytes = 990 }, metadata = { total_bytes = 100, used_bytes = 50 }, system = { total_bytes = 10, used_bytes = 1 }, devices = { { id = 1, missing = false, errors = { write = 0, read = 0, flush = 0, corruption = 0, generation = 0 } }, { id = 2, missing = false, errors = { write = 0, read = 0, flush = 0, corruption = 0, generation = 0 } } } } } },
    },
    expect = {
      status = "ok",
      summary = "1 filesystem without a fault",
      metrics = {
        ["errors{device=1,filesystem=data}"] = { value = 0, unit = "errors", warn = "0" },
        ["metadata_used{filesystem=data}"] = { value = 50, unit = "%", warn = "90" },
        ["data_used{filesystem=data}"] = 99,
      },
    },
  },
  {
    name = "errors of a device",
    host = {
      ["kernel.btrfs"] = { value = { { uuid = "1b2c", label = "data", names = { "sda" }, data = { total_bytes = 1000, used_bytes = 990 }, metadata = { total_bytes = 100, used_bytes = 50 }, system = { total_bytes = 10, used_bytes = 1 }, devices = { { id = 2, missing = false, errors = { write = 0, read = 3, flush = 0, corruption = 4, generation = 0 } } } } } },
    },
    expect = { status = "warning", summary = "data: 7 errors of device 2" },
  },
  {
    name = "a device is missing",
    host = {
      ["kernel.btrfs"] = { value = { { uuid = "1b2c", label = "", names = { "sda" }, data = { total_bytes = 1000, used_bytes = 990 }, metadata = { total_bytes = 100, used_bytes = 50 }, system = { total_bytes = 10, used_bytes = 1 }, devices = { { id = 2, missing = true, errors = {} } } } } },
    },
    expect = { status = "critical", summary = "1b2c: device 2 is missing" },
  },
  {
    name = "little room for metadata",
    host = {
      ["kernel.btrfs"] = { value = { { uuid = "1b2c", label = "data", names = { "sda" }, data = { total_bytes = 1000, used_bytes = 990 }, metadata = { total_bytes = 100, used_bytes = 95 }, system = { total_bytes = 10, used_bytes = 1 }, devices = { { id = 1, missing = false, errors = { write = 0, read = 0, flush = 0, corruption = 0, generation = 0 } }, { id = 2, missing = false, errors = { write = 0, read = 0, flush = 0, corruption = 0, generation = 0 } } } } } },
    },
    expect = { status = "warning", summary = "data: metadata takes 95 % of its room: see btrfs filesystem usage" },
  },
  {
    name = "an old kernel tells no errors",
    host = {
      ["kernel.btrfs"] = { value = { { uuid = "1b2c", label = "data", names = { "sda" }, data = { total_bytes = 1000, used_bytes = 990 }, metadata = { total_bytes = 100, used_bytes = 50 }, system = { total_bytes = 10, used_bytes = 1 }, devices = { { id = 1, missing = false, errors = {} } } } } },
    },
    expect = { status = "ok" },
  },
  {
    name = "none is mounted",
    host = {
      ["kernel.btrfs"] = { value = {} },
    },
    expect = { status = "unknown", summary = "no filesystem of Btrfs is mounted", metrics = {} },
  },
  {
    name = "no Btrfs",
    host = {
      ["kernel.btrfs"] = { code = "unsupported", text = "this host has no Btrfs" },
    },
    expect = { status = "unknown", metrics = {} },
  },
  {
    name = "no device is told",
    host = {
      ["kernel.btrfs"] = { value = { { uuid = "1b2c", label = "data", names = { "sda" }, data = { total_bytes = 1000, used_bytes = 990 }, metadata = { total_bytes = 100, used_bytes = 50 }, system = { total_bytes = 10, used_bytes = 1 }, devices = {} } } },
    },
    expect = { status = "unknown", summary = "data: nothing is told of its devices" },
  },
}
