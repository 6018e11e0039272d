return {
  {
    name = "all in order",
    host = {
      ["kernel.sensors"] = { value = { { chip = "coretemp", name = "Package id 0", kind = "temperature", unit = "C", value = 51.5, alarm = false, fault = false, high = 80, critical = 100 }, { chip = "nct6775", name = "fan1", kind = "fan", unit = "C", value = 1200, alarm = false, fault = false }, { chip = "nct6775", name = "in0", kind = "voltage", unit = "C", value = 1.02, alarm = true, fault = false }, { chip = "nvme", name = "Composite", kind = "temperature", unit = "C", value = 38.9, alarm = false, fault = false, high = 84.8, critical = 65261.8 } } },
    },
    expect = {
      status = "ok",
      summary = "3 sensors in order, at most 51.5 °C",
      metrics = {
        ["temperature{sensor=coretemp/Package id 0}"] = { value = 51.5, unit = "Cel", warn = "~:80", crit = "~:100" },
        ["fan{sensor=nct6775/fan1}"] = { value = 1200, unit = "rpm" },
        ["temperature{sensor=nvme/Composite}"] = { value = 38.9, warn = "~:84.8" },
      },
    },
  },
  {
    name = "above the chip's own limit",
    host = {
      ["kernel.sensors"] = { value = { { chip = "coretemp", name = "Core 0", kind = "temperature", unit = "C", value = 83, alarm = false, fault = false, high = 80, critical = 100 } } },
    },
    expect = { status = "warning", summary = "coretemp/Core 0 has 83 °C" },
  },
  {
    name = "above its critical limit",
    host = {
      ["kernel.sensors"] = { value = { { chip = "coretemp", name = "Core 0", kind = "temperature", unit = "C", value = 101, alarm = false, fault = false, high = 80, critical = 100 } } },
    },
    expect = { status = "critical" },
  },
  {
    name = "which does not matter",
    args = { ignore = { "coretemp/*" } },
    host = {
      ["kernel.sensors"] = { value = { { chip = "coretemp", name = "Core 0", kind = "temperature", unit = "C", value = 101, alarm = false, fault = false, high = 80, critical = 100 } } },
    },
    expect = { status = "ok" },
  },
  {
    name = "above a limit of one's own",
    args = { warn = "50" },
    host = {
      ["kernel.sensors"] = { value = { { chip = "coretemp", name = "Package id 0", kind = "temperature", unit = "C", value = 51.5, alarm = false, fault = false, high = 80, critical = 100 }, { chip = "nct6775", name = "fan1", kind = "fan", unit = "C", value = 1200, alarm = false, fault = false }, { chip = "nct6775", name = "in0", kind = "voltage", unit = "C", value = 1.02, alarm = true, fault = false }, { chip = "nvme", name = "Composite", kind = "temperature", unit = "C", value = 38.9, alarm = false, fault = false, high = 84.8, critical = 65261.8 } } },
    },
    expect = { status = "warning", summary = "coretemp/Package id 0 has 51.5 °C" },
  },
  {
    name = "a fan that stands still",
    args = { fan_crit = "300:" },
    host = {
      ["kernel.sensors"] = { value = { { chip = "nct6775", name = "fan1", kind = "fan", unit = "C", value = 0, alarm = false, fault = false } } },
    },
    expect = { status = "critical", summary = "nct6775/fan1 has 0 rpm" },
  },
  {
    name = "a voltage with an alarm",
    args = { kinds = { "voltage" } },
    host = {
      ["kernel.sensors"] = { value = { { chip = "coretemp", name = "Package id 0", kind = "temperature", unit = "C", value = 51.5, alarm = false, fault = false, high = 80, critical = 100 }, { chip = "nct6775", name = "fan1", kind = "fan", unit = "C", value = 1200, alarm = false, fault = false }, { chip = "nct6775", name = "in0", kind = "voltage", unit = "C", value = 1.02, alarm = true, fault = false }, { chip = "nvme", name = "Composite", kind = "temperature", unit = "C", value = 38.9, alarm = false, fault = false, high = 84.8, critical = 65261.8 } } },
    },
    expect = { status = "warning", summary = "nct6775/in0 has 1.02 V and gives an alarm" },
  },
  {
    name = "alarms that mean nothing",
    args = { kinds = { "voltage" }, alarms = false },
    host = {
      ["kernel.sensors"] = { value = { { chip = "coretemp", name = "Package id 0", kind = "temperature", unit = "C", value = 51.5, alarm = false, fault = false, high = 80, critical = 100 }, { chip = "nct6775", name = "fan1", kind = "fan", unit = "C", value = 1200, alarm = false, fault = false }, { chip = "nct6775", name = "in0", kind = "voltage", unit = "C", value = 1.02, alarm = true, fault = false }, { chip = "nvme", name = "Composite", kind = "temperature", unit = "C", value = 38.9, alarm = false, fault = false, high = 84.8, critical = 65261.8 } } },
    },
    expect = { status = "ok", summary = "1 sensor in order" },
  },
  {
    name = "a sensor with a fault",
    host = {
      ["kernel.sensors"] = { value = { { chip = "coretemp", name = "Core 0", kind = "temperature", unit = "C", value = 50, alarm = false, fault = false }, { chip = "x", name = "temp1", kind = "temperature", unit = "C", alarm = false, fault = true } } },
    },
    expect = { status = "unknown", summary = "x/temp1 has a fault" },
  },
  {
    name = "two chips of one kind",
    host = {
      ["kernel.sensors"] = { value = { { chip = "coretemp", name = "Core 0", kind = "temperature", unit = "C", value = 50, alarm = false, fault = false }, { chip = "coretemp", name = "Core 0", kind = "temperature", unit = "C", value = 60, alarm = false, fault = false } } },
    },
    expect = {
      status = "ok",
      metrics = {
        ["temperature{sensor=coretemp/Core 0}"] = 50,
        ["temperature{sensor=coretemp/Core 0#2}"] = 60,
      },
    },
  },
  {
    name = "none of the kind",
    args = { kinds = { "humidity" } },
    host = {
      ["kernel.sensors"] = { value = { { chip = "coretemp", name = "Package id 0", kind = "temperature", unit = "C", value = 51.5, alarm = false, fault = false, high = 80, critical = 100 }, { chip = "nct6775", name = "fan1", kind = "fan", unit = "C", value = 1200, alarm = false, fault = false }, { chip = "nct6775", name = "in0", kind = "voltage", unit = "C", value = 1.02, alarm = true, fault = false }, { chip = "nvme", name = "Composite", kind = "temperature", unit = "C", value = 38.9, alarm = false, fault = false, high = 84.8, critical = 65261.8 } } },
    },
    expect = { status = "unknown", summary = "this host shows no such sensor: a virtual machine has none, and others may lack a driver", metrics = {} },
  },
  {
    name = "a kind that there is not",
    args = { kinds = { "smell" } },
    expect = { status = "unknown", metrics = {} },
  },
  {
    name = "a virtual machine",
    host = {
      ["kernel.sensors"] = { code = "unsupported", text = "this host has no sensors that the kernel knows" },
    },
    expect = { status = "unknown", summary = "this host has no sensors that the kernel knows", metrics = {} },
  },
}
