-- Turns names of common objects into OIDs: SNMPv2-MIB, IF-MIB, HOST-RESOURCES-MIB, ENTITY-MIB, ENTITY-SENSOR-MIB, UPS-MIB. Pure; no host.
local snmp_names = {}

-- Groups: the module, the OID above them, whether each has one value (the instance 0) or one in each row of a table, and the names, by their
-- number below the OID; "-" is one that is no value.
local GROUPS = {
  { "SNMPv2-MIB", "1.3.6.1.2.1.1", true, "sysDescr sysObjectID sysUpTime sysContact sysName sysLocation sysServices" },
  { "SNMPv2-MIB", "1.3.6.1.2.1.11", true, "snmpInPkts snmpOutPkts snmpInBadVersions snmpInBadCommunityNames snmpInBadCommunityUses snmpInASNParseErrs" },
  { "IF-MIB", "1.3.6.1.2.1.2", true, "ifNumber" },
  { "IF-MIB", "1.3.6.1.2.1.2.2.1", false, "ifIndex ifDescr ifType ifMtu ifSpeed ifPhysAddress ifAdminStatus ifOperStatus ifLastChange ifInOctets ifInUcastPkts"
    .. " ifInNUcastPkts ifInDiscards ifInErrors ifInUnknownProtos ifOutOctets ifOutUcastPkts ifOutNUcastPkts ifOutDiscards ifOutErrors ifOutQLen" },
  { "IF-MIB", "1.3.6.1.2.1.31.1.1.1", false, "ifName ifInMulticastPkts ifInBroadcastPkts ifOutMulticastPkts ifOutBroadcastPkts ifHCInOctets ifHCInUcastPkts"
    .. " ifHCInMulticastPkts ifHCInBroadcastPkts ifHCOutOctets ifHCOutUcastPkts ifHCOutMulticastPkts ifHCOutBroadcastPkts - ifHighSpeed ifPromiscuousMode"
    .. " ifConnectorPresent ifAlias ifCounterDiscontinuityTime" },
  { "HOST-RESOURCES-MIB", "1.3.6.1.2.1.25.1", true, "hrSystemUptime hrSystemDate - - hrSystemNumUsers hrSystemProcesses hrSystemMaxProcesses" },
  { "HOST-RESOURCES-MIB", "1.3.6.1.2.1.25.2", true, "- hrMemorySize" },
  { "HOST-RESOURCES-MIB", "1.3.6.1.2.1.25.2.3.1", false, "hrStorageIndex hrStorageType hrStorageDescr hrStorageAllocationUnits hrStorageSize hrStorageUsed"
    .. " hrStorageAllocationFailures" },
  { "HOST-RESOURCES-MIB", "1.3.6.1.2.1.25.3.2.1", false, "hrDeviceIndex hrDeviceType hrDeviceDescr hrDeviceID hrDeviceStatus hrDeviceErrors" },
  { "HOST-RESOURCES-MIB", "1.3.6.1.2.1.25.3.3.1", false, "- hrProcessorLoad" },
  { "HOST-RESOURCES-MIB", "1.3.6.1.2.1.25.3.5.1", false, "hrPrinterStatus hrPrinterDetectedErrorState" },
  { "HOST-RESOURCES-MIB", "1.3.6.1.2.1.25.4.2.1", false, "hrSWRunIndex hrSWRunName hrSWRunID hrSWRunPath hrSWRunParameters hrSWRunType hrSWRunStatus" },
  { "HOST-RESOURCES-MIB", "1.3.6.1.2.1.25.5.1.1", false, "hrSWRunPerfCPU hrSWRunPerfMem" },
  { "ENTITY-MIB", "1.3.6.1.2.1.47.1.1.1.1", false, "- entPhysicalDescr entPhysicalVendorType entPhysicalContainedIn entPhysicalClass entPhysicalParentRelPos"
    .. " entPhysicalName entPhysicalHardwareRev entPhysicalFirmwareRev entPhysicalSoftwareRev entPhysicalSerialNum" },
  { "ENTITY-SENSOR-MIB", "1.3.6.1.2.1.99.1.1.1", false, "entPhySensorType entPhySensorScale entPhySensorPrecision entPhySensorValue entPhySensorOperStatus"
    .. " entPhySensorUnitsDisplay entPhySensorValueTimeStamp entPhySensorValueUpdateRate" },
  { "UPS-MIB", "1.3.6.1.2.1.33.1.1", true, "upsIdentManufacturer upsIdentModel upsIdentUPSSoftwareVersion upsIdentAgentSoftwareVersion upsIdentName"
    .. " upsIdentAttachedDevices" },
  { "UPS-MIB", "1.3.6.1.2.1.33.1.2", true, "upsBatteryStatus upsSecondsOnBattery upsEstimatedMinutesRemaining upsEstimatedChargeRemaining upsBatteryVoltage"
    .. " upsBatteryCurrent upsBatteryTemperature" },
  { "UPS-MIB", "1.3.6.1.2.1.33.1.3", true, "upsInputLineBads upsInputNumLines" },
  { "UPS-MIB", "1.3.6.1.2.1.33.1.3.3.1", false, "- upsInputFrequency upsInputVoltage upsInputCurrent upsInputTruePower" },
  { "UPS-MIB", "1.3.6.1.2.1.33.1.4", true, "upsOutputSource upsOutputFrequency upsOutputNumLines" },
  { "UPS-MIB", "1.3.6.1.2.1.33.1.4.4.1", false, "- upsOutputVoltage upsOutputCurrent upsOutputPower upsOutputPercentLoad" },
  { "UPS-MIB", "1.3.6.1.2.1.33.1.6", true, "upsAlarmsPresent" },
}

local function find(wanted, module)
  for _, group in ipairs(GROUPS) do
    local number = 0
    for name in group[4]:gmatch("%S+") do
      number = number + 1
      if name == wanted and (module == nil or module == group[1]) then return group[2] .. "." .. number, group[3] end
    end
  end
end

-- Returns the OID in numbers of one that is written so, or by a name: sysName, sysName.0, ifInErrors.3, IF-MIB::ifInErrors.3, and with `each` ifInErrors.
-- Returns nil and a sentence for what is no OID here.
function snmp_names.oid(text, each)
  if text:find("^%.?%d[%d.]*$") then return (text:gsub("^%.", "")) end
  local module, name, index = text:match("^([%w-]+)::(%a[%w-]*)([%d.]*)$")
  if not module then name, index = text:match("^(%a[%w-]*)([%d.]*)$") end
  if not name or not (index == "" or index:find("^%.%d[%d.]*$")) then
    return nil, string.format("oid is %q: write an OID in numbers, or a name such as ifInErrors.3", text:sub(1, 80))
  end
  local found, is_single = find(name, module)
  if not found then
    return nil, string.format("oid is %q, which is no name that is known here: write it in numbers (snmptranslate -On tells them)", text:sub(1, 80))
  end
  if each and not is_single or index ~= "" then return found .. index end
  if is_single then return found .. (each and "" or ".0") end
  return nil, string.format("oid is %q, a column: write the index of its row behind it, or each = true", text:sub(1, 80))
end

return snmp_names
