return {
  {
    name = "in order",
    host = {
      program = {
        { args = { { name = "ipmi-sdr" } }, value = { text = "Inlet Temp,22,degrees C,ok\nFan1 RPM,4800,RPM,ok\nVolt 12V,12.10,Volts,ok\nPwr Consumption,210,Watts,ok\nPS Redundancy,0x00,,ok\nTemp 2,,,ns\n", errors = "", exit_status = 0, seconds = 0.1 } },
      },
    },
    expect = {
      status = "ok",
      summary = "6 sensors in order",
      metrics = {
        ["temperature{sensor=Inlet Temp}"] = { value = 22, unit = "Cel" },
        ["fan{sensor=Fan1 RPM}"] = { value = 4800, unit = "rpm" },
        ["voltage{sensor=Volt 12V}"] = { value = 12.1, unit = "V" },
        ["power{sensor=Pwr Consumption}"] = { value = 210, unit = "W" },
      },
    },
  },
  {
    name = "a fan is slow",
    host = {
      program = {
        { args = { { name = "ipmi-sdr" } }, value = { text = "Inlet Temp,22,degrees C,ok\nFan1 RPM,4800,RPM,ok\nVolt 12V,12.10,Volts,ok\nPwr Consumption,210,Watts,ok\nPS Redundancy,0x00,,ok\nTemp 2,,,ns\nFan2 RPM,300,RPM,lnc\n", errors = "", exit_status = 0, seconds = 0.1 } },
      },
    },
    expect = { status = "warning", summary = "Fan2 RPM has 300 RPM (lnc)" },
  },
  {
    name = "it is hot",
    host = {
      program = {
        { args = { { name = "ipmi-sdr" } }, value = { text = "Inlet Temp,22,degrees C,ok\nFan1 RPM,4800,RPM,ok\nVolt 12V,12.10,Volts,ok\nPwr Consumption,210,Watts,ok\nPS Redundancy,0x00,,ok\nTemp 2,,,ns\nCPU Temp,99,degrees C,cr\n", errors = "", exit_status = 0, seconds = 0.1 } },
      },
    },
    expect = { status = "critical", summary = "CPU Temp has 99 °C (cr)" },
  },
  {
    name = "which does not matter",
    args = { ignore = { "CPU*" } },
    host = {
      program = {
        { args = { { name = "ipmi-sdr" } }, value = { text = "Inlet Temp,22,degrees C,ok\nFan1 RPM,4800,RPM,ok\nVolt 12V,12.10,Volts,ok\nPwr Consumption,210,Watts,ok\nPS Redundancy,0x00,,ok\nTemp 2,,,ns\nCPU Temp,99,degrees C,cr\n", errors = "", exit_status = 0, seconds = 0.1 } },
      },
    },
    expect = { status = "ok" },
  },
  {
    name = "with its log of events",
    args = { log = "ipmi-sel" },
    host = {
      program = {
        { args = { { name = "ipmi-sdr" } }, value = { text = "Inlet Temp,22,degrees C,ok\nFan1 RPM,4800,RPM,ok\nVolt 12V,12.10,Volts,ok\nPwr Consumption,210,Watts,ok\nPS Redundancy,0x00,,ok\nTemp 2,,,ns\n", errors = "", exit_status = 0, seconds = 0.1 } },
        { args = { { name = "ipmi-sel" } }, value = { text = "SEL Information\nVersion          : 1.5 (v1.5, v2 compliant)\nEntries          : 12\nFree Space       : 15872 bytes\nPercent Used     : 3%\n", errors = "", exit_status = 0, seconds = 0.1 } },
      },
    },
    expect = {
      status = "ok",
      metrics = {
        events = { value = 12, unit = "events" },
        log_used = { value = 3, unit = "%", warn = "90" },
        events_lately = 0,
      },
    },
  },
  {
    name = "a full log",
    args = { log = "ipmi-sel" },
    host = {
      program = {
        { args = { { name = "ipmi-sdr" } }, value = { text = "Inlet Temp,22,degrees C,ok\nFan1 RPM,4800,RPM,ok\nVolt 12V,12.10,Volts,ok\nPwr Consumption,210,Watts,ok\nPS Redundancy,0x00,,ok\nTemp 2,,,ns\n", errors = "", exit_status = 0, seconds = 0.1 } },
        { args = { { name = "ipmi-sel" } }, value = { text = "SEL Information\nVersion          : 1.5 (v1.5, v2 compliant)\nEntries          : 12\nFree Space       : 15872 bytes\nPercent Used     : 95%\n", errors = "", exit_status = 0, seconds = 0.1 } },
      },
    },
    expect = { status = "warning", summary = "its log is 95 % full: save and clear it" },
  },
  {
    name = "new events",
    args = { log = "ipmi-sel", events_warn = "0" },
    host = {
      program = {
        { args = { { name = "ipmi-sdr" } }, value = { text = "Inlet Temp,22,degrees C,ok\nFan1 RPM,4800,RPM,ok\nVolt 12V,12.10,Volts,ok\nPwr Consumption,210,Watts,ok\nPS Redundancy,0x00,,ok\nTemp 2,,,ns\n", errors = "", exit_status = 0, seconds = 0.1 } },
        { args = { { name = "ipmi-sel" } }, value = { text = "SEL Information\nVersion          : 1.5 (v1.5, v2 compliant)\nEntries          : 12\nFree Space       : 15872 bytes\nPercent Used     : 3%\n", errors = "", exit_status = 0, seconds = 0.1 } },
      },
      state = { ["recent events"] = { older = 9, newer = 9, at = 1699999900 } },
    },
    expect = { status = "warning", summary = "3 new events in its log" },
  },
  {
    name = "a log that is none",
    args = { log = "ipmi-sel" },
    host = {
      program = {
        { args = { { name = "ipmi-sdr" } }, value = { text = "Inlet Temp,22,degrees C,ok\nFan1 RPM,4800,RPM,ok\nVolt 12V,12.10,Volts,ok\nPwr Consumption,210,Watts,ok\nPS Redundancy,0x00,,ok\nTemp 2,,,ns\n", errors = "", exit_status = 0, seconds = 0.1 } },
        { args = { { name = "ipmi-sel" } }, value = { text = "hello\n", errors = "", exit_status = 0, seconds = 0.1 } },
      },
    },
    expect = { status = "unknown", summary = "the program ipmi-sel writes nothing of a log of events" },
  },
  {
    name = "a state that nobody knows",
    host = {
      program = {
        { args = { { name = "ipmi-sdr" } }, value = { text = "Fan1,4800,RPM,odd\n", errors = "", exit_status = 0, seconds = 0.1 } },
      },
    },
    expect = { status = "unknown", metrics = {} },
  },
  {
    name = "no controller",
    host = {
      program = {
        { args = { { name = "ipmi-sdr" } }, value = { text = "", errors = "Could not open device at /dev/ipmi0\n", exit_status = 1, seconds = 0.1 } },
      },
    },
    expect = { status = "unknown", summary = "the program ipmi-sdr fails (exit status 1): Could not open device at /dev/ipmi0", metrics = {} },
  },
  {
    name = "no sensor",
    host = {
      program = {
        { args = { { name = "ipmi-sdr" } }, value = { text = "", errors = "", exit_status = 0, seconds = 0.1 } },
      },
    },
    expect = { status = "unknown", summary = "the controller has no sensor", metrics = {} },
  },
  {
    name = "the policy does not name it",
    host = {
      program = { code = "denied", text = "program ipmi-sdr is not granted: add it to /etc/equus/policy.toml, section [programs.ipmi-sdr]" },
    },
    expect = { status = "unknown", metrics = {} },
  },
  {
    name = "no sensor has a reading",
    host = {
      program = {
        { args = { { name = "ipmi-sdr" } }, value = { text = "CPU Temp,,,ns\nFan3,,,ns\n", errors = "", exit_status = 0, seconds = 0.1 } },
      },
    },
    expect = { status = "unknown", summary = "no sensor has a reading", metrics = {} },
  },
  {
    name = "the only reading is ignored",
    args = { ignore = { "Inlet*" } },
    host = {
      program = {
        { args = { { name = "ipmi-sdr" } }, value = { text = "Inlet Temp,23,degrees C,ok\nCPU Temp,,,ns\n", errors = "", exit_status = 0, seconds = 0.1 } },
      },
    },
    expect = { status = "unknown", summary = "no sensor has a reading" },
  },
  {
    name = "all of them are ignored",
    args = { ignore = { "*" } },
    host = {
      program = {
        { args = { { name = "ipmi-sdr" } }, value = { text = "CPU Temp,,,ns\n", errors = "", exit_status = 0, seconds = 0.1 } },
      },
    },
    expect = { status = "ok" },
  },
  {
    name = "a log that does not tell how full it is",
    args = { log = "ipmi-sel" },
    host = {
      program = {
        { args = { { name = "ipmi-sdr" } }, value = { text = "Inlet Temp,22,degrees C,ok\nFan1 RPM,4800,RPM,ok\nVolt 12V,12.10,Volts,ok\nPwr Consumption,210,Watts,ok\nPS Redundancy,0x00,,ok\nTemp 2,,,ns\n", errors = "", exit_status = 0, seconds = 0.1 } },
        { args = { { name = "ipmi-sel" } }, value = { text = "SEL Information\nVersion          : 1.5 (v1.5, v2 compliant)\nEntries          : 12\nFree Space       : 15872 bytes\nPercent Used     : unknown\n", errors = "", exit_status = 0, seconds = 0.1 } },
      },
    },
    expect = { status = "unknown", summary = "its log does not tell how full it is (log_warn and log_crit of ~: don't ask for it)" },
  },
  {
    name = "which nobody asks for",
    args = { log = "ipmi-sel", log_warn = "~:" },
    host = {
      program = {
        { args = { { name = "ipmi-sdr" } }, value = { text = "Inlet Temp,22,degrees C,ok\nFan1 RPM,4800,RPM,ok\nVolt 12V,12.10,Volts,ok\nPwr Consumption,210,Watts,ok\nPS Redundancy,0x00,,ok\nTemp 2,,,ns\n", errors = "", exit_status = 0, seconds = 0.1 } },
        { args = { { name = "ipmi-sel" } }, value = { text = "SEL Information\nVersion          : 1.5 (v1.5, v2 compliant)\nEntries          : 12\nFree Space       : 15872 bytes\nPercent Used     : unknown\n", errors = "", exit_status = 0, seconds = 0.1 } },
      },
    },
    expect = { status = "ok" },
  },
}
