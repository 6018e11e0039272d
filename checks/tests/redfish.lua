return {
  {
    name = "all is well",
    args = { url = "https://bmc", user = "watch", password = "correct horse" },
    host = {
      http = {
        { value = { status = 200, reason = "OK", body = "{\"RedfishVersion\":\"1.9.0\",\"Systems\":{\"@odata.id\":\"/redfish/v1/Systems\"},\"Chassis\":{\"@odata.id\":\"/redfish/v1/Chassis\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Systems/1\"}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Systems" } } },
        { value = { status = 200, reason = "OK", body = "{\"Name\":\"System\",\"Model\":\"PowerEdge R650\",\"PowerState\":\"On\",\"Status\":{\"Health\":\"OK\",\"HealthRollup\":\"OK\",\"State\":\"Enabled\"},\"MemorySummary\":{\"Status\":{\"Health\":\"OK\"}},\"ProcessorSummary\":{\"Status\":{\"Health\":null}}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Systems/1" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Chassis/1\"}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis" } } },
        { value = { status = 200, reason = "OK", body = "{\"Name\":\"Chassis\",\"Status\":{\"Health\":\"OK\"},\"Thermal\":{\"@odata.id\":\"/redfish/v1/Chassis/1/Thermal\"},\"Power\":{\"@odata.id\":\"/redfish/v1/Chassis/1/Power\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1" } } },
        { value = { status = 200, reason = "OK", body = "{\"Temperatures\":[{\"Name\":\"Inlet\",\"ReadingCelsius\":22,\"UpperThresholdNonCritical\":38,\"UpperThresholdCritical\":42,\"Status\":{\"Health\":\"OK\",\"State\":\"Enabled\"}},{\"Name\":\"GPU\",\"ReadingCelsius\":0,\"Status\":{\"State\":\"Absent\"}}],\"Fans\":[{\"Name\":\"Fan 1\",\"Reading\":4800,\"ReadingUnits\":\"RPM\",\"Status\":{\"Health\":\"OK\"}},{\"Name\":\"Fan 2\",\"Reading\":40,\"ReadingUnits\":\"Percent\",\"Status\":{\"Health\":\"OK\"}}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1/Thermal" } } },
        { value = { status = 200, reason = "OK", body = "{\"PowerControl\":[{\"PowerConsumedWatts\":210}],\"PowerSupplies\":[{\"Name\":\"PSU 1\",\"Status\":{\"Health\":\"OK\"}},{\"Name\":\"PSU 2\",\"Status\":{\"Health\":\"OK\"}}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1/Power" } } },
      },
    },
    expect = {
      status = "ok",
      summary = "PowerEdge R650, 8 parts judged",
      metrics = {
        ["temperature{sensor=Inlet}"] = { value = 22, unit = "Cel", warn = "~:38", crit = "~:42" },
        ["fan{sensor=Fan 1}"] = { value = 4800, unit = "rpm" },
        ["fan_speed{sensor=Fan 2}"] = { value = 40, unit = "%" },
        ["power{chassis=Chassis}"] = { value = 210, unit = "W" },
        time = { value = 0, unit = "s" },
      },
    },
  },
  {
    name = "a power supply has failed",
    args = { url = "https://bmc", user = "watch", password = "correct horse" },
    host = {
      http = {
        { value = { status = 200, reason = "OK", body = "{\"RedfishVersion\":\"1.9.0\",\"Systems\":{\"@odata.id\":\"/redfish/v1/Systems\"},\"Chassis\":{\"@odata.id\":\"/redfish/v1/Chassis\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Systems/1\"}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Systems" } } },
        { value = { status = 200, reason = "OK", body = "{\"Name\":\"System\",\"Model\":\"PowerEdge R650\",\"PowerState\":\"On\",\"Status\":{\"Health\":\"OK\",\"HealthRollup\":\"OK\",\"State\":\"Enabled\"},\"MemorySummary\":{\"Status\":{\"Health\":\"OK\"}},\"ProcessorSummary\":{\"Status\":{\"Health\":null}}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Systems/1" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Chassis/1\"}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis" } } },
        { value = { status = 200, reason = "OK", body = "{\"Name\":\"Chassis\",\"Status\":{\"Health\":\"OK\"},\"Thermal\":{\"@odata.id\":\"/redfish/v1/Chassis/1/Thermal\"},\"Power\":{\"@odata.id\":\"/redfish/v1/Chassis/1/Power\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1" } } },
        { value = { status = 200, reason = "OK", body = "{\"Temperatures\":[{\"Name\":\"Inlet\",\"ReadingCelsius\":22,\"UpperThresholdNonCritical\":38,\"UpperThresholdCritical\":42,\"Status\":{\"Health\":\"OK\",\"State\":\"Enabled\"}},{\"Name\":\"GPU\",\"ReadingCelsius\":0,\"Status\":{\"State\":\"Absent\"}}],\"Fans\":[{\"Name\":\"Fan 1\",\"Reading\":4800,\"ReadingUnits\":\"RPM\",\"Status\":{\"Health\":\"OK\"}},{\"Name\":\"Fan 2\",\"Reading\":40,\"ReadingUnits\":\"Percent\",\"Status\":{\"Health\":\"OK\"}}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1/Thermal" } } },
        { value = { status = 200, reason = "OK", body = "{\"PowerControl\":[{\"PowerConsumedWatts\":210}],\"PowerSupplies\":[{\"Name\":\"PSU 1\",\"Status\":{\"Health\":\"OK\"}},{\"Name\":\"PSU 2\",\"Status\":{\"Health\":\"Critical\"}}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1/Power" } } },
      },
    },
    expect = { status = "critical", summary = "PSU 2 is critical, PowerEdge R650, 8 parts judged" },
  },
  {
    name = "which nobody cares for",
    args = { url = "https://bmc", user = "watch", password = "correct horse", ignore = { "PSU*" } },
    host = {
      http = {
        { value = { status = 200, reason = "OK", body = "{\"RedfishVersion\":\"1.9.0\",\"Systems\":{\"@odata.id\":\"/redfish/v1/Systems\"},\"Chassis\":{\"@odata.id\":\"/redfish/v1/Chassis\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Systems/1\"}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Systems" } } },
        { value = { status = 200, reason = "OK", body = "{\"Name\":\"System\",\"Model\":\"PowerEdge R650\",\"PowerState\":\"On\",\"Status\":{\"Health\":\"OK\",\"HealthRollup\":\"OK\",\"State\":\"Enabled\"},\"MemorySummary\":{\"Status\":{\"Health\":\"OK\"}},\"ProcessorSummary\":{\"Status\":{\"Health\":null}}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Systems/1" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Chassis/1\"}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis" } } },
        { value = { status = 200, reason = "OK", body = "{\"Name\":\"Chassis\",\"Status\":{\"Health\":\"OK\"},\"Thermal\":{\"@odata.id\":\"/redfish/v1/Chassis/1/Thermal\"},\"Power\":{\"@odata.id\":\"/redfish/v1/Chassis/1/Power\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1" } } },
        { value = { status = 200, reason = "OK", body = "{\"Temperatures\":[{\"Name\":\"Inlet\",\"ReadingCelsius\":22,\"UpperThresholdNonCritical\":38,\"UpperThresholdCritical\":42,\"Status\":{\"Health\":\"OK\",\"State\":\"Enabled\"}},{\"Name\":\"GPU\",\"ReadingCelsius\":0,\"Status\":{\"State\":\"Absent\"}}],\"Fans\":[{\"Name\":\"Fan 1\",\"Reading\":4800,\"ReadingUnits\":\"RPM\",\"Status\":{\"Health\":\"OK\"}},{\"Name\":\"Fan 2\",\"Reading\":40,\"ReadingUnits\":\"Percent\",\"Status\":{\"Health\":\"OK\"}}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1/Thermal" } } },
        { value = { status = 200, reason = "OK", body = "{\"PowerControl\":[{\"PowerConsumedWatts\":210}],\"PowerSupplies\":[{\"Name\":\"PSU 1\",\"Status\":{\"Health\":\"OK\"}},{\"Name\":\"PSU 2\",\"Status\":{\"Health\":\"Critical\"}}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1/Power" } } },
      },
    },
    expect = { status = "ok", summary = "PowerEdge R650, 6 parts judged" },
  },
  {
    name = "a fan is about to fail",
    args = { url = "https://bmc", user = "watch", password = "correct horse" },
    host = {
      http = {
        { value = { status = 200, reason = "OK", body = "{\"RedfishVersion\":\"1.9.0\",\"Systems\":{\"@odata.id\":\"/redfish/v1/Systems\"},\"Chassis\":{\"@odata.id\":\"/redfish/v1/Chassis\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Systems/1\"}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Systems" } } },
        { value = { status = 200, reason = "OK", body = "{\"Name\":\"System\",\"Model\":\"PowerEdge R650\",\"PowerState\":\"On\",\"Status\":{\"Health\":\"OK\",\"HealthRollup\":\"OK\",\"State\":\"Enabled\"},\"MemorySummary\":{\"Status\":{\"Health\":\"OK\"}},\"ProcessorSummary\":{\"Status\":{\"Health\":null}}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Systems/1" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Chassis/1\"}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis" } } },
        { value = { status = 200, reason = "OK", body = "{\"Name\":\"Chassis\",\"Status\":{\"Health\":\"OK\"},\"Thermal\":{\"@odata.id\":\"/redfish/v1/Chassis/1/Thermal\"},\"Power\":{\"@odata.id\":\"/redfish/v1/Chassis/1/Power\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1" } } },
        { value = { status = 200, reason = "OK", body = "{\"Temperatures\":[{\"Name\":\"Inlet\",\"ReadingCelsius\":22,\"UpperThresholdNonCritical\":38,\"UpperThresholdCritical\":42,\"Status\":{\"Health\":\"OK\",\"State\":\"Enabled\"}},{\"Name\":\"GPU\",\"ReadingCelsius\":0,\"Status\":{\"State\":\"Absent\"}}],\"Fans\":[{\"Name\":\"Fan 1\",\"Reading\":4800,\"ReadingUnits\":\"RPM\",\"Status\":{\"Health\":\"Warning\"}},{\"Name\":\"Fan 2\",\"Reading\":40,\"ReadingUnits\":\"Percent\",\"Status\":{\"Health\":\"OK\"}}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1/Thermal" } } },
        { value = { status = 200, reason = "OK", body = "{\"PowerControl\":[{\"PowerConsumedWatts\":210}],\"PowerSupplies\":[{\"Name\":\"PSU 1\",\"Status\":{\"Health\":\"OK\"}},{\"Name\":\"PSU 2\",\"Status\":{\"Health\":\"OK\"}}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1/Power" } } },
      },
    },
    expect = { status = "warning", summary = "Fan 1 is warning, PowerEdge R650, 8 parts judged" },
  },
  {
    name = "it is hot",
    args = { url = "https://bmc", user = "watch", password = "correct horse" },
    host = {
      http = {
        { value = { status = 200, reason = "OK", body = "{\"RedfishVersion\":\"1.9.0\",\"Systems\":{\"@odata.id\":\"/redfish/v1/Systems\"},\"Chassis\":{\"@odata.id\":\"/redfish/v1/Chassis\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Systems/1\"}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Systems" } } },
        { value = { status = 200, reason = "OK", body = "{\"Name\":\"System\",\"Model\":\"PowerEdge R650\",\"PowerState\":\"On\",\"Status\":{\"Health\":\"OK\",\"HealthRollup\":\"OK\",\"State\":\"Enabled\"},\"MemorySummary\":{\"Status\":{\"Health\":\"OK\"}},\"ProcessorSummary\":{\"Status\":{\"Health\":null}}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Systems/1" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Chassis/1\"}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis" } } },
        { value = { status = 200, reason = "OK", body = "{\"Name\":\"Chassis\",\"Status\":{\"Health\":\"OK\"},\"Thermal\":{\"@odata.id\":\"/redfish/v1/Chassis/1/Thermal\"},\"Power\":{\"@odata.id\":\"/redfish/v1/Chassis/1/Power\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1" } } },
        { value = { status = 200, reason = "OK", body = "{\"Temperatures\":[{\"Name\":\"Inlet\",\"ReadingCelsius\":40.5,\"UpperThresholdNonCritical\":38,\"UpperThresholdCritical\":42,\"Status\":{\"Health\":\"OK\",\"State\":\"Enabled\"}},{\"Name\":\"GPU\",\"ReadingCelsius\":0,\"Status\":{\"State\":\"Absent\"}}],\"Fans\":[{\"Name\":\"Fan 1\",\"Reading\":4800,\"ReadingUnits\":\"RPM\",\"Status\":{\"Health\":\"OK\"}},{\"Name\":\"Fan 2\",\"Reading\":40,\"ReadingUnits\":\"Percent\",\"Status\":{\"Health\":\"OK\"}}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1/Thermal" } } },
        { value = { status = 200, reason = "OK", body = "{\"PowerControl\":[{\"PowerConsumedWatts\":210}],\"PowerSupplies\":[{\"Name\":\"PSU 1\",\"Status\":{\"Health\":\"OK\"}},{\"Name\":\"PSU 2\",\"Status\":{\"Health\":\"OK\"}}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1/Power" } } },
      },
    },
    expect = { status = "warning", summary = "Inlet has 40.5 °C, PowerEdge R650, 8 parts judged" },
  },
  {
    name = "a health in a word that nobody knows",
    args = { url = "https://bmc", user = "watch", password = "correct horse" },
    host = {
      http = {
        { value = { status = 200, reason = "OK", body = "{\"RedfishVersion\":\"1.9.0\",\"Systems\":{\"@odata.id\":\"/redfish/v1/Systems\"},\"Chassis\":{\"@odata.id\":\"/redfish/v1/Chassis\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Systems/1\"}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Systems" } } },
        { value = { status = 200, reason = "OK", body = "{\"Name\":\"System\",\"Model\":\"PowerEdge R650\",\"PowerState\":\"On\",\"Status\":{\"Health\":\"Fine\",\"HealthRollup\":\"Fine\",\"State\":\"Enabled\"},\"MemorySummary\":{\"Status\":{\"Health\":\"OK\"}},\"ProcessorSummary\":{\"Status\":{\"Health\":null}}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Systems/1" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Chassis/1\"}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis" } } },
        { value = { status = 200, reason = "OK", body = "{\"Name\":\"Chassis\",\"Status\":{\"Health\":\"OK\"},\"Thermal\":{\"@odata.id\":\"/redfish/v1/Chassis/1/Thermal\"},\"Power\":{\"@odata.id\":\"/redfish/v1/Chassis/1/Power\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1" } } },
        { value = { status = 200, reason = "OK", body = "{\"Temperatures\":[{\"Name\":\"Inlet\",\"ReadingCelsius\":22,\"UpperThresholdNonCritical\":38,\"UpperThresholdCritical\":42,\"Status\":{\"Health\":\"OK\",\"State\":\"Enabled\"}},{\"Name\":\"GPU\",\"ReadingCelsius\":0,\"Status\":{\"State\":\"Absent\"}}],\"Fans\":[{\"Name\":\"Fan 1\",\"Reading\":4800,\"ReadingUnits\":\"RPM\",\"Status\":{\"Health\":\"OK\"}},{\"Name\":\"Fan 2\",\"Reading\":40,\"ReadingUnits\":\"Percent\",\"Status\":{\"Health\":\"OK\"}}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1/Thermal" } } },
        { value = { status = 200, reason = "OK", body = "{\"PowerControl\":[{\"PowerConsumedWatts\":210}],\"PowerSupplies\":[{\"Name\":\"PSU 1\",\"Status\":{\"Health\":\"OK\"}},{\"Name\":\"PSU 2\",\"Status\":{\"Health\":\"OK\"}}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1/Power" } } },
      },
    },
    expect = { status = "unknown", summary = "System is fine, PowerEdge R650, 8 parts judged" },
  },
  {
    name = "the system is switched off",
    args = { url = "https://bmc", user = "watch", password = "correct horse" },
    host = {
      http = {
        { value = { status = 200, reason = "OK", body = "{\"RedfishVersion\":\"1.9.0\",\"Systems\":{\"@odata.id\":\"/redfish/v1/Systems\"},\"Chassis\":{\"@odata.id\":\"/redfish/v1/Chassis\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Systems/1\"}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Systems" } } },
        { value = { status = 200, reason = "OK", body = "{\"Name\":\"System\",\"Model\":\"PowerEdge R650\",\"PowerState\":\"Off\",\"Status\":{\"Health\":\"OK\",\"HealthRollup\":\"OK\",\"State\":\"Enabled\"},\"MemorySummary\":{\"Status\":{\"Health\":\"OK\"}},\"ProcessorSummary\":{\"Status\":{\"Health\":null}}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Systems/1" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Chassis/1\"}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis" } } },
        { value = { status = 200, reason = "OK", body = "{\"Name\":\"Chassis\",\"Status\":{\"Health\":\"OK\"},\"Thermal\":{\"@odata.id\":\"/redfish/v1/Chassis/1/Thermal\"},\"Power\":{\"@odata.id\":\"/redfish/v1/Chassis/1/Power\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1" } } },
        { value = { status = 200, reason = "OK", body = "{\"Temperatures\":[{\"Name\":\"Inlet\",\"ReadingCelsius\":22,\"UpperThresholdNonCritical\":38,\"UpperThresholdCritical\":42,\"Status\":{\"Health\":\"OK\",\"State\":\"Enabled\"}},{\"Name\":\"GPU\",\"ReadingCelsius\":0,\"Status\":{\"State\":\"Absent\"}}],\"Fans\":[{\"Name\":\"Fan 1\",\"Reading\":4800,\"ReadingUnits\":\"RPM\",\"Status\":{\"Health\":\"OK\"}},{\"Name\":\"Fan 2\",\"Reading\":40,\"ReadingUnits\":\"Percent\",\"Status\":{\"Health\":\"OK\"}}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1/Thermal" } } },
        { value = { status = 200, reason = "OK", body = "{\"PowerControl\":[{\"PowerConsumedWatts\":210}],\"PowerSupplies\":[{\"Name\":\"PSU 1\",\"Status\":{\"Health\":\"OK\"}},{\"Name\":\"PSU 2\",\"Status\":{\"Health\":\"OK\"}}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1/Power" } } },
      },
    },
    expect = { status = "critical", summary = "System is switched off, PowerEdge R650, 8 parts judged" },
  },
  {
    name = "as it should be",
    args = { url = "https://bmc", user = "watch", password = "correct horse", power_off = "ok" },
    host = {
      http = {
        { value = { status = 200, reason = "OK", body = "{\"RedfishVersion\":\"1.9.0\",\"Systems\":{\"@odata.id\":\"/redfish/v1/Systems\"},\"Chassis\":{\"@odata.id\":\"/redfish/v1/Chassis\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Systems/1\"}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Systems" } } },
        { value = { status = 200, reason = "OK", body = "{\"Name\":\"System\",\"Model\":\"PowerEdge R650\",\"PowerState\":\"Off\",\"Status\":{\"Health\":\"OK\",\"HealthRollup\":\"OK\",\"State\":\"Enabled\"},\"MemorySummary\":{\"Status\":{\"Health\":\"OK\"}},\"ProcessorSummary\":{\"Status\":{\"Health\":null}}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Systems/1" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Chassis/1\"}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis" } } },
        { value = { status = 200, reason = "OK", body = "{\"Name\":\"Chassis\",\"Status\":{\"Health\":\"OK\"},\"Thermal\":{\"@odata.id\":\"/redfish/v1/Chassis/1/Thermal\"},\"Power\":{\"@odata.id\":\"/redfish/v1/Chassis/1/Power\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1" } } },
        { value = { status = 200, reason = "OK", body = "{\"Temperatures\":[{\"Name\":\"Inlet\",\"ReadingCelsius\":22,\"UpperThresholdNonCritical\":38,\"UpperThresholdCritical\":42,\"Status\":{\"Health\":\"OK\",\"State\":\"Enabled\"}},{\"Name\":\"GPU\",\"ReadingCelsius\":0,\"Status\":{\"State\":\"Absent\"}}],\"Fans\":[{\"Name\":\"Fan 1\",\"Reading\":4800,\"ReadingUnits\":\"RPM\",\"Status\":{\"Health\":\"OK\"}},{\"Name\":\"Fan 2\",\"Reading\":40,\"ReadingUnits\":\"Percent\",\"Status\":{\"Health\":\"OK\"}}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1/Thermal" } } },
        { value = { status = 200, reason = "OK", body = "{\"PowerControl\":[{\"PowerConsumedWatts\":210}],\"PowerSupplies\":[{\"Name\":\"PSU 1\",\"Status\":{\"Health\":\"OK\"}},{\"Name\":\"PSU 2\",\"Status\":{\"Health\":\"OK\"}}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1/Power" } } },
      },
    },
    expect = { status = "ok" },
  },
  {
    name = "the health of nothing",
    args = { url = "https://bmc", user = "watch", password = "correct horse" },
    host = {
      http = {
        { value = { status = 200, reason = "OK", body = "{\"RedfishVersion\":\"1.9.0\",\"Systems\":{\"@odata.id\":\"/redfish/v1/Systems\"},\"Chassis\":{\"@odata.id\":\"/redfish/v1/Chassis\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Systems" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis" } } },
      },
    },
    expect = { status = "unknown", summary = "the controller tells the health of nothing, 0 systems, 0 parts judged" },
  },
  {
    name = "it leads the login to another host",
    args = { url = "https://bmc", user = "watch", password = "correct horse" },
    host = {
      http = {
        { value = { status = 200, reason = "OK", body = "{\"RedfishVersion\":\"1.9.0\",\"Systems\":{\"@odata.id\":\"/redfish/v1/Systems\"},\"Chassis\":{\"@odata.id\":\"/redfish/v1/Chassis\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[{\"@odata.id\":\"@evil.example/x\"}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Systems" } } },
      },
    },
    expect = { status = "critical", summary = "the server names \"@evil.example/x\", which is no path, 0 systems, 0 parts judged" },
  },
  {
    name = "more members than it looks at",
    args = { url = "https://bmc", user = "watch", password = "correct horse" },
    host = {
      http = {
        { value = { status = 200, reason = "OK", body = "{\"RedfishVersion\":\"1.9.0\",\"Systems\":{\"@odata.id\":\"/redfish/v1/Systems\"},\"Chassis\":{\"@odata.id\":\"/redfish/v1/Chassis\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Systems/1\"},{\"@odata.id\":\"/redfish/v1/Systems/1\"},{\"@odata.id\":\"/redfish/v1/Systems/1\"},{\"@odata.id\":\"/redfish/v1/Systems/1\"},{\"@odata.id\":\"/redfish/v1/Systems/1\"},{\"@odata.id\":\"/redfish/v1/Systems/1\"},{\"@odata.id\":\"/redfish/v1/Systems/1\"},{\"@odata.id\":\"/redfish/v1/Systems/1\"},{\"@odata.id\":\"/redfish/v1/Systems/1\"},{\"@odata.id\":\"/redfish/v1/Systems/1\"},{\"@odata.id\":\"/redfish/v1/Systems/1\"},{\"@odata.id\":\"/redfish/v1/Systems/1\"},{\"@odata.id\":\"/redfish/v1/Systems/1\"},{\"@odata.id\":\"/redfish/v1/Systems/1\"},{\"@odata.id\":\"/redfish/v1/Systems/1\"},{\"@odata.id\":\"/redfish/v1/Systems/1\"},{\"@odata.id\":\"/redfish/v1/Systems/1\"},{\"@odata.id\":\"/redfish/v1/Systems/1\"},{\"@odata.id\":\"/redfish/v1/Systems/1\"},{\"@odata.id\":\"/redfish/v1/Systems/1\"},{\"@odata.id\":\"/redfish/v1/Systems/1\"},{\"@odata.id\":\"/redfish/v1/Systems/1\"},{\"@odata.id\":\"/redfish/v1/Systems/1\"},{\"@odata.id\":\"/redfish/v1/Systems/1\"},{\"@odata.id\":\"/redfish/v1/Systems/1\"}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Systems" } } },
        { value = { status = 200, reason = "OK", body = "{\"Name\":\"System\",\"Model\":\"PowerEdge R650\",\"PowerState\":\"On\",\"Status\":{\"Health\":\"OK\",\"HealthRollup\":\"OK\",\"State\":\"Enabled\"},\"MemorySummary\":{\"Status\":{\"Health\":\"OK\"}},\"ProcessorSummary\":{\"Status\":{\"Health\":null}}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Systems/1" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Chassis/1\"}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis" } } },
        { value = { status = 200, reason = "OK", body = "{\"Name\":\"Chassis\",\"Status\":{\"Health\":\"OK\"},\"Thermal\":{\"@odata.id\":\"/redfish/v1/Chassis/1/Thermal\"},\"Power\":{\"@odata.id\":\"/redfish/v1/Chassis/1/Power\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1" } } },
        { value = { status = 200, reason = "OK", body = "{\"Temperatures\":[{\"Name\":\"Inlet\",\"ReadingCelsius\":22,\"UpperThresholdNonCritical\":38,\"UpperThresholdCritical\":42,\"Status\":{\"Health\":\"OK\",\"State\":\"Enabled\"}},{\"Name\":\"GPU\",\"ReadingCelsius\":0,\"Status\":{\"State\":\"Absent\"}}],\"Fans\":[{\"Name\":\"Fan 1\",\"Reading\":4800,\"ReadingUnits\":\"RPM\",\"Status\":{\"Health\":\"OK\"}},{\"Name\":\"Fan 2\",\"Reading\":40,\"ReadingUnits\":\"Percent\",\"Status\":{\"Health\":\"OK\"}}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1/Thermal" } } },
        { value = { status = 200, reason = "OK", body = "{\"PowerControl\":[{\"PowerConsumedWatts\":210}],\"PowerSupplies\":[{\"Name\":\"PSU 1\",\"Status\":{\"Health\":\"OK\"}},{\"Name\":\"PSU 2\",\"Status\":{\"Health\":\"OK\"}}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1/Power" } } },
      },
    },
    expect = { status = "unknown", summary = "/redfish/v1/Systems names more than 24 members, or one without an address, PowerEdge R650, 48 parts judged" },
  },
  {
    name = "a part does not answer",
    args = { url = "https://bmc", user = "watch", password = "correct horse" },
    host = {
      http = {
        { value = { status = 200, reason = "OK", body = "{\"RedfishVersion\":\"1.9.0\",\"Systems\":{\"@odata.id\":\"/redfish/v1/Systems\"},\"Chassis\":{\"@odata.id\":\"/redfish/v1/Chassis\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Systems/1\"}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Systems" } } },
        { value = { status = 200, reason = "OK", body = "{\"Name\":\"System\",\"Model\":\"PowerEdge R650\",\"PowerState\":\"On\",\"Status\":{\"Health\":\"OK\",\"HealthRollup\":\"OK\",\"State\":\"Enabled\"},\"MemorySummary\":{\"Status\":{\"Health\":\"OK\"}},\"ProcessorSummary\":{\"Status\":{\"Health\":null}}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Systems/1" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Chassis/1\"}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis" } } },
        { value = { status = 200, reason = "OK", body = "{\"Name\":\"Chassis\",\"Status\":{\"Health\":\"OK\"},\"Thermal\":{\"@odata.id\":\"/redfish/v1/Chassis/1/Thermal\"},\"Power\":{\"@odata.id\":\"/redfish/v1/Chassis/1/Power\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1" } } },
        { args = { { url = "https://bmc/redfish/v1/Chassis/1/Thermal" } }, code = "timeout", text = "https://bmc/redfish/v1/Chassis/1/Thermal did not answer within 20 s" },
      },
    },
    expect = { status = "critical", summary = "https://bmc/redfish/v1/Chassis/1/Thermal did not answer within 20 s, PowerEdge R650, 3 parts judged" },
  },
  {
    name = "a wrong password",
    args = { url = "https://bmc", user = "watch", password = "correct horse" },
    host = {
      http = {
        { value = { status = 200, reason = "OK", body = "{\"RedfishVersion\":\"1.9.0\",\"Systems\":{\"@odata.id\":\"/redfish/v1/Systems\"},\"Chassis\":{\"@odata.id\":\"/redfish/v1/Chassis\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/" } } },
        { value = { status = 401, reason = "Unauthorized", body = "{}", seconds = 0.02 } },
      },
    },
    expect = { status = "unknown", summary = "https://bmc/redfish/v1/Systems refuses access (401): check the login, and what it may read, 0 systems, 0 parts judged" },
  },
  {
    name = "a login in plain text",
    args = { url = "http://bmc", user = "watch", password = "correct horse" },
    expect = { status = "unknown", summary = "the login would go to another host in plain text: give an https url", metrics = {} },
  },
  {
    name = "something else answers",
    args = { url = "https://bmc", user = "watch", password = "correct horse" },
    host = {
      http = { value = { status = 200, reason = "OK", body = "{\"hello\":1}", seconds = 0.02 } },
    },
    expect = { status = "unknown", summary = "https://bmc is no Redfish service", metrics = {} },
  },
  {
    name = "its certificate is not valid",
    args = { url = "https://bmc", user = "watch", password = "correct horse" },
    host = {
      http = { code = "tls", text = "the certificate of bmc is not accepted: self-signed" },
    },
    expect = { status = "critical", metrics = {} },
  },
  {
    name = "more members on a further page",
    args = { url = "https://bmc" },
    host = {
      http = {
        { value = { status = 200, reason = "OK", body = "{\"RedfishVersion\":\"1.15.0\",\"Systems\":{\"@odata.id\":\"/redfish/v1/Systems\"},\"Chassis\":{\"@odata.id\":\"/redfish/v1/Chassis\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Systems/1\"}],\"Members@odata.nextLink\":\"/redfish/v1/Systems?$skip=1\"}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Systems" } } },
        { value = { status = 200, reason = "OK", body = "{\"Name\":\"node\",\"Model\":\"SR630\",\"PowerState\":\"On\",\"Status\":{\"Health\":\"OK\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Systems/1" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Chassis/1\"}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis" } } },
        { value = { status = 200, reason = "OK", body = "{\"Name\":\"box\",\"Status\":{\"Health\":\"OK\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1" } } },
      },
    },
    expect = { status = "unknown", summary = "/redfish/v1/Systems goes on in a further part, which is not judged, SR630, 2 parts judged" },
  },
  {
    name = "more sensors than it judges",
    args = { url = "https://bmc" },
    host = {
      http = {
        { value = { status = 200, reason = "OK", body = "{\"RedfishVersion\":\"1.15.0\",\"Systems\":{\"@odata.id\":\"/redfish/v1/Systems\"},\"Chassis\":{\"@odata.id\":\"/redfish/v1/Chassis\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Systems/1\"}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Systems" } } },
        { value = { status = 200, reason = "OK", body = "{\"Name\":\"node\",\"Model\":\"SR630\",\"PowerState\":\"On\",\"Status\":{\"Health\":\"OK\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Systems/1" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Chassis/1\"}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis" } } },
        { value = { status = 200, reason = "OK", body = "{\"Name\":\"box\",\"Thermal\":{\"@odata.id\":\"/redfish/v1/Chassis/1/Thermal\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1" } } },
        { value = { status = 200, reason = "OK", body = "{\"Temperatures\":[{\"Name\":\"t0\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t1\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t2\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t3\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t4\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t5\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t6\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t7\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t8\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t9\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t10\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t11\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t12\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t13\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t14\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t15\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t16\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t17\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t18\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t19\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t20\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t21\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t22\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t23\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t24\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t25\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t26\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t27\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t28\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t29\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t30\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t31\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t32\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t33\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t34\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t35\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t36\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t37\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t38\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t39\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t40\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t41\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t42\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t43\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t44\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t45\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t46\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t47\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t48\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t49\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t50\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t51\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t52\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t53\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t54\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t55\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t56\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t57\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t58\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t59\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t60\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t61\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t62\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t63\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t64\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t65\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t66\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t67\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t68\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t69\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t70\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t71\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t72\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t73\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t74\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t75\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t76\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t77\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t78\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t79\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t80\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t81\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t82\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t83\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t84\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t85\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t86\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t87\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t88\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t89\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t90\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t91\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t92\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t93\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t94\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t95\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t96\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t97\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t98\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t99\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t100\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t101\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t102\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t103\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t104\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t105\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t106\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t107\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t108\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t109\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t110\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t111\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t112\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t113\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t114\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t115\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t116\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t117\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t118\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t119\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t120\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t121\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t122\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t123\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t124\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t125\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t126\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t127\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t128\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t129\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t130\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t131\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t132\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t133\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t134\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t135\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t136\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t137\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t138\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t139\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t140\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t141\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t142\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t143\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t144\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t145\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t146\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t147\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t148\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t149\",\"ReadingCelsius\":30,\"UpperThresholdCritical\":80},{\"Name\":\"t150\",\"ReadingCelsius\":99,\"UpperThresholdCritical\":80},{\"Name\":\"t151\",\"ReadingCelsius\":99,\"UpperThresholdCritical\":80}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1/Thermal" } } },
      },
    },
    expect = { status = "unknown", summary = "2 further sensors are not judged, SR630, 1 part judged", metrics = { ["temperature{sensor=t149}"] = 30 } },
  },
  {
    name = "a collection without members",
    args = { url = "https://bmc" },
    host = {
      http = {
        { value = { status = 200, reason = "OK", body = "{\"RedfishVersion\":\"1.15.0\",\"Systems\":{\"@odata.id\":\"/redfish/v1/Systems\"},\"Chassis\":{\"@odata.id\":\"/redfish/v1/Chassis\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/" } } },
        { value = { status = 200, reason = "OK", body = "{\"Name\":\"Systems\"}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Systems" } } },
        { value = { status = 200, reason = "OK", body = "{\"Name\":\"node\",\"Model\":\"SR630\",\"PowerState\":\"On\",\"Status\":{\"Health\":\"OK\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Systems/1" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Chassis/1\"}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis" } } },
        { value = { status = 200, reason = "OK", body = "{\"Name\":\"box\",\"Thermal\":{\"@odata.id\":\"/redfish/v1/Chassis/1/Thermal\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1" } } },
      },
    },
    expect = { status = "critical", summary = "/redfish/v1/Systems names no members, 0 systems, 0 parts judged" },
  },
  {
    name = "a controller of a shelf, which has no systems",
    args = { url = "https://bmc" },
    host = {
      http = {
        { value = { status = 200, reason = "OK", body = "{\"RedfishVersion\":\"1.15.0\",\"Chassis\":{\"@odata.id\":\"/redfish/v1/Chassis\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Chassis/1\"}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis" } } },
        { value = { status = 200, reason = "OK", body = "{\"Name\":\"shelf\",\"Status\":{\"Health\":\"OK\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1" } } },
      },
    },
    expect = { status = "ok" },
  },
  {
    name = "it tells of no chassis",
    args = { url = "https://bmc", user = "watch", password = "correct horse" },
    host = {
      http = {
        { value = { status = 200, reason = "OK", body = "{\"RedfishVersion\":\"1.9.0\",\"Systems\":{\"@odata.id\":\"/redfish/v1/Systems\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Systems/1\"}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Systems" } } },
        { value = { status = 200, reason = "OK", body = "{\"Name\":\"System\",\"Model\":\"PowerEdge R650\",\"PowerState\":\"On\",\"Status\":{\"Health\":\"OK\",\"HealthRollup\":\"OK\",\"State\":\"Enabled\"},\"MemorySummary\":{\"Status\":{\"Health\":\"OK\"}},\"ProcessorSummary\":{\"Status\":{\"Health\":null}}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Systems/1" } } },
        { value = { status = 200, reason = "OK", body = "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Chassis/1\"}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis" } } },
        { value = { status = 200, reason = "OK", body = "{\"Name\":\"Chassis\",\"Status\":{\"Health\":\"OK\"},\"Thermal\":{\"@odata.id\":\"/redfish/v1/Chassis/1/Thermal\"},\"Power\":{\"@odata.id\":\"/redfish/v1/Chassis/1/Power\"}}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1" } } },
        { value = { status = 200, reason = "OK", body = "{\"Temperatures\":[{\"Name\":\"Inlet\",\"ReadingCelsius\":22,\"UpperThresholdNonCritical\":38,\"UpperThresholdCritical\":42,\"Status\":{\"Health\":\"OK\",\"State\":\"Enabled\"}},{\"Name\":\"GPU\",\"ReadingCelsius\":0,\"Status\":{\"State\":\"Absent\"}}],\"Fans\":[{\"Name\":\"Fan 1\",\"Reading\":4800,\"ReadingUnits\":\"RPM\",\"Status\":{\"Health\":\"OK\"}},{\"Name\":\"Fan 2\",\"Reading\":40,\"ReadingUnits\":\"Percent\",\"Status\":{\"Health\":\"OK\"}}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1/Thermal" } } },
        { value = { status = 200, reason = "OK", body = "{\"PowerControl\":[{\"PowerConsumedWatts\":210}],\"PowerSupplies\":[{\"Name\":\"PSU 1\",\"Status\":{\"Health\":\"OK\"}},{\"Name\":\"PSU 2\",\"Status\":{\"Health\":\"OK\"}}]}", seconds = 0.02 }, args = { { url = "https://bmc/redfish/v1/Chassis/1/Power" } } },
      },
    },
    expect = { status = "unknown" },
  },
}
