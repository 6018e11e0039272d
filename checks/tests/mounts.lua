return {
  {
    name = "those that are there",
    host = {
      mounts = { value = { { path = "/", device = "/dev/sda1", type = "ext4", options = { "rw" }, pseudo = false }, { path = "/srv/data", device = "nas:/srv/data", type = "nfs4", options = { "rw" }, pseudo = false }, { path = "/srv/old", device = "//nas/old", type = "cifs", options = { "rw" }, pseudo = false } } },
      disk = {
        { args = { "/srv/data" }, value = { path = "/srv/data", total_bytes = 107374182400, used_bytes = 42949672960, available_bytes = 64424509440, used_percent = 40, read_only = false, filesystem_read_only = false, mount = "/srv/data" } },
        { args = { "/srv/old" }, value = { path = "/srv/old", total_bytes = 107374182400, used_bytes = 96636764160, available_bytes = 10737418240, used_percent = 90, read_only = false, filesystem_read_only = false, mount = "/srv/old" } },
      },
    },
    expect = {
      status = "ok",
      summary = "2 mounts in order",
      metrics = {
        mounts = { value = 2, unit = "mounts" },
        ["used{path=/srv/data}"] = { value = 40, unit = "%" },
        ["free{path=/srv/old}"] = { value = 10737418240, unit = "B" },
        ["time{path=/srv/data}"] = { value = 0, unit = "s" },
      },
    },
  },
  {
    name = "those that have to be there",
    args = { paths = { "/srv/data/" }, source = "nas:*", writable = { "*" } },
    host = {
      mounts = { value = { { path = "/", device = "/dev/sda1", type = "ext4", options = { "rw" }, pseudo = false }, { path = "/srv/data", device = "nas:/srv/data", type = "nfs4", options = { "rw" }, pseudo = false }, { path = "/srv/old", device = "//nas/old", type = "cifs", options = { "rw" }, pseudo = false } } },
      disk = { args = { "/srv/data" }, value = { path = "/srv/data", total_bytes = 107374182400, used_bytes = 42949672960, available_bytes = 64424509440, used_percent = 40, read_only = false, filesystem_read_only = false, mount = "/srv/data" } },
    },
    expect = { status = "ok", summary = "1 mount in order" },
  },
  {
    name = "one is not mounted",
    args = { paths = { "/srv/data", "/srv/backup" } },
    host = {
      mounts = { value = { { path = "/", device = "/dev/sda1", type = "ext4", options = { "rw" }, pseudo = false }, { path = "/srv/data", device = "nas:/srv/data", type = "nfs4", options = { "rw" }, pseudo = false }, { path = "/srv/old", device = "//nas/old", type = "cifs", options = { "rw" }, pseudo = false } } },
      disk = { args = { "/srv/data" }, value = { path = "/srv/data", total_bytes = 107374182400, used_bytes = 42949672960, available_bytes = 64424509440, used_percent = 40, read_only = false, filesystem_read_only = false, mount = "/srv/data" } },
    },
    expect = { status = "critical", summary = "/srv/backup is not mounted" },
  },
  {
    name = "one hangs",
    host = {
      mounts = { value = { { path = "/", device = "/dev/sda1", type = "ext4", options = { "rw" }, pseudo = false }, { path = "/srv/data", device = "nas:/srv/data", type = "nfs4", options = { "rw" }, pseudo = false }, { path = "/srv/old", device = "//nas/old", type = "cifs", options = { "rw" }, pseudo = false } } },
      disk = {
        { args = { "/srv/data" }, code = "timeout", text = "/srv/data: no answer within 5 s" },
        { args = { "/srv/old" }, value = { path = "/srv/old", total_bytes = 107374182400, used_bytes = 42949672960, available_bytes = 64424509440, used_percent = 40, read_only = false, filesystem_read_only = false, mount = "/srv/old" } },
      },
    },
    expect = { status = "critical", summary = "/srv/data: no answer within 5 s" },
  },
  {
    name = "another filesystem lies there",
    args = { paths = { "/" } },
    host = {
      mounts = { value = { { path = "/", device = "/dev/sda1", type = "ext4", options = { "rw" }, pseudo = false }, { path = "/srv/data", device = "nas:/srv/data", type = "nfs4", options = { "rw" }, pseudo = false }, { path = "/srv/old", device = "//nas/old", type = "cifs", options = { "rw" }, pseudo = false } } },
    },
    expect = { status = "critical", summary = "/ is ext4, not nfs or nfs4 or cifs or smb3 or ceph or glusterfs or fuse.* or 9p or afs" },
  },
  {
    name = "from another server",
    args = { paths = { "/srv/data" }, source = "nas2:*" },
    host = {
      mounts = { value = { { path = "/", device = "/dev/sda1", type = "ext4", options = { "rw" }, pseudo = false }, { path = "/srv/data", device = "nas:/srv/data", type = "nfs4", options = { "rw" }, pseudo = false }, { path = "/srv/old", device = "//nas/old", type = "cifs", options = { "rw" }, pseudo = false } } },
    },
    expect = { status = "critical", summary = "/srv/data is nas:/srv/data, not nas2:*" },
  },
  {
    name = "read-only",
    args = { paths = { "/srv/data" }, writable = { "/srv/*" } },
    host = {
      mounts = { value = { { path = "/", device = "/dev/sda1", type = "ext4", options = { "rw" }, pseudo = false }, { path = "/srv/data", device = "nas:/srv/data", type = "nfs4", options = { "rw" }, pseudo = false }, { path = "/srv/old", device = "//nas/old", type = "cifs", options = { "rw" }, pseudo = false } } },
      disk = { args = { "/srv/data" }, value = { path = "/srv/data", total_bytes = 107374182400, used_bytes = 42949672960, available_bytes = 64424509440, used_percent = 40, read_only = true, filesystem_read_only = true, mount = "/srv/data" } },
    },
    expect = { status = "critical", summary = "/srv/data is read-only" },
  },
  {
    name = "read-only, as it may be",
    args = { paths = { "/srv/data" } },
    host = {
      mounts = { value = { { path = "/", device = "/dev/sda1", type = "ext4", options = { "rw" }, pseudo = false }, { path = "/srv/data", device = "nas:/srv/data", type = "nfs4", options = { "rw" }, pseudo = false }, { path = "/srv/old", device = "//nas/old", type = "cifs", options = { "rw" }, pseudo = false } } },
      disk = { args = { "/srv/data" }, value = { path = "/srv/data", total_bytes = 107374182400, used_bytes = 42949672960, available_bytes = 64424509440, used_percent = 40, read_only = true, filesystem_read_only = true, mount = "/srv/data" } },
    },
    expect = { status = "ok" },
  },
  {
    name = "nearly full",
    args = { warn = "80" },
    host = {
      mounts = { value = { { path = "/", device = "/dev/sda1", type = "ext4", options = { "rw" }, pseudo = false }, { path = "/srv/data", device = "nas:/srv/data", type = "nfs4", options = { "rw" }, pseudo = false }, { path = "/srv/old", device = "//nas/old", type = "cifs", options = { "rw" }, pseudo = false } } },
      disk = {
        { args = { "/srv/data" }, value = { path = "/srv/data", total_bytes = 107374182400, used_bytes = 42949672960, available_bytes = 64424509440, used_percent = 40, read_only = false, filesystem_read_only = false, mount = "/srv/data" } },
        { args = { "/srv/old" }, value = { path = "/srv/old", total_bytes = 107374182400, used_bytes = 96636764160, available_bytes = 10737418240, used_percent = 90, read_only = false, filesystem_read_only = false, mount = "/srv/old" } },
      },
    },
    expect = { status = "warning", summary = "/srv/old is 90 % full" },
  },
  {
    name = "one that the agent may not look at",
    host = {
      mounts = { value = { { path = "/", device = "/dev/sda1", type = "ext4", options = { "rw" }, pseudo = false }, { path = "/srv/data", device = "nas:/srv/data", type = "nfs4", options = { "rw" }, pseudo = false }, { path = "/srv/old", device = "//nas/old", type = "cifs", options = { "rw" }, pseudo = false } } },
      disk = {
        { args = { "/srv/data" }, value = { path = "/srv/data", total_bytes = 107374182400, used_bytes = 42949672960, available_bytes = 64424509440, used_percent = 40, read_only = false, filesystem_read_only = false, mount = "/srv/data" } },
        { args = { "/srv/old" }, code = "denied", text = "/srv/old is not granted to disk" },
      },
    },
    expect = { status = "unknown", summary = "/srv/old is not granted to disk" },
  },
  {
    name = "none of these types",
    host = {
      mounts = { value = { { path = "/", device = "nas:/srv/data", type = "ext4", options = { "rw" }, pseudo = false } } },
    },
    expect = { status = "unknown", summary = "no filesystem of these types is mounted: name those that have to be there (paths)" },
  },
  {
    name = "the host does not tell its mounts",
    host = {
      mounts = { code = "denied", text = "disk is not granted" },
    },
    expect = { status = "unknown", summary = "disk is not granted", metrics = {} },
  },
}
