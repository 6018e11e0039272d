local check = {
  summary = "Services of a Windows host by SNMP: those that must run do, those that must not don't",
  needs = { "udp", "crypto" },
  timeout = "30s",
  args = {
    host = { type = "string", default = "localhost", help = "name or address" },
    port = { type = "integer", default = 161, min = 1, max = 65535, help = "the port" },
    version = { type = "string", default = "2c", choices = { "1", "2c", "3" }, help = "of SNMP; Windows' own service has 1 and 2c; 3 proves and encrypts" },
    community = { type = "string", default = "public", help = "for 1 and 2c, a secret: { secret = \"NAME\" }" },
    user = { type = "string", default = "", help = "for 3" },
    auth = { type = "string", default = "sha", choices = { "md5", "sha", "sha224", "sha256", "sha384", "sha512" }, help = "for 3: proves by" },
    auth_password = { type = "string", help = "for 3, a secret; without it nothing is proved" },
    privacy = { type = "string", default = "aes", choices = { "des", "aes", "aes192", "aes256", "aes192c", "aes256c" }, help = "for 3: encrypts by; c: Cisco's keys" },
    privacy_password = { type = "string", help = "for 3, a secret; without it nothing is encrypted" },
    context = { type = "string", default = "", help = "for 3" },
    wait = { type = "duration", default = "2s", min = 0.1, max = 20, help = "for each answer" },
    retries = { type = "integer", default = 2, min = 0, max = 5, help = "of a datagram that is not answered" },
    running = { type = "list", help = "display names or patterns (* and ?) of services that must run; a pattern wants one that fits at least" },
    stopped = { type = "list", help = "display names or patterns of services that must not run" },
    paused = { type = "list", help = "display names or patterns of services that may be paused; others that are make a warning" },
    most = { type = "integer", default = 400, min = 1, max = 1000, help = "services that the host may have" },
  },
}

-- LanMgr-MIB-II: svSvcTable. Windows lists the services that have been started; one that is stopped is not in it.
local NAME, STATE = "1.3.6.1.4.1.77.1.2.3.1.1", "1.3.6.1.4.1.77.1.2.3.1.3"
local ACTIVE, PAUSED = 1, 4
local WORDS = { "runs", "is about to go on", "is about to pause", "is paused" }
local MOST_METRICS = 100

-- Returns a name for people, its bytes, and how it was read: "utf-8", "western", or nil if it could not be. Windows writes names in the code
-- page of its own language, and says nowhere which that is.
local function read(entry)
  local name, value = require("snmp").text(entry), entry.value
  if type(value) ~= "string" then return name, name, "utf-8" end
  local bytes = value:gsub("[%z%s]+$", "")
  if utf8.len(bytes) then return name, bytes, "utf-8" end
  local western = require("code_pages").western(bytes)
  return western or name, bytes, western and "western"
end

-- Returns the services of the host, by name: { name, bytes, form, state }; see `read`. One that starts or ends meanwhile may lack its state.
local function asked(args, host)
  local snmp = require "snmp"
  local found = snmp.open(host, args):walk({ NAME, STATE }, args.most)
  local list = {}
  for index, entry in pairs(found[NAME]) do
    local state, name, bytes, form = found[STATE][index], read(entry)
    list[#list + 1] = { name = name, bytes = bytes, form = form, state = state and state.value }
  end
  table.sort(list, function(one, other) return one.name < other.name end)
  return list
end

-- True if a service has a name that fits a pattern. ASCII is the same in all code pages, so that patterns of it fit also what can't be read.
local function fits(one, pattern)
  local patterns = require "patterns"
  return patterns.fits(one.name, pattern) or patterns.fits(one.bytes, pattern)
end

-- True if a pattern has letters that the names of this host may have and that can't be read in them.
local function is_unclear(pattern, list)
  if not pattern:find("[\128-\255]") then return false end
  local is_western = require("code_pages").is_western(pattern)
  for _, one in ipairs(list) do
    if not one.form or (one.form == "western" and not is_western) then return true end
  end
  return false
end

-- Puts a pattern that no name fits into `bad`: into `text` as one that is missed, if there is a text.
local function tell_missing(pattern, list, bad, text)
  if is_unclear(pattern, list) then
    table.insert(bad.unknown, string.format("there is no telling whether %s runs, names of other code pages than 1252 can't be read", pattern))
  elseif text then
    table.insert(bad.critical, text)
  end
end

-- Marks the services that must run (is_wanted), with a metric for each, and puts those that the host doesn't list into `bad`.
local function must_run(args, host, list, bad)
  local count = 0
  for _, pattern in ipairs(args.running or {}) do
    local is_there = false
    for _, one in ipairs(list) do
      if fits(one, pattern) then
        is_there, one.is_wanted = true, true
      end
    end
    if not is_there then tell_missing(pattern, list, bad, pattern .. " does not run") end
  end
  for _, one in ipairs(list) do
    if one.is_wanted and count < MOST_METRICS then
      count = count + 1
      host.metric("running", one.state == ACTIVE and 1 or 0, { labels = { service = one.name }, unit = "", min = 0, max = 1 })
    end
  end
end

-- Marks the services that must not run (is_unwanted).
local function must_not_run(args, list, bad)
  for _, pattern in ipairs(args.stopped or {}) do
    local is_there = false
    for _, one in ipairs(list) do
      if fits(one, pattern) then
        is_there, one.is_unwanted = true, true
      end
    end
    if not is_there then tell_missing(pattern, list, bad) end
  end
end

-- True if a service may be paused.
local function may_pause(args, one)
  for _, pattern in ipairs(args.paused or {}) do
    if fits(one, pattern) then return true end
  end
  return false
end

-- Puts each service that is not as it should be into the texts of its status.
local function judge(args, list, bad)
  for _, one in ipairs(list) do
    local word = WORDS[one.state]
    if one.is_unwanted then
      table.insert(bad.critical, string.format("%s %s and must not", one.name, word or "is there"))
    elseif not word then
      table.insert(bad.unknown, one.name .. " is in an unknown state")
    elseif one.state ~= ACTIVE and not may_pause(args, one) then
      table.insert(one.is_wanted and one.state == PAUSED and bad.critical or bad.warning, one.name .. " " .. word)
    end
  end
end

function check.run(args, host)
  local words = require "words"
  local list, code, text = require("faults").guarded(asked, args, host)
  if not list then return require("snmp").verdict(code, text) end
  if #list == 0 then
    return "unknown", args.host .. " tells no services: it is no Windows host, or lets this community see none"
  end
  local bad, active = { critical = {}, warning = {}, unknown = {} }, 0
  must_run(args, host, list, bad)
  must_not_run(args, list, bad)
  judge(args, list, bad)
  for _, one in ipairs(list) do active = active + (one.state == ACTIVE and 1 or 0) end
  host.metric("services", active, { unit = "services", min = 0 })
  local summary = words.count(active, "service runs", "services run")
  for _, status in ipairs { "critical", "unknown", "warning" } do
    if #bad[status] > 0 then return status, words.list(bad[status], 5) .. "; " .. summary end
  end
  return "ok", summary
end

return check
