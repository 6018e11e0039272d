local check = {
  summary = "A server's TLS certificate: how long it lasts, whose it is, whether clients accept it",
  needs = { "tls" },
  timeout = "30s",
  args = {
    host = { type = "string", required = true, help = "name or address to connect to" },
    port = { type = "integer", default = 443, min = 1, max = 65535, help = "the port" },
    server_name = { type = "string", help = "the name to ask for, when it is another than host" },
    starttls = { type = "string", choices = { "smtp", "imap", "pop3", "postgresql" }, help = "begin in this protocol" },
    ca = { type = "string", help = "PEM text of the authorities to trust instead of the system's" },
    verify = { type = "boolean", default = true, help = "a certificate that clients refuse is critical" },
    warn = { type = "range", default = "14:", help = "days that it lasts" },
    crit = { type = "range", default = "3:", help = "days that it lasts" },
  },
}

function check.run(args, host)
  local answer, code, text = host.tls {
    host = args.host, port = args.port, server_name = args.server_name, starttls = args.starttls, ca = args.ca, timeout = 10,
  }
  if not answer then
    if code == "denied" or code == "bad-arguments" then return "unknown", text end
    return "critical", text
  end
  local certificate = answer.certificate
  local labels = { host = args.host, port = tostring(args.port) }
  local status = host.metric("days_left", certificate.days_left, { unit = "d", warn = args.warn, crit = args.crit, labels = labels })
  host.metric("handshake_time", answer.handshake_seconds, { unit = "s", min = 0, labels = labels })
  print("subject " .. certificate.subject)
  print("issuer " .. certificate.issuer)
  print("names " .. table.concat(certificate.names, ", "))
  print("key " .. certificate.key .. ", signature " .. certificate.signature .. ", SHA-256 " .. certificate.fingerprint)
  local name = certificate.common_name ~= "" and certificate.common_name or certificate.names[1] or args.host
  if certificate.days_left < 0 then
    return "critical", string.format("the certificate of %s ended %.1f days ago", name, -certificate.days_left)
  end
  if args.verify and not answer.verified then
    return "critical", string.format("the certificate of %s is not accepted: %s", name, answer.verify_error)
  end
  return status, string.format("the certificate of %s lasts %.1f days (%s, %s)", name, certificate.days_left, answer.version, certificate.key)
end

return check
