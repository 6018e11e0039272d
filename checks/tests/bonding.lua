return {
  {
    name = "both links work",
    host = {
      ["kernel.bonds"] = { value = { { name = "bond0", mode = "802.3ad", status = "up", working = 2, members = { { name = "eth0", status = "up", failures = 0 }, { name = "eth1", status = "up", failures = 0 } } } } },
    },
    expect = {
      status = "ok",
      summary = "bond0 (802.3ad, 2 links)",
      metrics = {
        ["working{bond=bond0}"] = { value = 2, unit = "links", max = 2 },
        ["failures{bond=bond0}"] = { value = 0, unit = "failures" },
      },
    },
  },
  {
    name = "one link is lost",
    host = {
      ["kernel.bonds"] = { value = { { name = "bond0", mode = "802.3ad", status = "up", working = 1, members = { { name = "eth0", status = "up", failures = 0 }, { name = "eth1", status = "down", failures = 3 } } } } },
    },
    expect = { status = "warning", summary = "bond0 has lost eth1 (1 of 2 links work)" },
  },
  {
    name = "which is critical here",
    args = { members_crit = "2:" },
    host = {
      ["kernel.bonds"] = { value = { { name = "bond0", mode = "802.3ad", status = "up", working = 1, members = { { name = "eth0", status = "up", failures = 0 }, { name = "eth1", status = "down", failures = 3 } } } } },
    },
    expect = { status = "critical" },
  },
  {
    name = "all links are lost",
    host = {
      ["kernel.bonds"] = { value = { { name = "bond0", mode = "802.3ad", status = "down", working = 0, members = { { name = "eth0", status = "down", failures = 1 }, { name = "eth1", status = "down", failures = 3 } } } } },
    },
    expect = { status = "critical", summary = "bond0 is down" },
  },
  {
    name = "a link that comes and goes",
    host = {
      ["kernel.bonds"] = { value = { { name = "bond0", mode = "802.3ad", status = "up", working = 2, members = { { name = "eth0", status = "up", failures = 2 }, { name = "eth1", status = "up", failures = 7 } } } } },
      state = { ["recent failures of bond0"] = { older = 4, newer = 6, at = 1699999900 } },
    },
    expect = { status = "warning", summary = "links of bond0 went down 5 times lately" },
  },
  {
    name = "but one link",
    host = {
      ["kernel.bonds"] = { value = { { name = "bond0", mode = "802.3ad", status = "up", working = 1, members = { { name = "eth0", status = "up", failures = 0 } } } } },
    },
    expect = { status = "warning", summary = "bond0 has but one link" },
  },
  {
    name = "a bond is not there",
    args = { bonds = { "bond0", "bond1" } },
    host = {
      ["kernel.bonds"] = { value = { { name = "bond0", mode = "802.3ad", status = "up", working = 2, members = { { name = "eth0", status = "up", failures = 0 }, { name = "eth1", status = "up", failures = 0 } } } } },
    },
    expect = { status = "critical", summary = "there is no bond bond1" },
  },
  {
    name = "none is there, and one is needed",
    args = { bonds = { "bond0" } },
    host = {
      ["kernel.bonds"] = { code = "unsupported", text = "this host has no bonded interfaces" },
    },
    expect = { status = "critical", summary = "there is no bond bond0", metrics = {} },
  },
  {
    name = "none is there",
    host = {
      ["kernel.bonds"] = { code = "unsupported", text = "this host has no bonded interfaces" },
    },
    expect = { status = "unknown", summary = "this host has no bonded interfaces", metrics = {} },
  },
  {
    name = "the driver is loaded, and has no bond",
    host = {
      ["kernel.bonds"] = { value = {} },
    },
    expect = { status = "unknown", summary = "this host has no bonded interface", metrics = {} },
  },
}
