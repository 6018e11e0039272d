local check = {
  summary = "Logged-in users",
  needs = { "host" },
  timeout = "10s",
  args = {
    warn = { type = "range", default = "5", help = "logins at the same time" },
    crit = { type = "range", default = "10", help = "logins at the same time" },
  },
}

function check.run(args, host)
  local words = require "words"
  local users, _, text = host.users()
  if not users then return "unknown", text end
  local names, seen = {}, {}
  for _, user in ipairs(users) do
    if not seen[user.name] then names[#names + 1] = user.name end
    seen[user.name] = true
    print(string.format("%s on %s %s", user.name, user.terminal, user.from))
  end
  table.sort(names)
  local status = host.metric("users", #users, { unit = "logins", warn = args.warn, crit = args.crit, min = 0 })
  local who = #names > 0 and ": " .. words.list(names, 5) or ""
  return status, words.count(#users, "login", "logins") .. who
end

return check
