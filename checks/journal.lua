local check = {
  summary = "New errors in systemd's journal, of a unit, of the kernel, or of all",
  needs = { "journal" },
  timeout = "60s",
  attempts = 1,  -- the next run is good again: what is told later would never be told
  args = {
    unit = { type = "string", help = "the name of a unit, or kernel; without it, the entries of all, for which the policy has to grant \"*\"" },
    priority = { type = "string", default = "err", choices = { "emerg", "alert", "crit", "err", "warning", "notice", "info", "debug" }, help = "the least priority that counts" },
    match = { type = "string", help = "a Lua pattern that a message has to match" },
    ignore = { type = "list", default = {}, help = "plain texts; an entry whose program or message contains one does not count" },
    warn = { type = "range", default = "0", help = "number of new entries" },
    crit = { type = "range", help = "number of new entries" },
  },
}

-- Each call reads at most 500 entries; those beyond this many calls are read in the next run.
local MOST_CALLS, SHOWN = 6, 10

local function shown(entry)
  local from = entry.identifier or entry.unit
  return (from and from .. ": " or "") .. (entry.message or "")
end

local function fits(args, text)
  if args.match and not text:find(args.match) then return false end
  for _, ignored in ipairs(args.ignore) do
    if text:find(ignored, 1, true) then return false end
  end
  return true
end

function check.run(args, host)
  local words = require "words"
  local cursor, fault, why = host.state.get("cursor")
  if fault then return "unknown", why end
  local begun
  local count, read, first, more = 0, 0, nil, false
  for call = 1, MOST_CALLS do
    local new, code, text = host.journal { unit = args.unit, priority = args.priority, cursor = cursor }
    if not new and code == "budget" and call > 1 then break end
    if not new then return "unknown", text end
    begun = begun or cursor ~= nil
    cursor, more = new.cursor, new.more
    for _, entry in ipairs(new.entries) do
      local line = shown(entry)
      read = read + 1
      if fits(args, line) then
        count, first = count + 1, first or line
        if count <= SHOWN then print(line) end
      end
    end
    if not more then break end
  end
  host.state.put("cursor", cursor)
  local labels = { unit = args.unit or "*", priority = args.priority }
  local status = host.metric("entries", count, { unit = "entries", warn = args.warn, crit = args.crit, min = 0, labels = labels })
  if not begun then return status, "the journal is read from here on" end
  local summary = words.count(count, "new entry", "new entries") .. (read > count and string.format(" of %d", read) or "")
  if first then summary = summary .. ", first: " .. first:sub(1, 200) end
  return status, summary .. (more and " (more waits for the next run)" or "")
end

return check
