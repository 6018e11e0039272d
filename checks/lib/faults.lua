-- Raises a failure as { code, text }, and catches it: a protocol has many steps, and each can fail. Pure; no host.
local faults = {}

function faults.fail(code, text)
  error({ code = code, text = text }, 0)
end

-- Calls `act` and returns its results, or nil, code, text if a step failed.
function faults.guarded(act, ...)
  local results = table.pack(pcall(act, ...))
  if results[1] then return table.unpack(results, 2, results.n) end
  local fault = results[2]
  if type(fault) == "table" and fault.code then return nil, fault.code, fault.text end
  -- string.unpack found a packet that is shorter than its fields.
  if tostring(fault):find("to 'unpack'", 1, true) then return nil, "protocol", "the server sends broken packets" end
  error(fault, 0)
end

return faults
