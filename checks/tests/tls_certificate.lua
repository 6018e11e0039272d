local good = {
  subject = "CN=www.example", issuer = "CN=R11,O=Let's Encrypt,C=US", common_name = "www.example", names = { "www.example", "example" },
  serial = "3f2a", not_before_at = 1695000000.0, not_after_at = 1702592000.0, days_left = 30.0, key = "EC secp256r1", signature = "sha256",
  fingerprint = "ab12", self_signed = false,
}
local short = {
  subject = "CN=www.example", issuer = "CN=R11", common_name = "", names = { "www.example" }, serial = "1", not_before_at = 1695000000.0,
  not_after_at = 1700864000.0, days_left = 10.0, key = "RSA 2048", signature = "sha256", fingerprint = "ab12", self_signed = false,
}
local gone = {
  subject = "CN=www.example", issuer = "CN=R11", common_name = "www.example", names = {}, serial = "1", not_before_at = 1695000000.0,
  not_after_at = 1699827200.0, days_left = -2.0, key = "RSA 2048", signature = "sha256", fingerprint = "ab12", self_signed = false,
}

return {
  {
    name = "lasts for a month",
    args = { host = "www.example" },
    host = { tls = { args = { { host = "www.example", port = 443 } }, value = {
      address = "192.0.2.1", version = "TLSv1.3", cipher = "TLS_AES_256_GCM_SHA384", connect_seconds = 0.01, handshake_seconds = 0.03,
      verified = true, verify_error = "", certificate = good } } },
    expect = {
      status = "ok", summary = "the certificate of www.example lasts 30.0 days (TLSv1.3, EC secp256r1)",
      metrics = {
        ["days_left{host=www.example,port=443}"] = { value = 30, unit = "d", warn = "14:", crit = "3:" },
        ["handshake_time{host=www.example,port=443}"] = { value = 0.03, unit = "s" },
      },
    },
  },
  {
    name = "ends soon",
    args = { host = "www.example" },
    host = { tls = { value = { address = "192.0.2.1", version = "TLSv1.2", cipher = "x", connect_seconds = 0.01, handshake_seconds = 0.03,
      verified = true, verify_error = "", certificate = short } } },
    expect = { status = "warning", summary = "the certificate of www.example lasts 10.0 days (TLSv1.2, RSA 2048)" },
  },
  {
    name = "has ended",
    args = { host = "www.example", starttls = "smtp", port = 25 },
    host = { tls = { args = { { starttls = "smtp", port = 25 } }, value = { address = "192.0.2.1", version = "TLSv1.2", cipher = "x",
      connect_seconds = 0.01, handshake_seconds = 0.03, verified = false, verify_error = "certificate has expired", certificate = gone } } },
    expect = { status = "critical", summary = "the certificate of www.example ended 2.0 days ago" },
  },
  {
    name = "nobody trusts it",
    args = { host = "www.example" },
    host = { tls = { value = { address = "192.0.2.1", version = "TLSv1.3", cipher = "x", connect_seconds = 0.01, handshake_seconds = 0.03,
      verified = false, verify_error = "self-signed certificate", certificate = good } } },
    expect = { status = "critical", summary = "the certificate of www.example is not accepted: self-signed certificate" },
  },
  {
    name = "nobody needs to trust it",
    args = { host = "www.example", verify = false },
    host = { tls = { value = { address = "192.0.2.1", version = "TLSv1.3", cipher = "x", connect_seconds = 0.01, handshake_seconds = 0.03,
      verified = false, verify_error = "self-signed certificate", certificate = good } } },
    expect = { status = "ok" },
  },
  {
    name = "no TLS there",
    args = { host = "www.example", port = 80 },
    host = { tls = { code = "tls", text = "192.0.2.1:80: wrong version number" } },
    expect = { status = "critical", summary = "192.0.2.1:80: wrong version number", metrics = {} },
  },
  {
    name = "the policy forbids it",
    args = { host = "www.example" },
    host = { tls = { code = "denied", text = "192.0.2.1 port 443 is not granted to tls" } },
    expect = { status = "unknown", summary = "192.0.2.1 port 443 is not granted to tls", metrics = {} },
  },
}
