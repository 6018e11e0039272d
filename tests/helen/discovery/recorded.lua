-- Recorded tests of helen/discovery/discover.lua, which test_probe.py runs as `equus test` does.
local nothing = { code = "unsupported", text = "this host has none" }
local denied = { code = "denied", text = 'this host does not grant "systemd"' }
local bare = {
  mounts = { value = {} }, procs = { value = { list = {} } }, clock = nothing, raid = nothing, mail_queue = nothing,
  certificate = nothing, systemd_failed = denied, systemd_running = denied, unix = denied,
  ["kernel.listeners"] = { value = { list = {}, total = 0 } }, ["kernel.zfs"] = nothing, ["kernel.conntrack"] = nothing,
  ["kernel.sensors"] = nothing, ["kernel.bonds"] = nothing, ["kernel.btrfs"] = nothing,
}

return {
  {
    name = "a host that tells nothing",
    host = bare,
    expect = {
      status = "ok",
      summary = '{"discover":1,"facilities":[],"listeners":[],"mounts":[],"notes":["services: this host does not grant \\u0022systemd\\u0022"],"processes":[],"services":[]}',
    },
  },
  {
    name = "a host with servers",
    args = { daemons = { "nginx", "postgres" } },
    host = {
      mounts = { value = { { path = "/", type = "ext4", pseudo = false }, { path = "/proc", type = "proc", pseudo = true } } },
      procs = { value = { list = { { name = "nginx" }, { name = "nginx" }, { name = "postgres" }, { name = "secret" } } } },
      clock = { value = { synchronized = true } }, raid = { value = {} }, mail_queue = nothing, certificate = { value = { subject = "x" } },
      systemd_failed = { value = { units = {}, count = 0 } },
      systemd_running = { value = { units = { "nginx.service" }, count = 1 } },
      unix = { value = { received = 'HTTP/1.0 200 OK\r\n\r\n[{"Id":"1f"}]' } },
      ["kernel.listeners"] = { value = { total = 8, list = {
        { protocol = "tcp", port = 22, address = "0.0.0.0", uid = 0 }, { protocol = "tcp", port = 22, address = "::", uid = 0 },
        { protocol = "tcp", port = 80, address = "::", uid = 0 }, { protocol = "tcp", port = 443, address = "0.0.0.0", uid = 0 },
        { protocol = "tcp", port = 5432, address = "127.0.0.1", uid = 5 }, { protocol = "tcp", port = 6379, address = "127.0.0.5", uid = 5 },
        { protocol = "tcp", port = 9000, address = "10.0.0.5", uid = 5 }, { protocol = "udp", port = 53, address = "0.0.0.0", uid = 0 },
        { protocol = "tcp", port = 40000, address = "0.0.0.0", uid = 0 },
      } } },
      tcp = {
        { args = { { host = "localhost", port = 22 } }, value = { received = "SSH-2.0-OpenSSH_9.2\r\n" } },
        { args = { { host = "127.0.0.5", port = 6379 } }, value = { received = "-NOAUTH Authentication required.\r\n" } },
      },
      http = {
        { args = { { url = "http://localhost:80/" } }, value = { status = 404, body = "" } },
        { args = { { url = "http://localhost/nginx_status" } }, value = { status = 200, body = "Active connections: 1" } },
        { args = { { url = "http://localhost/server-status?auto" } }, value = { status = 404, body = "" } },
      },
      tls = {
        { args = { { server_name = "www.example.org" } }, value = { verified = true, certificate = { names = {} } } },
        { args = { { host = "localhost", port = 443 } }, value = { verified = false, certificate = { names = { "*.example.org", "www.example.org" } } } },
      },
      ["kernel.zfs"] = { value = { pools = { { name = "tank", state = "ONLINE" } }, cache = {} } },
      ["kernel.conntrack"] = { value = { count = 0, most = 1 } }, ["kernel.sensors"] = { value = { { name = "temp1" } } },
      ["kernel.bonds"] = nothing, ["kernel.btrfs"] = { value = {} },
    },
    expect = {
      status = "ok",
      summary = '{"discover":1,"facilities":["certificate","clock","containers","nginx_status","sensors","units","zfs"],"listeners":['
        .. '{"address":"0.0.0.0","fine":false,"names":[],"port":22,"speaks":"ssh"},'
        .. '{"address":"::","fine":false,"names":[],"port":80,"speaks":"http"},'
        .. '{"address":"0.0.0.0","fine":true,"names":["www.example.org"],"port":443,"speaks":"tls"},'
        .. '{"address":"127.0.0.1","fine":false,"names":[],"port":5432,"speaks":""},'
        .. '{"address":"127.0.0.5","fine":false,"names":[],"port":6379,"speaks":""}],'
        .. '"mounts":[{"path":"/","type":"ext4"}],"notes":["1 ports are open on addresses beyond this host alone: no check is proposed for them"],'
        .. '"processes":["nginx","postgres"],"services":["nginx.service"]}',
    },
  },
  {
    name = "names with any character",
    host = {
      mounts = { value = { { path = 'a"b\\c\nd\127é', type = "x", pseudo = false } } }, procs = { value = { list = {} } }, clock = nothing, raid = nothing,
      mail_queue = nothing, certificate = nothing, systemd_failed = denied, systemd_running = nothing, unix = denied,
      ["kernel.listeners"] = nothing, ["kernel.zfs"] = nothing, ["kernel.conntrack"] = nothing, ["kernel.sensors"] = nothing,
      ["kernel.bonds"] = nothing, ["kernel.btrfs"] = nothing,
    },
    expect = {
      status = "ok",
      summary = '{"discover":1,"facilities":[],"listeners":[],"mounts":[{"path":"a\\u0022b\\u005cc\\u000ad\\u007fé","type":"x"}],"notes":["this host has none"],"processes":[],"services":[]}',
    },
  },
}
