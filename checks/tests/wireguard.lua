return {
  {
    name = "peers that may come and go",
    args = { interfaces = { "wg0" } },
    host = {
      program = { args = { { name = "wg-handshakes" } }, value = { text = "wg0	AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=	1699999940\nwg0	BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB=	1699999000\nwg1	CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCC=	0\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = {
      status = "ok",
      summary = "1 of 3 peers active",
      metrics = {
        active = { value = 1, unit = "peers" },
        peers = 3,
      },
    },
  },
  {
    name = "one that has to be connected",
    args = { peers = { "office=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=" } },
    host = {
      program = { args = { { name = "wg-handshakes" } }, value = { text = "wg0	AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=	1699999940\nwg0	BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB=	1699999000\nwg1	CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCC=	0\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = {
      status = "ok",
      metrics = {
        ["handshake_age{peer=office}"] = { value = 60, unit = "s", warn = "300", crit = "900" },
      },
    },
  },
  {
    name = "its last handshake was long ago",
    args = { peers = { "office=BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB=" } },
    host = {
      program = { args = { { name = "wg-handshakes" } }, value = { text = "wg0	AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=	1699999940\nwg0	BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB=	1699999000\nwg1	CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCC=	0\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "critical", summary = "the last handshake of office was 16 min 40 s ago, 1 of 3 peers active" },
  },
  {
    name = "which is a warning here",
    args = { peers = { "office=BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB=" }, crit = "1800" },
    host = {
      program = { args = { { name = "wg-handshakes" } }, value = { text = "wg0	AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=	1699999940\nwg0	BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB=	1699999000\nwg1	CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCC=	0\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "warning" },
  },
  {
    name = "it has never been connected",
    args = { peers = { "office=CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCC=" } },
    host = {
      program = { args = { { name = "wg-handshakes" } }, value = { text = "wg0	AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=	1699999940\nwg0	BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB=	1699999000\nwg1	CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCC=	0\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "critical", summary = "office has never been connected, 1 of 3 peers active" },
  },
  {
    name = "it is not there",
    args = { peers = { "office=DDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDD=" } },
    host = {
      program = { args = { { name = "wg-handshakes" } }, value = { text = "wg0	AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=	1699999940\nwg0	BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB=	1699999000\nwg1	CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCC=	0\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "critical", summary = "there is no peer office, 1 of 3 peers active" },
  },
  {
    name = "no name",
    args = { peers = { "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=" } },
    host = {
      program = { args = { { name = "wg-handshakes" } }, value = { text = "wg0	AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=	1699999940\nwg0	BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB=	1699999000\nwg1	CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCC=	0\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "unknown" },
  },
  {
    name = "an interface is gone",
    args = { interfaces = { "wg7" } },
    host = {
      program = { args = { { name = "wg-handshakes" } }, value = { text = "wg0	AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=	1699999940\nwg0	BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB=	1699999000\nwg1	CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCC=	0\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "critical", summary = "wg7 is not there, or has no peer, 1 of 3 peers active" },
  },
  {
    name = "too few are active",
    args = { active_crit = "2:" },
    host = {
      program = { args = { { name = "wg-handshakes" } }, value = { text = "wg0	AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=	1699999940\nwg0	BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB=	1699999000\nwg1	CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCC=	0\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "critical" },
  },
  {
    name = "nothing",
    host = {
      program = { args = { { name = "wg-handshakes" } }, value = { text = "", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "this host has no peer of WireGuard" },
  },
  {
    name = "another list",
    host = {
      program = { args = { { name = "wg-handshakes" } }, value = { text = "wg0	key	5\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "the program wg-handshakes writes no list of wg show all latest-handshakes", metrics = {} },
  },
  {
    name = "it may not look",
    host = {
      program = { args = { { name = "wg-handshakes" } }, value = { text = "", errors = "Unable to access interface wg0: Operation not permitted\n", exit_status = 1, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "the program wg-handshakes fails (exit status 1): Unable to access interface wg0: Operation not permitted", metrics = {} },
  },
  {
    name = "its last handshake lies in the future",
    args = { peers = { "depot=DDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDD=" } },
    host = {
      program = { args = { { name = "wg-handshakes" } }, value = { text = "wg0\tDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDD=\t1700007200\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "the last handshake of depot lies 2 h 0 min in the future: compare the clocks, 0 of 1 peer active", metrics = { active = 0, peers = 1 } },
  },
  {
    name = "a handshake in the future of nobody that is named",
    host = {
      program = { args = { { name = "wg-handshakes" } }, value = { text = "wg0\tDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDD=\t1700000301\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "1 handshake lies in the future: compare the clocks, 0 of 1 peer active" },
  },
  {
    name = "a clock that is a little behind",
    args = { peers = { "depot=DDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDD=" } },
    host = {
      program = { args = { { name = "wg-handshakes" } }, value = { text = "wg0\tDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDD=\t1700000300\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "ok", metrics = { ["handshake_age{peer=depot}"] = 0, active = 1 } },
  },
}
