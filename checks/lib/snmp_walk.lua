-- Reads tables by SNMP: several columns side by side, as many rows in each datagram as fit into its size (RFC 3416, 4.2.3).
-- Version 1 asks for one row at a time. Used through Session:walk of snmp.lua.
local ber, faults, pdu = require "ber", require "faults", require "snmp_pdu"

local walk = {}
local Walk = {}
Walk.__index = Walk

-- Bytes that an answer should have at most: larger ones are sent in fragments, which firewalls and small devices drop.
local ANSWER = 1400
-- Bytes of a value with its OID, before the first answer tells how many they are; and those around all of them.
local BINDING, AROUND = 24, { ["1"] = 60, ["2c"] = 60, ["3"] = 160 }
-- Datagrams that one walk may take; the calls of a run are an end as well (version 3 takes five for each datagram).
local MOST_DATAGRAMS = 500
local MOST_REPETITIONS = 60

-- True if the parts of `oid` come behind those of `before`.
local function is_behind(oid, before)
  for at = 1, #oid do
    if at > #before or oid[at] > before[at] then return true end
    if oid[at] < before[at] then return false end
  end
  return false
end

-- One column: the values below `root`, as far as they came, by their index.
local function column_of(root)
  local bare = root:gsub("^%.", "")
  return { root = bare, last = bare, parts = ber.parts(bare) or {}, rows = {}, count = 0 }
end

-- Takes one value into its column. Returns false when the column is over.
function Walk:_take(column, entry)
  if pdu.ABSENT[entry.type] or entry.oid:sub(1, #column.root + 1) ~= column.root .. "." then return false end
  local parts = ber.parts(entry.oid)
  if not parts or not is_behind(parts, column.parts) then
    faults.fail("protocol", string.format("%s leads a walk in a circle: %s comes behind %s", self.session.name, entry.oid, column.last))
  end
  column.last, column.parts, column.count = entry.oid, parts, column.count + 1
  if column.count > self.most then
    faults.fail("too-large", string.format("%s: the table has more than %d rows", self.session.name, self.most))
  end
  column.rows[entry.oid:sub(#column.root + 2)] = entry
  return true
end

-- Takes the values of one answer: the heads, then row by row those of the columns that are open.
function Walk:_taken(bindings)
  local over, left, skipped = {}, {}, #self.heads
  for at, head in ipairs(self.heads) do
    local entry = bindings[at]
    if entry and entry.oid == head .. ".0" then self.found[head] = entry end
  end
  for at = skipped + 1, #bindings do
    local column = self.open[(at - skipped - 1) % #self.open + 1]
    if not over[column] and not self:_take(column, bindings[at]) then over[column] = true end
  end
  for _, column in ipairs(self.open) do
    if not over[column] then left[#left + 1] = column end
  end
  self.open, self.heads = left, {}
end

-- Returns the answer to the next request, or nil if it was too big for the device, or lost on the way.
function Walk:_ask()
  local oids = table.move(self.heads, 1, #self.heads, 1, {})
  for _, column in ipairs(self.open) do oids[#oids + 1] = column.last end
  local session, heads, rows = self.session, #self.heads, self.rows
  if session.version == "1" then return session:request(pdu.NEXT, oids) end
  local answer, code, text = faults.guarded(session.request, session, pdu.BULK, oids, heads, rows, rows > 1 and 1 or nil)
  if answer then return answer.status ~= 1 and answer or nil end
  if code ~= "timeout" or rows == 1 then faults.fail(code, text) end
end

-- Asks for fewer rows at once from now on.
function Walk:_ask_less()
  if self.rows == 1 then faults.fail("protocol", self.session.name .. " can't send one row of the table (tooBig)") end
  self.rows = self.rows // 2
  self.ceiling = self.rows
end

-- Sets how many rows fit into the next answer, by the mean size of the values of this one.
function Walk:_fit(answer)
  local around = AROUND[self.session.version]
  local size = math.max((answer.size - around) / #answer.bindings, 8)
  local rows = math.floor((ANSWER - around) / (math.max(#self.open, 1) * size))
  self.rows = math.max(1, math.min(rows, self.ceiling))
end

function Walk:_judge(answer)
  if answer.status == 2 and self.session.version == "1" and answer.index > #self.heads and answer.index <= #self.heads + #self.open then
    table.remove(self.open, answer.index - #self.heads)
  elseif answer.status ~= 0 then
    self.session:refused(answer)
  elseif #answer.bindings == 0 then
    faults.fail("protocol", self.session.name .. " answers without a value")
  else
    self:_taken(answer.bindings)
    self:_fit(answer)
  end
end

-- Returns { [column] = { [index] = { oid, type, value } } } by the OIDs of `columns`, empty where the device has no such
-- column, and { [head] = { oid, type, value } } of the single values `heads`, which are named without their ".0".
-- Fails beyond `most` rows, and where the device sends rows without end.
function walk.run(session, columns, most, heads)
  local self = setmetatable({ session = session, most = most, heads = heads, open = {}, found = {}, ceiling = MOST_REPETITIONS }, Walk)
  local all, before = {}, session.datagrams
  for at, root in ipairs(columns) do
    self.open[at] = column_of(root)
    all[root] = self.open[at].rows
  end
  self.rows = math.max(1, (ANSWER - AROUND[session.version]) // (#columns * BINDING))
  while #self.open > 0 do
    local spent = session.datagrams - before
    if spent >= MOST_DATAGRAMS then
      faults.fail("too-large", string.format("%s: the table is not over after %d datagrams", session.name, spent))
    end
    local answer = self:_ask()
    if answer then self:_judge(answer) else self:_ask_less() end
  end
  return all, self.found
end

return walk
