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

local intermediate = { subject = "CN=R11,O=Let's Encrypt,C=US", issuer = "CN=X1", common_name = "R11", names = {}, days_left = 2.0, self_signed = false }
local ended = { subject = "O=Nameless", issuer = "CN=X1", common_name = "", names = {}, days_left = -5.0, self_signed = false }
local root = { subject = "CN=X1", issuer = "CN=X1", common_name = "X1", names = {}, days_left = 5.0, self_signed = true }
local no_names = {
  subject = "CN=www.example", issuer = "CN=R11", common_name = "www.example", names = {}, serial = "1", not_before_at = 1695000000.0,
  not_after_at = 1702592000.0, days_left = 30.0, key = "RSA 2048", signature = "sha256", fingerprint = "ab12", self_signed = false,
}

return {
  {
    name = "an intermediate that ends first",
    args = { host = "www.example" },
    host = { tls = { value = { address = "192.0.2.1", version = "TLSv1.3", cipher = "x", connect_seconds = 0.01, handshake_seconds = 0.03,
      verified = true, verify_error = "", certificate = good, chain = { good, intermediate, root } } } },
    expect = {
      status = "critical", summary = "the intermediate certificate R11 of www.example lasts 2.0 days (TLSv1.3, EC secp256r1)",
      metrics = { ["days_left{host=www.example,port=443}"] = 2 },
    },
  },
  {
    name = "a root that ends first",
    args = { host = "www.example" },
    host = { tls = { value = { address = "192.0.2.1", version = "TLSv1.3", cipher = "x", connect_seconds = 0.01, handshake_seconds = 0.03,
      verified = true, verify_error = "", certificate = good, chain = { good, root } } } },
    expect = { status = "warning", summary = "the root certificate X1 of www.example lasts 5.0 days (TLSv1.3, EC secp256r1)" },
  },
  {
    name = "an intermediate that has ended",
    args = { host = "www.example" },
    host = { tls = { value = { address = "192.0.2.1", version = "TLSv1.3", cipher = "x", connect_seconds = 0.01, handshake_seconds = 0.03,
      verified = false, verify_error = "certificate has expired", certificate = good, chain = { good, ended } } } },
    expect = { status = "critical", summary = "the intermediate certificate O=Nameless of www.example ended 5.0 days ago" },
  },
  {
    name = "no name in its SAN",
    args = { host = "www.example" },
    host = { tls = { value = { address = "192.0.2.1", version = "TLSv1.3", cipher = "x", connect_seconds = 0.01, handshake_seconds = 0.03,
      verified = true, verify_error = "", certificate = no_names, chain = { no_names } } } },
    expect = {
      status = "critical", summary = "the certificate of www.example is not accepted: it names no host in its SAN, and clients ignore the common name",
    },
  },
  {
    name = "names, and an address was asked for",
    args = { host = "192.0.2.1" },
    host = { tls = { value = { address = "192.0.2.1", version = "TLSv1.3", cipher = "x", connect_seconds = 0.01, handshake_seconds = 0.03,
      verified = false, verify_error = "IP address mismatch", certificate = good } } },
    expect = {
      status = "critical", summary = "the certificate of www.example is not accepted: it names no address in its SAN, and clients ignore the common name",
    },
  },
  {
    name = "no name, and no client matters",
    args = { host = "www.example", verify = false },
    host = { tls = { value = { address = "192.0.2.1", version = "TLSv1.3", cipher = "x", connect_seconds = 0.01, handshake_seconds = 0.03,
      verified = false, verify_error = "Hostname mismatch", certificate = no_names } } },
    expect = { status = "ok" },
  },
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
