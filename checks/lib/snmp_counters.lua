-- Tells how fast counters of a device grow between two runs. A wrap of a 32-bit counter counts; after a restart of the
-- device, and where a counter was set back, there is no rate. Uses host.state.
local counters = {}
local Since = {}
Since.__index = Since

-- Ticks are hundredths of a second, and begin anew after 497 days.
local TICKS_WRAP = 4294967296
-- Seconds by which the clocks of the two may differ between two runs.
local SLACK = 120

-- Returns what is a whole number; nil for the rest: a device may send a text, or bytes, where a number should be.
local function whole(value) return math.type(value) == "integer" and value or nil end

-- True if a device whose time since its start was `before` and is `now` has restarted within `elapsed` seconds.
function counters.has_restarted(before, now, elapsed)
  if not before or not now or now >= before then return false end
  return before + (elapsed + SLACK) * 100 < TICKS_WRAP
end

-- Reads what the last run has kept under `key`. `ticks` is the time since the device's start (sysUpTime), or nil.
function counters.open(host, key, ticks)
  local now, before = host.now(), host.state.get(key)
  local since = setmetatable({ host = host, key = key, at = now, ticks = whole(ticks), values = {}, before = {} }, Since)
  if not before then return since end
  since.elapsed = now - before.at
  since.restarted = counters.has_restarted(whole(before.ticks), since.ticks, since.elapsed)
  if since.elapsed > 0 and not since.restarted then since.before = before.values end
  return since
end

-- Takes the value of a counter under a name that is its own, and returns its growth a second, or nil. `since` another
-- value of `mark` than the last time the counter was set back (ifCounterDiscontinuityTime).
function Since:rate(name, entry, mark)
  local value = whole(entry.value)
  mark = whole(mark)
  self.values[name] = mark and value and { value, mark } or value
  local old, old_mark = self.before[name], nil
  if type(old) == "table" then old, old_mark = old[1], old[2] end
  if old_mark ~= mark then return nil end
  if not value or not whole(old) then return nil end
  local grown = value - old
  if entry.type == "counter32" then
    grown = grown & 0xffffffff
  elseif math.ult(value, old) then
    return nil
  end
  return grown / self.elapsed
end

-- Keeps the values for the next run. Returns false if they have no room in host.state; then there are no rates.
function Since:keep()
  local _, code = self.host.state.put(self.key, { at = self.at, ticks = self.ticks, values = self.values })
  return code == nil
end

return counters
