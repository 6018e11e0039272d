local two = {
  server = "192.0.2.53", name = "www.example", type = "A", status = "NOERROR", authoritative = false, truncated = false, seconds = 0.012,
  answers = {
    { name = "www.example", type = "CNAME", ttl = 300, value = "edge.example" },
    { name = "edge.example", type = "A", ttl = 60, value = "192.0.2.20" },
    { name = "edge.example", type = "A", ttl = 60, value = "192.0.2.10" },
  },
}
local nobody = {
  server = "192.0.2.53", name = "gone.example", type = "A", status = "NXDOMAIN", authoritative = true, truncated = false, seconds = 0.012, answers = {},
}

return {
  {
    name = "two addresses behind an alias",
    args = { name = "www.example", expect = { "192.0.2.10" } },
    host = { dns = { args = { { name = "www.example", type = "A", port = 53, timeout = 5 } }, value = two } },
    expect = {
      status = "ok", summary = "www.example A is 192.0.2.10, 192.0.2.20 (192.0.2.53, 12 ms)",
      metrics = {
        ["time{name=www.example,type=A}"] = { value = 0.012, unit = "s", warn = "0.5" }, ["records{name=www.example,type=A}"] = { value = 2, unit = "records" },
      },
    },
  },
  {
    name = "one that should be there is not",
    args = { name = "www.example", expect = { "192.0.2.10", "192.0.2.99" } },
    host = { dns = { value = two } },
    expect = { status = "critical", summary = "www.example A is 192.0.2.10, 192.0.2.20, without 192.0.2.99 (192.0.2.53, 12 ms)" },
  },
  {
    name = "one that should not be there is",
    args = { name = "www.example", expect = { "192.0.2.10" }, exact = true },
    host = { dns = { value = two } },
    expect = { status = "critical", summary = "www.example A is 192.0.2.10, 192.0.2.20, which is more than expected (192.0.2.53, 12 ms)" },
  },
  {
    name = "slow",
    args = { name = "www.example", warn = "0.01" },
    host = { dns = { value = two } },
    expect = { status = "warning" },
  },
  {
    name = "no such name",
    args = { name = "gone.example" },
    host = { dns = { value = nobody } },
    expect = { status = "critical", summary = "gone.example A: the server answers NXDOMAIN (192.0.2.53, 12 ms)" },
  },
  {
    name = "no such name, as it should be",
    args = { name = "gone.example", absent = true },
    host = { dns = { value = nobody } },
    expect = { status = "ok", summary = "gone.example A does not exist, as it should (192.0.2.53, 12 ms)" },
  },
  {
    name = "a server that cannot tell if there is none",
    args = { name = "gone.example", absent = true },
    host = { dns = { value = { server = "192.0.2.53", name = "gone.example", type = "A", status = "SERVFAIL", seconds = 0.012, answers = {} } } },
    expect = { status = "unknown", summary = "gone.example A: the server answers SERVFAIL (192.0.2.53, 12 ms)" },
  },
  {
    name = "a server that refuses to tell",
    args = { name = "gone.example", absent = true },
    host = { dns = { value = { server = "192.0.2.53", name = "gone.example", type = "A", status = "REFUSED", seconds = 0.012, answers = {} } } },
    expect = { status = "unknown", summary = "gone.example A: the server answers REFUSED (192.0.2.53, 12 ms)" },
  },
  {
    name = "a name that is there without a record",
    args = { name = "www.example", type = "MX", absent = true },
    host = { dns = { value = two } },
    expect = { status = "critical", summary = "www.example MX has no record, but the name exists (192.0.2.53, 12 ms)" },
  },
  {
    name = "a name that should not be there",
    args = { name = "www.example", absent = true },
    host = { dns = { value = two } },
    expect = { status = "critical", summary = "www.example A exists: 192.0.2.10, 192.0.2.20 (192.0.2.53, 12 ms)" },
  },
  {
    name = "other writings of names",
    args = { name = "example", type = "MX", expect = { "Mail.Example.", "20 backup.example.", "MAIL.example" }, exact = true },
    host = { dns = { value = { server = "192.0.2.53", name = "example", type = "MX", status = "NOERROR", seconds = 0.012, answers = {
      { name = "example", type = "MX", ttl = 60, value = "mail.example", preference = 10 },
      { name = "example", type = "MX", ttl = 60, value = "BACKUP.example", preference = 20 } } } } },
    expect = { status = "ok", summary = "example MX is BACKUP.example, mail.example (192.0.2.53, 12 ms)" },
  },
  {
    name = "another preference",
    args = { name = "example", type = "MX", expect = { "20 mail.example." } },
    host = { dns = { value = { server = "192.0.2.53", name = "example", type = "MX", status = "NOERROR", seconds = 0.012, answers = {
      { name = "example", type = "MX", ttl = 60, value = "mail.example", preference = 10 } } } } },
    expect = { status = "critical" },
  },
  {
    name = "other writings of addresses",
    args = { name = "example", type = "AAAA", expect = { "2001:DB8:0:0::1", "::FFFF:192.0.2.1", "2001:0db8::" }, exact = true },
    host = { dns = { value = { server = "192.0.2.53", name = "example", type = "AAAA", status = "NOERROR", seconds = 0.012, answers = {
      { name = "example", type = "AAAA", ttl = 60, value = "2001:db8::1" }, { name = "example", type = "AAAA", ttl = 60, value = "2001:db8::" },
      { name = "example", type = "AAAA", ttl = 60, value = "::ffff:c000:201" } } } } },
    expect = { status = "ok" },
  },
  {
    name = "another address",
    args = { name = "example", type = "AAAA", expect = { "2001:db8::10" } },
    host = { dns = { value = { server = "192.0.2.53", name = "example", type = "AAAA", status = "NOERROR", seconds = 0.012, answers = {
      { name = "example", type = "AAAA", ttl = 60, value = "2001:db8::1" } } } } },
    expect = { status = "critical" },
  },
  {
    name = "the names of an SOA",
    args = { name = "example", type = "SOA", expect = { "NS.example. Hostmaster.example.  7 1 2 3 4" } },
    host = { dns = { value = { server = "192.0.2.53", name = "example", type = "SOA", status = "NOERROR", seconds = 0.012, answers = {
      { name = "example", type = "SOA", ttl = 60, value = "ns.example hostmaster.example 7 1 2 3 4", serial = 7 } } } } },
    expect = { status = "ok" },
  },
  {
    name = "a point in a text is a part of it",
    args = { name = "example", type = "TXT", expect = { "it ends." } },
    host = { dns = { value = { server = "192.0.2.53", name = "example", type = "TXT", status = "NOERROR", seconds = 0.012, answers = {
      { name = "example", type = "TXT", ttl = 60, value = "it ends" } } } } },
    expect = { status = "critical" },
  },
  {
    name = "the name has no record of that type",
    args = { name = "www.example", type = "MX" },
    host = { dns = { value = two } },
    expect = { status = "critical", summary = "www.example MX has no record (192.0.2.53, 12 ms)" },
  },
  {
    name = "nobody answers",
    args = { name = "www.example" },
    host = { dns = { code = "timeout", text = "192.0.2.53:53 did not answer within 5 s" } },
    expect = { status = "critical", summary = "192.0.2.53:53 did not answer within 5 s", metrics = {} },
  },
  {
    name = "the policy forbids it",
    args = { name = "www.example", server = "192.0.2.53" },
    host = { dns = { code = "denied", text = "192.0.2.53 port 53 is not granted to dns" } },
    expect = { status = "unknown", summary = "192.0.2.53 port 53 is not granted to dns", metrics = {} },
  },
}
