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
    expect = {
      status = "critical",
      summary = "fullest of 2 filesystems: /srv used 93.1 %, 70.7 GiB free (over a limit: /srv); "
        .. "/home is not measured: the filesystem of /home did not answer within 5 s",
      metrics = { ["used{path=/}"] = 21.719, ["used{path=/srv}"] = 93.1 },
    },
  },
  {
    name = "a file server that hangs beside disks that are fine",
    args = { network = true, exclude = { "/srv" } },
    host = {
      mounts = { value = mounts },
      disk = {
        { args = { "/" }, value = root },
        { args = { "/home" }, code = "timeout", text = "the filesystem of /home did not answer an earlier call yet" },
      },
    },
    expect = {
      status = "unknown",
      summary = "/ used 21.7 %, 79.4 GiB free; /home is not measured: the filesystem of /home did not answer an earlier call yet",
      metrics = { ["used{path=/}"] = 21.719 },
    },
  },
  {
    name = "calls that are used up hide no filesystem that was measured",
    host = {
      mounts = { value = mounts },
      disk = { { args = { "/" }, code = "budget", text = "the run has used up its calls" }, { args = { "/srv" }, value = srv },
               { args = { "/var/lib/kubelet/pods/x" }, code = "budget", text = "the run has used up its calls" } },
    },
    expect = {
      status = "critical",
      summary = "/srv used 93.1 %, 70.7 GiB free (over a limit: /srv); "
        .. "2 filesystems are not measured (/, /var/lib/kubelet/pods/x): the run has used up its calls",
    },
  },
  {
    name = "errors of a disk",
    host = {
      mounts = { value = mounts },
      disk = { { args = { "/" }, value = root }, { args = { "/srv" }, code = "failed", text = "/srv: Structure needs cleaning" } },
    },
    expect = {
      status = "unknown",
      summary = "/ used 21.7 %, 79.4 GiB free; /srv is not measured: Structure needs cleaning",
    },
  },
  {
    name = "errors of the only disk",
    args = { exclude = { "/" } },
    host = {
      mounts = { value = mounts },
      disk = { { args = { "/srv" }, code = "failed", text = "/srv: Stale file handle" },
               { args = { "/var/lib/kubelet/pods/x" }, code = "denied", text = "/var/lib/kubelet/pods/x is not granted" } },
    },
    expect = { status = "unknown", summary = "/srv is not measured: Stale file handle", metrics = {} },
  },
  {
    name = "a denied filesystem, and a mount point that another mount hides, are left out",
    host = {
      mounts = { value = {
        { path = "/hidden", device = "/dev/vda", type = "ext4", options = { "rw" }, pseudo = false },
        { path = "/", device = "/dev/vda", type = "ext4", options = { "rw" }, pseudo = false },
        { path = "/srv", device = "/dev/vdb", type = "xfs", options = { "rw" }, pseudo = false } } },
      disk = {
        { args = { "/hidden" }, code = "not-found", text = "/hidden: No such file or directory" },
        { args = { "/" }, value = root },
        { args = { "/srv" }, code = "denied", text = "/srv is not granted" },
      },
    },
    expect = { status = "ok", summary = "/ used 21.7 %, 79.4 GiB free" },
  },
  {
    name = "the kernel shut a filesystem after an error",
    host = {
      mounts = { value = {
        { path = "/", device = "/dev/vda", type = "ext4", options = { "rw", "relatime", "emergency_ro" }, pseudo = false } } },
      disk = { value = root },
    },
    expect = { status = "critical", summary = "/ used 21.7 %, 79.4 GiB free (read-only: /)" },
  },
  {
    name = "a filesystem was mounted anew for reading only",
    host = {
      mounts = { value = {
        { path = "/", device = "/dev/vda", type = "ext4", options = { "rw" }, pseudo = false },
        { path = "/srv", device = "/dev/vdb", type = "xfs", options = { "noatime", "ro" }, pseudo = false } } },
      disk = {
        { args = { "/" }, value = root },
        { args = { "/srv" }, value = { path = "/srv", total_bytes = 100, available_bytes = 99, used_percent = 1.0, read_only = true } },
      },
    },
    expect = {
      status = "critical", summary = "fullest of 2 filesystems: / used 21.7 %, 79.4 GiB free (read-only: /srv)",
      metrics = { ["used{path=/}"] = 21.719 },
    },
  },
  {
    name = "one mount point that is read-only",
    args = { path = "/srv", crit = "95", warn = "95" },
    host = { disk = { value = { path = "/srv", total_bytes = 100, available_bytes = 99, used_percent = 1.0, read_only = true, type = "btrfs" } } },
    expect = { status = "critical", summary = "/srv used 1.0 %, 99 B free (read-only: /srv)" },
  },
  {
    name = "read-only on purpose, read-only for the agent alone, and types that nothing writes to",
    args = { read_only = { "/us?" } },
    host = {
      mounts = { value = {
        { path = "/", device = "/dev/vda", type = "ext4", options = { "ro" }, pseudo = false },
        { path = "/usr", device = "/dev/vdb", type = "ext4", options = { "ro" }, pseudo = false },
        { path = "/image", device = "/dev/loop0", type = "erofs", options = { "ro" }, pseudo = false },
        { path = "/tank/.zfs/snapshot/monday", device = "tank@monday", type = "zfs", options = { "ro" }, pseudo = false } } },
      disk = {
        { args = { "/" }, value = { path = "/", total_bytes = 100, available_bytes = 90, used_percent = 10.0,
          read_only = true, filesystem_read_only = false } },
        { args = { "/usr" }, value = { path = "/usr", total_bytes = 100, available_bytes = 91, used_percent = 9.0, read_only = true } },
        { args = { "/image" }, value = { path = "/image", total_bytes = 100, available_bytes = 92, used_percent = 8.0, read_only = true } },
        { args = { "/tank/.zfs/snapshot/monday" },
          value = { path = "/tank/.zfs/snapshot/monday", total_bytes = 100, available_bytes = 93, used_percent = 7.0, read_only = true } },
      },
    },
    expect = { status = "ok", summary = "fullest of 4 filesystems: / used 10.0 %, 90 B free" },
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
