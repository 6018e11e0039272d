"""Perform the capability `disk`: space and inodes of mounted filesystems. Reads no file on them."""

import errno
import os
import re
from typing import Any

from attrs import frozen

from equus.capabilities.calls import CallFailed, Context, Perform, bad, positional, text_argument
from equus.capabilities.machine import percent
from equus.capabilities.time_limit import Pool, within

# Seconds after which a filesystem counts as unavailable.
STATVFS_SECONDS = 5.0
# One entry may look at all filesystems of a host: with a few dead ones the others are still measured.
FILESYSTEMS = Pool("calls on filesystems", most_of_entry=8)
# Container hosts have thousands of mounts; the answer must stay within a run's byte budget.
MOST_MOUNTS = 5000
# Filesystems of the kernel itself: they hold no user's data, and statvfs returns nothing useful.
PSEUDO_TYPES = frozenset(
    "autofs binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts devtmpfs efivarfs fusectl hugetlbfs mqueue nsfs"
    " overlay proc pstore ramfs rpc_pipefs securityfs selinuxfs squashfs sysfs tmpfs tracefs".split()
)
_ESCAPE = re.compile(r"\\([0-7]{3})")
# The option of a filesystem that the kernel has shut after an error; statvfs does not show it.
_EMERGENCY = "emergency_ro"


# A folder that is closed to the agent's user hides the filesystem below it; that is no fault of the filesystem.
_CODES = {errno.ENOENT: "not-found", errno.ENOTDIR: "not-found", errno.EACCES: "denied", errno.EPERM: "denied"}


@frozen
class Mount:
    """Describes one line of the mount table."""

    path: str
    device: str
    type: str
    options: tuple[str, ...]


def _plain(word: str) -> str:
    return _ESCAPE.sub(lambda octal: chr(int(octal[1], 8)), word)


def mount_table(context: Context) -> dict[str, Mount]:
    """Return the mounts by path: {path: Mount}. The last one of several on one path is visible."""
    found = {}
    for line in context.read("/proc/self/mounts").splitlines()[:MOST_MOUNTS]:
        words = [_plain(word) for word in line.split(" ")]
        if len(words) >= 4:
            found[words[1]] = Mount(words[1], words[0], words[2], tuple(words[3].split(",")))
    return found


def mounts(args: list[Any], policy: Any, context: Context) -> list[dict[str, Any]]:
    """Perform host.mounts: return the mount table."""
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
    """Return the mount of a resolved path: the longest mount path that leads to it."""
    while True:
        if path in table:
            return table[path]
        if path == "/":
            return None
        path = os.path.dirname(path)


def disk(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.disk: return space and inodes of a path's filesystem. Raises CallFailed if the policy denies it."""
    path = text_argument("host.disk", "path", positional("host.disk", args, "path")[0])
    if not path.startswith("/"):
        raise bad("host.disk: path must begin with /")
    path = os.path.normpath(path)
    if not policy.may_see_disk(path):
        raise CallFailed("denied", policy.refusal("disk", path, f'paths = ["{path}"]'))
    seconds = context.seconds_left(STATVFS_SECONDS)
    what = f"the filesystem of {path}"
    figures, resolved = within(FILESYSTEMS, seconds, what, context.entry, lambda: _statvfs(path, context))
    mount = mount_of(resolved, mount_table(context))
    where = {"mount": mount.path, "device": mount.device, "type": mount.type} if mount else {}
    return {"path": path, **_space(figures), **where, **_writable(bool(figures.f_flag & os.ST_RDONLY), mount, context)}


def _writable(read_only: bool, mount: Mount | None, context: Context) -> dict[str, bool]:
    """Return {"read_only"} for this mount, and {"filesystem_read_only"} where the kernel tells it.

    A mount can be read-only while the filesystem is not, as all are for a service with ProtectSystem=strict.
    """
    if mount is None:
        return {"read_only": read_only}
    if _EMERGENCY in mount.options:
        return {"read_only": True, "filesystem_read_only": True}
    options = _filesystem_options(mount.path, context)
    if options is None:
        return {"read_only": read_only}
    return {"read_only": read_only, "filesystem_read_only": "ro" in options or _EMERGENCY in options}


def _filesystem_options(path: str, context: Context) -> list[str] | None:
    """Return the options of the filesystem that is visible at a mount point, without those of the mount alone."""
    try:
        lines = context.read("/proc/self/mountinfo").splitlines()
    except CallFailed:
        return None
    for line in reversed(lines):
        words = line.split(" ")
        if len(words) > 6 and "-" in words[6:] and _plain(words[4]) == path:
            return words[-1].split(",")
    return None


def _statvfs(path: str, context: Context) -> tuple[os.statvfs_result, str]:
    real = context.path(path)
    try:
        resolved = os.path.realpath(real, strict=True)
        figures = os.statvfs(resolved)
    except OSError as fault:
        raise CallFailed(_CODES.get(fault.errno or 0, "failed"), f"{path}: {fault.strerror}") from None
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
        # Space that is reserved for root counts as used, as in df.
        "used_percent": percent(used, used + figures.f_bavail),
        "inodes_total": figures.f_files,
        "inodes_used": inodes_used,
        "inodes_free": figures.f_ffree,
        "inodes_used_percent": percent(inodes_used, figures.f_files),
    }


CALLS: dict[str, Perform] = {"disk": disk, "mounts": mounts}
