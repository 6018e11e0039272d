"""The capability `disk`: space and inodes of mounted filesystems. It looks at filesystems, never into files."""

import errno
import os
import re
from typing import Any

from attrs import frozen

from equus.capabilities.bounded import within
from equus.capabilities.calls import CallFailed, Context, Perform, bad, positional, text_argument
from equus.capabilities.machine import percent

# A filesystem that takes longer than this is as good as gone.
STATVFS_SECONDS = 5.0
# Container hosts have thousands of mounts; the answer must stay within a run's byte budget.
MOST_MOUNTS = 5000
# Filesystems of the kernel itself: no user's data, and statvfs says nothing of use.
PSEUDO_TYPES = frozenset(
    "autofs binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts devtmpfs efivarfs fusectl hugetlbfs mqueue nsfs"
    " overlay proc pstore ramfs rpc_pipefs securityfs selinuxfs squashfs sysfs tmpfs tracefs".split()
)
_ESCAPE = re.compile(r"\\([0-7]{3})")


@frozen
class Mount:
    """One line of the mount table."""

    path: str
    device: str
    type: str
    options: tuple[str, ...]


def mount_table(context: Context) -> dict[str, Mount]:
    """Mounts by path; of several on one path the last is the one that is seen."""
    found = {}
    for line in context.read("/proc/self/mounts").splitlines()[:MOST_MOUNTS]:
        words = [_ESCAPE.sub(lambda octal: chr(int(octal[1], 8)), word) for word in line.split(" ")]
        if len(words) >= 4:
            found[words[1]] = Mount(words[1], words[0], words[2], tuple(words[3].split(",")))
    return found


def mounts(args: list[Any], policy: Any, context: Context) -> list[dict[str, Any]]:
    """The mount table."""
    positional("host.mounts", args)
    return [
        {
            "path": one.path,
            "device": one.device,
            "type": one.type,
            "options": list(one.options),
            "pseudo": one.type in PSEUDO_TYPES,
        }
        for one in mount_table(context).values()
    ]


def mount_of(path: str, table: dict[str, Mount]) -> Mount | None:
    """The mount that a resolved path lies on: the longest mount path that leads to it."""
    while True:
        if path in table:
            return table[path]
        if path == "/":
            return None
        path = os.path.dirname(path)


def disk(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Space and inodes of the filesystem that holds a path."""
    path = text_argument("host.disk", "path", positional("host.disk", args, "path")[0])
    if not path.startswith("/"):
        raise bad("host.disk: path must begin with /")
    path = os.path.normpath(path)
    if not policy.may_see_disk(path):
        raise CallFailed("denied", policy.refusal("disk", path, f'paths = ["{path}"]'))
    seconds = context.seconds_left(STATVFS_SECONDS)
    figures, resolved = within(seconds, f"the filesystem of {path}", lambda: _statvfs(path, context))
    mount = mount_of(resolved, mount_table(context))
    where = {"mount": mount.path, "device": mount.device, "type": mount.type} if mount else {}
    return {"path": path, **_space(figures), **where, "read_only": bool(figures.f_flag & os.ST_RDONLY)}


def _statvfs(path: str, context: Context) -> tuple[os.statvfs_result, str]:
    real = context.path(path)
    try:
        resolved = os.path.realpath(real, strict=True)
        figures = os.statvfs(resolved)
    except OSError as fault:
        code = "not-found" if fault.errno in (errno.ENOENT, errno.ENOTDIR) else "failed"
        raise CallFailed(code, f"{path}: {fault.strerror}") from None
    root = os.path.realpath(context.root)
    return figures, resolved if root == "/" else "/" + os.path.relpath(resolved, root).removeprefix(".")


def _space(figures: os.statvfs_result) -> dict[str, Any]:
    block = figures.f_frsize
    used = figures.f_blocks - figures.f_bfree
    inodes_used = figures.f_files - figures.f_ffree
    return {
        "total_bytes": figures.f_blocks * block,
        "used_bytes": used * block,
        "free_bytes": figures.f_bfree * block,
        "available_bytes": figures.f_bavail * block,
        # What root keeps for itself counts as gone, as df does it.
        "used_percent": percent(used, used + figures.f_bavail),
        "inodes_total": figures.f_files,
        "inodes_used": inodes_used,
        "inodes_free": figures.f_ffree,
        "inodes_used_percent": percent(inodes_used, figures.f_files),
    }


CALLS: dict[str, Perform] = {"disk": disk, "mounts": mounts}
