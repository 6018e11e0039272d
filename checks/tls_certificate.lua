local check = {
  summary = "A server's TLS certificate: remaining days, its names, and if clients accept it",
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

local function is_address(name) return name:find("^%d+%.%d+%.%d+%.%d+$") ~= nil or name:find(":", 1, true) ~= nil end

-- True if the certificate has an entry of the kind that was asked for: addresses and names never stand for each other.
local function has_kind(names, asked)
  for _, name in ipairs(names) do
    if is_address(name) == is_address(asked) then return true end
  end
  return false
end

local function name_of(certificate, otherwise)
  if certificate.common_name ~= "" then return certificate.common_name end
  return certificate.names[1] or otherwise
end

-- Returns the certificate of the chain that ends first, and what it is called. Clients refuse all of the chain then.
local function first_to_end(answer, asked)
  local chain, name = answer.chain or { answer.certificate }, name_of(answer.certificate, asked)
  local first = 1
  for index, one in ipairs(chain) do
    if one.days_left < chain[first].days_left then first = index end
  end
  if first == 1 then return chain[1], "the certificate of " .. name end
  local kind = chain[first].self_signed and "root" or "intermediate"
  return chain[first], string.format("the %s certificate %s of %s", kind, name_of(chain[first], chain[first].subject), name)
end

-- Returns why clients refuse the certificate, or nil.
local function refusal(answer, asked)
  if not has_kind(answer.certificate.names, asked) then
    return string.format("it names no %s in its SAN, and clients ignore the common name", is_address(asked) and "address" or "host")
  end
  return not answer.verified and answer.verify_error or nil
end

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
  local ending, title = first_to_end(answer, args.host)
  local status = host.metric("days_left", ending.days_left, { unit = "d", warn = args.warn, crit = args.crit, labels = labels })
  host.metric("handshake_time", answer.handshake_seconds, { unit = "s", min = 0, labels = labels })
  print("subject " .. certificate.subject)
  print("issuer " .. certificate.issuer)
  print("names " .. table.concat(certificate.names, ", "))
  print("key " .. certificate.key .. ", signature " .. certificate.signature .. ", SHA-256 " .. certificate.fingerprint)
  for index, one in ipairs(answer.chain or {}) do
    if index > 1 then print(string.format("chain %s, %.1f days", one.subject, one.days_left)) end
  end
  if ending.days_left < 0 then return "critical", string.format("%s ended %.1f days ago", title, -ending.days_left) end
  local why = args.verify and refusal(answer, args.server_name or args.host)
  if why then return "critical", string.format("the certificate of %s is not accepted: %s", name_of(certificate, args.host), why) end
  return status, string.format("%s lasts %.1f days (%s, %s)", title, ending.days_left, answer.version, certificate.key)
end

return check
