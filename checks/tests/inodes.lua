local root = {
  path = "/", total_bytes = 270553174016, used_bytes = 23661412352, free_bytes = 246891761664, available_bytes = 85282881536,
  used_percent = 21.719, inodes_total = 16777216, inodes_used = 415108, inodes_free = 16362108, inodes_used_percent = 2.474,
  read_only = false, mount = "/", device = "/dev/vda", type = "ext4",
}
local mail = {
  path = "/var/mail", total_bytes = 10737418240, used_bytes = 2147483648, free_bytes = 8589934592, available_bytes = 8589934592,
  used_percent = 20.0, inodes_total = 655360, inodes_used = 579338, inodes_free = 76022, inodes_used_percent = 88.4,
  read_only = false, mount = "/var/mail", device = "/dev/vdb", type = "ext4",
}
local endless = {
  path = "/data", total_bytes = 10737418240, used_bytes = 1, free_bytes = 10737418239, available_bytes = 10737418239,
  used_percent = 0.0, inodes_total = 0, inodes_used = 0, inodes_free = 0, inodes_used_percent = 0.0,
  read_only = false, mount = "/data", device = "/dev/vdc", type = "btrfs",
}
local mounts = {
  { path = "/", device = "/dev/vda", type = "ext4", options = {}, pseudo = false },
  { path = "/var/mail", device = "/dev/vdb", type = "ext4", options = {}, pseudo = false },
}

return {
  {
    name = "few files",
    args = { path = "/" },
    host = { disk = { value = root } },
    expect = {
      status = "ok", summary = "/ used 2.5 % of its inodes, 16362108 free",
      metrics = { ["inodes_used{path=/}"] = { value = 2.474, unit = "%" }, ["inodes_free{path=/}"] = { value = 16362108, unit = "inodes" } },
    },
  },
  {
    name = "many small files on one of two",
    host = { mounts = { value = mounts }, disk = { { args = { "/" }, value = root }, { args = { "/var/mail" }, value = mail } } },
    expect = {
      status = "warning", summary = "/var/mail used 88.4 % of its inodes, 76022 free (over a limit: /var/mail)",
      metrics = { ["inodes_used{path=/var/mail}"] = 88.4 },
    },
  },
  {
    name = "tighter limit",
    args = { path = "/var/mail", crit = "85" },
    host = { disk = { value = mail } },
    expect = { status = "critical" },
  },
  {
    name = "a filesystem without a limit",
    args = { path = "/data" },
    host = { disk = { value = endless } },
    expect = { status = "ok", summary = "no filesystem here limits its inodes", metrics = {} },
  },
  {
    name = "a mount that hangs hides neither a lack of inodes nor itself",
    host = {
      mounts = { value = mounts },
      disk = { { args = { "/" }, code = "timeout", text = "the filesystem of / did not answer within 5 s" }, { args = { "/var/mail" }, value = mail } },
    },
    expect = {
      status = "warning",
      summary = "/var/mail used 88.4 % of its inodes, 76022 free (over a limit: /var/mail); "
        .. "/ is not measured: the filesystem of / did not answer within 5 s",
    },
  },
  {
    name = "a disk with errors beside one without a limit",
    host = {
      mounts = { value = mounts },
      disk = { { args = { "/" }, value = endless }, { args = { "/var/mail" }, code = "failed", text = "/var/mail: Input/output error" } },
    },
    expect = {
      status = "unknown",
      summary = "no filesystem here limits its inodes; /var/mail is not measured: Input/output error",
    },
  },
  {
    name = "not granted",
    host = { mounts = { code = "denied", text = 'this host does not grant "disk"' } },
    expect = { status = "unknown", summary = 'this host does not grant "disk"', metrics = {} },
  },
}
