-- Two disks and what lies beside them on a host with containers and a file server.
local root = {
  path = "/", total_bytes = 270553174016, used_bytes = 23661412352, free_bytes = 246891761664, available_bytes = 85282881536,
  used_percent = 21.719, inodes_total = 16777216, inodes_used = 415108, inodes_free = 16362108, inodes_used_percent = 2.474,
  read_only = false, mount = "/", device = "/dev/vda", type = "ext4",
}
local srv = {
  path = "/srv", total_bytes = 1099511627776, used_bytes = 1023645325459, free_bytes = 75866302317, available_bytes = 75866302317,
  used_percent = 93.1, inodes_total = 67108864, inodes_used = 1000, inodes_free = 67107864, inodes_used_percent = 0.001,
  read_only = false, mount = "/srv", device = "/dev/vdb", type = "xfs",
}
local mounts = {
  { path = "/proc", device = "proc", type = "proc", options = { "rw" }, pseudo = true },
  { path = "/", device = "/dev/vda", type = "ext4", options = { "rw" }, pseudo = false },
  { path = "/srv", device = "/dev/vdb", type = "xfs", options = { "rw" }, pseudo = false },
  { path = "/var/lib/kubelet/pods/x", device = "/dev/vda", type = "ext4", options = { "rw" }, pseudo = false },
  { path = "/home", device = "files:/home", type = "nfs4", options = { "rw" }, pseudo = false },
  { path = "/snap/core/1", device = "/dev/loop0", type = "squashfs", options = { "ro" }, pseudo = true },
}

return {
  {
    name = "one mount point",
    args = { path = "/" },
    host = { disk = { args = { "/" }, value = root } },
    expect = {
      status = "ok", summary = "/ used 21.7 %, 79.4 GiB free",
      metrics = {
        ["used{path=/}"] = { value = 21.719, unit = "%", warn = "80", crit = "90" },
        ["free{path=/}"] = { value = 85282881536, unit = "B" },
        ["total{path=/}"] = 270553174016,
      },
    },
  },
  {
    name = "all local disks, each device once, and one is full",
    host = { mounts = { value = mounts }, disk = { { args = { "/" }, value = root }, { args = { "/srv" }, value = srv } } },
    expect = {
      status = "critical", summary = "fullest of 2 filesystems: /srv used 93.1 %, 70.7 GiB free (over a limit: /srv)",
      metrics = { ["used{path=/}"] = 21.719, ["used{path=/srv}"] = 93.1 },
    },
  },
  {
    name = "the full one is left out",
    args = { exclude = { "/sr*" } },
    host = { mounts = { value = mounts }, disk = { args = { "/" }, value = root } },
    expect = { status = "ok", summary = "/ used 21.7 %, 79.4 GiB free" },
  },
  {
    name = "little space in bytes is a warning of its own",
    args = { path = "/srv", warn = "95", crit = "98", free_warn = "107374182400:" },
    host = { disk = { value = srv } },
    expect = { status = "warning", metrics = { ["free{path=/srv}"] = { value = 75866302317, warn = "107374182400:" } } },
  },
  {
    name = "a file server that hangs",
    args = { network = true },
    host = {
      mounts = { value = mounts },
      disk = {
        { args = { "/" }, value = root },
        { args = { "/srv" }, value = srv },
        { args = { "/home" }, code = "timeout", text = "the filesystem of /home did not answer within 5 s" },
      },
    },
    expect = { status = "unknown", summary = "the filesystem of /home did not answer within 5 s", metrics = {} },
  },
  {
    name = "no such mount point",
    args = { path = "/nowhere" },
    host = { disk = { code = "not-found", text = "/nowhere: No such file or directory" } },
    expect = { status = "unknown", summary = "/nowhere: No such file or directory", metrics = {} },
  },
  {
    name = "nothing granted",
    host = { mounts = { value = mounts }, disk = { code = "denied", text = "/ is not granted" } },
    expect = { status = "unknown", summary = "/ is not granted", metrics = {} },
  },
  {
    name = "a threshold that is none",
    args = { warn = "much" },
    expect = { status = "unknown", reason = "bad-arguments" },
  },
}
