local lo = {
  interface = "lo", received_bytes = 3193, sent_bytes = 3193, received_packets = 29, sent_packets = 29, receive_errors = 0, send_errors = 0,
  receive_dropped = 0, send_dropped = 0, window_seconds = 60.0, received_bytes_per_second = 0.0, sent_bytes_per_second = 0.0, up = true,
  carrier = true, mtu = 65536, address = "00:00:00:00:00:00",
}
local eth0 = {
  interface = "eth0", received_bytes = 152534023, sent_bytes = 168185, received_packets = 4251, sent_packets = 1697, receive_errors = 0,
  send_errors = 0, receive_dropped = 600, send_dropped = 0, window_seconds = 60.0, received_bytes_per_second = 120000.4,
  sent_bytes_per_second = 2048.0, up = true, carrier = true, speed_bits_per_second = 1000000, mtu = 1500, address = "02:00:00:00:00:01",
}
local eth1 = {
  interface = "eth1", received_bytes = 0, sent_bytes = 0, received_packets = 0, sent_packets = 0, receive_errors = 0, send_errors = 0,
  receive_dropped = 0, send_dropped = 0, window_seconds = 60.0, received_bytes_per_second = 0.0, sent_bytes_per_second = 0.0, up = true,
  carrier = false, mtu = 1500, address = "02:00:00:00:00:02",
}

return {
  {
    name = "first run: no rate of errors yet, which is kept for the next",
    host = { net_io = { value = { eth0, lo } } },
    expect = {
      status = "ok", summary = "eth0 in 117.2 KiB/s, out 2.0 KiB/s",
      state = { errors = { totals = { eth0 = 600 }, at = 1700000000 } },
      metrics = {
        ["received{interface=eth0}"] = { value = 152534023, unit = "B", kind = "counter" },
        ["sent_rate{interface=eth0}"] = { value = 2048, unit = "B/s" },
        ["use{interface=eth0}"] = { value = 96.00032, unit = "%" },
      },
    },
  },
  {
    name = "ten drops a second",
    host = { net_io = { value = { eth0 } }, state = { errors = { totals = { eth0 = 0 }, at = 1699999940 } } },
    expect = { status = "warning", metrics = { ["errors_rate{interface=eth0}"] = { value = 10, unit = "1/s", warn = "1" } } },
  },
  {
    name = "a counter that went back is no rate",
    host = { net_io = { value = { eth0 } }, state = { errors = { totals = { eth0 = 4294967295 }, at = 1699999940 } } },
    expect = { status = "ok", summary = "eth0 in 117.2 KiB/s, out 2.0 KiB/s" },
  },
  {
    name = "a full link",
    args = { use_crit = "90" },
    host = { net_io = { value = { eth0 } } },
    expect = { status = "critical" },
  },
  {
    name = "the cable is out",
    args = { interface = "eth1" },
    host = { net_io = { value = { eth0, eth1 } } },
    expect = { status = "critical", summary = "eth1 has no carrier", metrics = {} },
  },
  {
    name = "an interface that is gone",
    args = { interface = "wg0" },
    host = { net_io = { value = { eth0 } } },
    expect = { status = "critical", summary = "this host has no interface wg0", metrics = {} },
  },
  {
    name = "loopback alone",
    host = { net_io = { value = { lo } } },
    expect = { status = "ok", summary = "no interface is up but those that are left out", metrics = {} },
  },
  {
    name = "not granted",
    host = { net_io = { code = "denied", text = 'this host does not grant "net_io"' } },
    expect = { status = "unknown", summary = 'this host does not grant "net_io"', metrics = {} },
  },
}
