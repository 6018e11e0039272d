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
}
