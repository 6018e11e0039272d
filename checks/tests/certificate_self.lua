local NEW = { subject = "CN=web-1", issuer = "CN=Helen CA", common_name = "web-1", key = "EC secp256r1", fingerprint = "00ff", days_left = 4.2, left_percent = 60.0 }

return {
  {
    name = "half way",
    host = { certificate = { value = NEW } },
    expect = {
      status = "ok", summary = "the certificate of web-1 lasts 4 d 4 h", output = "subject CN=web-1\nissuer CN=Helen CA\nkey EC secp256r1, SHA-256 00ff\n",
      metrics = { life_left = { value = 60, unit = "%", warn = "20:", crit = "10:" }, days_left = { value = 4.2, unit = "d" } },
    },
  },
  {
    name = "it should have been renewed by now",
    host = { certificate = { value = { subject = "CN=web-1", issuer = "CN=Helen CA", common_name = "web-1", key = "EC secp256r1", fingerprint = "00ff",
      days_left = 1.05, left_percent = 15.0 } } },
    expect = { status = "warning", summary = "the certificate of web-1 lasts 1 d 1 h and has not been renewed; the agent's log says why" },
  },
  {
    name = "it ends today",
    host = { certificate = { value = { subject = "CN=web-1", issuer = "CN=Helen CA", common_name = "web-1", key = "EC secp256r1", fingerprint = "00ff",
      days_left = 0.25, left_percent = 3.6 } } },
    expect = { status = "critical" },
  },
  {
    name = "it has ended",
    host = { certificate = { value = { subject = "CN=web-1", issuer = "CN=Helen CA", common_name = "web-1", key = "EC secp256r1", fingerprint = "00ff",
      days_left = -2.0, left_percent = -28.6 } } },
    expect = { status = "critical", summary = "the certificate of web-1 ended 2 d 0 h ago: enrol this agent again" },
  },
  {
    name = "its issuer lasts longer",
    host = { certificate = { value = { subject = "CN=web-1", issuer = "CN=Helen CA", common_name = "web-1", key = "EC secp256r1", fingerprint = "00ff",
      days_left = 4.2, left_percent = 60.0, chain = { { subject = "CN=Helen CA", days_left = 3000.0 } } } } },
    expect = { status = "ok", summary = "the certificate of web-1 lasts 4 d 4 h",
      output = "subject CN=web-1\nissuer CN=Helen CA\nkey EC secp256r1, SHA-256 00ff\nissued by CN=Helen CA, which lasts 3000.0 d\n" },
  },
  {
    name = "its issuer ends before it",
    host = { certificate = { value = { subject = "CN=web-1", issuer = "CN=Helen CA", common_name = "web-1", key = "EC secp256r1", fingerprint = "00ff",
      days_left = 4.2, left_percent = 60.0, chain = { { subject = "CN=Sub CA", days_left = 2.0 }, { subject = "CN=Helen CA", days_left = 3.0 } } } } },
    expect = { status = "warning", summary = "an issuer of the certificate of web-1, CN=Sub CA, ends in 2 d 0 h, before the certificate itself" },
  },
  {
    name = "its issuer has ended",
    host = { certificate = { value = { subject = "CN=web-1", issuer = "CN=Helen CA", common_name = "web-1", key = "EC secp256r1", fingerprint = "00ff",
      days_left = 4.2, left_percent = 60.0, chain = { { subject = "CN=Helen CA", days_left = -1.0 } } } } },
    expect = { status = "critical", summary = "an issuer of the certificate of web-1, CN=Helen CA, ended 1 d 0 h ago, before the certificate itself" },
  },
  {
    name = "no agent",
    host = { certificate = { code = "unsupported", text = "there is no certificate here: not an agent, or one that speaks plaintext" } },
    expect = { status = "unknown", summary = "there is no certificate here: not an agent, or one that speaks plaintext", metrics = {} },
  },
}
