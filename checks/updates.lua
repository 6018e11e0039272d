local check = {
  summary = "Updates of packages that are not installed yet, and those for security among them (apt, dnf)",
  needs = { "program", "file" },
  timeout = "120s",
  args = {
    manager = { type = "string", default = "apt", choices = { "apt", "dnf" }, help = "the packages of Debian and Ubuntu, or those of Fedora and Red Hat" },
    warn = { type = "range", help = "all updates" },
    crit = { type = "range", help = "all updates" },
    security_warn = { type = "range", default = "0", help = "updates for security" },
    security_crit = { type = "range", help = "updates for security" },
    lists = { type = "string", default = "/var/lib/apt/lists", help = "what apt renews with its lists, for their age; empty: the age is not judged" },
    lists_warn = { type = "range", default = "604800", help = "seconds since the lists of apt were renewed: old lists know no updates" },
    lists_crit = { type = "range", help = "seconds since the lists of apt were renewed" },
  },
}

local SECONDS = 50

-- Returns the numbers of updates and of those for security, or nil and a sentence.
local READ = {
  apt = function(host)
    local text, fault = require("program").text(host, "apt-upgrades", nil, SECONDS)
    if not text then return nil, fault end
    local count = tonumber(text:match("(%d+) upgraded, %d+ newly installed, %d+ to remove"))
    if not count then return nil, "the program apt-upgrades writes no simulation of apt-get: see docs/checks.rst for its command" end
    local all, security = 0, 0
    for line in text:gmatch("[^\n]+") do
      local origin = line:match("^Inst %S+ %[.-%] %((.*)%)")
      if origin then
        all = all + 1
        if origin:find("%-[Ss]ecurity") then security = security + 1 end
      end
    end
    return math.max(all, count), security
  end,
  dnf = function(host)
    local function count(name)
      local text, exit = require("program").text(host, name, nil, SECONDS, { [0] = true, [100] = true })
      if not text then return nil, exit end
      local found = 0
      for line in (text .. "\n"):gsub("\nObsoleting Packages.*$", "\n"):gmatch("[^\n]+") do
        if line:find("^[%w_][%w_.+-]*%.[%w_]+%s+%S+%s+%S+%s*$") then found = found + 1 end
      end
      -- 100: there are updates. One that finds none of them reads the output wrongly.
      if (exit == 100) ~= (found > 0) then return nil, string.format("the program %s writes no list of dnf check-update", name) end
      return found
    end
    local all, fault = count("dnf-updates")
    if not all then return nil, fault end
    local security, why = count("dnf-security")
    if not security then return nil, why end
    return all, security
  end,
}

function check.run(args, host)
  local words, worse = require "words", require("status").worse
  local all, security = READ[args.manager](host)
  if not all then return "unknown", security end
  local worst = host.metric("updates", all, { unit = "packages", warn = args.warn, crit = args.crit, min = 0 })
  worst = worse(worst, host.metric("security", security, { unit = "packages", warn = args.security_warn, crit = args.security_crit, min = 0 }))
  local summary = string.format("%s, %d of them for security", words.count(all, "update", "updates"), security)
  if args.manager ~= "apt" or args.lists == "" then return worst, summary end
  local lists, _, text = host.file.stat(args.lists)
  if not lists then return worse(worst, "unknown"), string.format("%s; the age of the lists is not known: %s", summary, text) end
  local stale = host.metric("lists_age", lists.age_seconds, { unit = "s", warn = args.lists_warn, crit = args.lists_crit })
  if stale ~= "ok" then summary = string.format("%s, by lists that are %s old: run apt-get update", summary, words.duration(lists.age_seconds)) end
  return worse(worst, stale), summary
end

return check
