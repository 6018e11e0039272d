local check = {
  summary = "New lines of a log that contain a text or match a Lua pattern",
  needs = { "file" },
  timeout = "20s",
  attempts = 1,  -- the next run is good again: what is told later would never be told
  args = {
    path = { type = "string", required = true, help = "a path below a root that the policy grants" },
    match = { type = "string", required = true, help = "what to look for" },
    pattern = { type = "boolean", default = false, help = "match is a Lua pattern, not plain text" },
    ignore = { type = "list", default = {}, help = "plain texts; a line that contains one does not count" },
    ignore_case = { type = "boolean", default = false, help = "upper and lower case are the same" },
    warn = { type = "range", default = "0", help = "number of new lines that match" },
    crit = { type = "range", help = "number of new lines that match" },
  },
}

-- Each call reads at most 256 KiB; lines beyond this many calls are read in the next run.
local MOST_CALLS = 20
local SHOWN = 10

local function fits(line, args)
  local text = args.ignore_case and line:lower() or line
  local wanted = args.ignore_case and not args.pattern and args.match:lower() or args.match
  if not text:find(wanted, 1, not args.pattern) then return false end
  for _, ignored in ipairs(args.ignore) do
    if text:find(args.ignore_case and ignored:lower() or ignored, 1, true) then return false end
  end
  return true
end

function check.run(args, host)
  local words = require "words"
  local cursor, fault, why = host.state.get("cursor")
  if fault then return "unknown", why end
  local first
  local matches, lines, skipped, rotated, incomplete, more = 0, 0, 0, false, false, false
  for call = 1, MOST_CALLS do
    local new, code, text = host.file.tail(args.path, cursor)
    -- Out of budget: the lines read so far count, and the rest is read in the next run.
    if not new and code == "budget" and call > 1 then break end
    if not new then return "unknown", text end
    more = new.more
    cursor, skipped, rotated = new.cursor, skipped + new.skipped_bytes, rotated or new.rotated
    incomplete = incomplete or new.incomplete
    for _, line in ipairs(new.lines) do
      lines = lines + 1
      if fits(line, args) then
        matches, first = matches + 1, first or line
        if matches <= SHOWN then print(line) end
      end
    end
    if not more then break end
  end
  host.state.put("cursor", cursor)
  local labels = { path = args.path }
  local status = host.metric("matches", matches, { unit = "lines", warn = args.warn, crit = args.crit, min = 0, labels = labels })
  host.metric("lines", lines, { unit = "lines", min = 0, labels = labels })
  local summary = string.format("%d of %s in %s match", matches, words.count(lines, "new line", "new lines"), args.path)
  if first then summary = summary .. ", first: " .. first:sub(1, 200) end
  if incomplete then summary = summary .. " (the log was rotated, and lines before that may be missing)"
  elseif rotated then summary = summary .. " (the log was rotated)" end
  if more then summary = summary .. " (more waits for the next run)" end
  if skipped > 0 then summary = summary .. string.format(" (%s were too much to read)", words.bytes(skipped)) end
  return status, summary
end

return check
