local check = {
  summary = "This agent's own certificate: how long it lasts, and whether it is renewed in time",
  needs = { "host" },
  timeout = "10s",
  args = {
    -- An agent renews when two thirds are over, a tenth of that earlier or later: then at least 27 % are left.
    warn = { type = "range", default = "20:", help = "percent of its life that are left" },
    crit = { type = "range", default = "10:", help = "percent of its life that are left" },
  },
}

function check.run(args, host)
  local words = require "words"
  local certificate, _, text = host.certificate()
  if not certificate then return "unknown", text end
  local status = host.metric("life_left", certificate.left_percent, { unit = "%", warn = args.warn, crit = args.crit, max = 100 })
  host.metric("days_left", certificate.days_left, { unit = "d" })
  print("subject " .. certificate.subject)
  print("issuer " .. certificate.issuer)
  print("key " .. certificate.key .. ", SHA-256 " .. certificate.fingerprint)
  local seconds = certificate.days_left * 86400
  if seconds <= 0 then
    return "critical", string.format("the certificate of %s ended %s ago: enrol this agent again", certificate.common_name, words.duration(-seconds))
  end
  local told = string.format("the certificate of %s lasts %s", certificate.common_name, words.duration(seconds))
  if status ~= "ok" then told = told .. " and has not been renewed; the agent's log says why" end
  return status, told
end

return check
