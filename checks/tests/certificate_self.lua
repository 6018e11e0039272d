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
    name = "no agent",
    host = { certificate = { code = "unsupported", text = "there is no certificate here: not an agent, or one that speaks plaintext" } },
    expect = { status = "unknown", summary = "there is no certificate here: not an agent, or one that speaks plaintext", metrics = {} },
  },
}
