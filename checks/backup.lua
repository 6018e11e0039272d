local check = {
  summary = "Backups of restic or Borg are fresh: the age of the newest snapshot",
  needs = { "program" },
  timeout = "120s",
  args = {
    tool = { type = "string", default = "restic", choices = { "restic", "borg" }, help = "what made them" },
    program = { type = "string", help = "the name in the host's policy of the program that lists them; the name of the tool, if it is not given" },
    names = { type = "list", default = { "*" }, help = "hosts (restic) or names of archives (borg), each of which needs a fresh one; * and ? are wildcards" },
    path = { type = "string", help = "a path that the snapshots of restic have to contain" },
    warn = { type = "range", default = "93600", help = "seconds since the newest snapshot; 93600 are 26 hours" },
    crit = { type = "range", default = "180000", help = "seconds since the newest snapshot; 180000 are 50 hours" },
  },
}

local SECONDS = 100

-- Returns { name, at } of each snapshot, or nil and a sentence. `at` is missing for a time that cannot be read.
local READ = {
  restic = function(args, document)
    local fields, found = require "fields", {}
    for _, one in ipairs(document) do
      local name, holds = fields.text(one, "hostname"), not args.path
      for _, path in ipairs(fields.list(one, "paths")) do holds = holds or path == args.path end
      if not name or not fields.text(one, "time") then return nil, "the list has a snapshot without host or time: it is none of restic" end
      -- Beyond the sixth digit of a second nothing is read.
      if holds then found[#found + 1] = { name = name, at = require("times").of(one.time) } end
    end
    return found
  end,
  borg = function(_, document)
    local fields, found = require "fields", {}
    if type(document.archives) ~= "table" then return nil, "the list has no archives: it is none of borg" end
    for _, one in ipairs(document.archives) do
      local name, time = fields.text(one, "name"), fields.text(one, "start") or fields.text(one, "time")
      if not name or not time then return nil, "the list has an archive without name or time: it is none of borg" end
      -- Borg writes the time of its host, without a zone.
      local year, month, day, hour, min, sec = time:match("^(%d%d%d%d)-(%d%d)-(%d%d)T(%d%d):(%d%d):(%d%d)[%d.]*$")
      local at = require("times").of(time)
      if year and at then at = os.time { year = year, month = month, day = day, hour = hour, min = min, sec = sec } end
      found[#found + 1] = { name = name, at = at }
    end
    return found
  end,
}

-- Judges the newest snapshot of one name. Returns the status and its sentence.
local function judge(args, host, pattern, snapshots)
  local words, newest, count = require "words", nil, 0
  for _, one in ipairs(snapshots) do
    if require("patterns").fits(one.name, pattern) then
      if not one.at then return "unknown", string.format("%s: the time of a snapshot cannot be read", one.name) end
      newest, count = math.max(newest or one.at, one.at), count + 1
    end
  end
  local shown = pattern == "*" and "the newest snapshot" or pattern .. ": the newest snapshot"
  if not newest then return "critical", (pattern == "*" and "" or pattern .. ": ") .. "there is no snapshot" end
  local age = host.now() - newest
  -- A clock that is wrong would keep an old backup fresh for ever.
  if age < -300 then return "unknown", string.format("%s lies %s in the future: compare the clocks", shown, words.duration(-age)) end
  local labels = { name = pattern }
  local status = host.metric("age", math.max(0, age), { unit = "s", warn = args.warn, crit = args.crit, min = 0, labels = labels })
  host.metric("snapshots", count, { unit = "snapshots", min = 0, labels = labels })
  return status, string.format("%s is %s old", shown, words.duration(math.max(0, age)))
end

function check.run(args, host)
  local worse, words = require("status").worse, require "words"
  local document, exit = require("program").json(host, args.program or args.tool, nil, SECONDS)
  if not document then return "unknown", exit end
  if exit ~= 0 then return "unknown", string.format("the program %s fails (exit status %d)", args.program or args.tool, exit) end
  local snapshots, fault = READ[args.tool](args, document)
  if not snapshots then return "unknown", fault end
  local worst, bad, good = "ok", {}, {}
  for _, pattern in ipairs(args.names) do
    local status, sentence = judge(args, host, pattern, snapshots)
    worst = worse(worst, status)
    local list = status == "ok" and good or bad
    list[#list + 1] = sentence
  end
  if #bad + #good == 0 then return "unknown", "names: give one at least" end
  return worst, words.list(#bad > 0 and bad or good, 5)
end

return check
