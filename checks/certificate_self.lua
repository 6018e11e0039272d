local check = {
  summary = "This agent's own certificate: its remaining time, and if it is renewed in time",
  needs = { "host" },
  timeout = "10s",
  args = {
    -- An agent renews after two thirds of the lifetime, a tenth of that earlier or later: at least 27 % are left then.
    warn = { type = "range", default = "20:", help = "remaining lifetime in percent" },
    crit = { type = "range", default = "10:", help = "remaining lifetime in percent" },
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
  -- An issuer that ends first takes the certificate with it. An agent of before sends no chain.
  local first = nil
  for _, issuer in ipairs(certificate.chain or {}) do
    print("issued by " .. issuer.subject .. ", which lasts " .. string.format("%.1f d", issuer.days_left))
    if issuer.days_left < certificate.days_left and (not first or issuer.days_left < first.days_left) then first = issuer end
  end
  local seconds = certificate.days_left * 86400
  if seconds <= 0 then
    return "critical", string.format("the certificate of %s ended %s ago: enrol this agent again", certificate.common_name, words.duration(-seconds))
  end
  if first then
    local state = first.days_left <= 0 and "ended" or "ends in"
    local ends = string.format("%s %s%s", state, words.duration(math.abs(first.days_left) * 86400), first.days_left <= 0 and " ago" or "")
    return first.days_left <= 0 and "critical" or "warning",
      string.format("an issuer of the certificate of %s, %s, %s, before the certificate itself", certificate.common_name, first.subject, ends)
  end
  local summary = string.format("the certificate of %s lasts %s", certificate.common_name, words.duration(seconds))
  if status ~= "ok" then summary = summary .. " and has not been renewed; the agent's log says why" end
  return status, summary
end

return check
