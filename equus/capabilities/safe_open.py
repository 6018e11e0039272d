"""Open a file beneath a granted root so that no link, device, pipe or race leads elsewhere.

The root itself is opened from `/`, one folder after the other, and each of these is judged through its handle: a user
that could replace it would choose what is read. A path is then opened as a handle (O_PATH: no device reacts, no pipe
blocks) and examined, and only then opened for reading through that handle, so that the examined file is the one that is
read. The handle comes from openat2 if the kernel has it, else from one component after the other with O_NOFOLLOW.
"""

import ctypes
import errno
import os
import stat
import struct

from attrs import frozen

from equus.capabilities.calls import CallFailed
from equus.policy.file_ownership import Trusted

_SYS_OPENAT2 = 437  # the same number on all architectures
_RESOLVE_NO_MAGICLINKS, _RESOLVE_NO_SYMLINKS, _RESOLVE_BENEATH = 0x02, 0x04, 0x08
_OPEN_HOW = struct.Struct("QQQ")
_HANDLE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
# Filesystems without a disk, whose files are the kernel's own: linux/magic.h. Figures of cgroups may be read.
KERNELS = {
    0x9FA0: "proc", 0x62656572: "sysfs", 0x64626720: "debugfs", 0x74726163: "tracefs", 0x73636673: "securityfs",
    0xF97CFF8C: "selinuxfs", 0x43415D53: "smackfs", 0x62656570: "configfs", 0xDE5E81E4: "efivarfs",
    0x6165676C: "pstore", 0xCAFE4A11: "bpf", 0x42494E4D: "binfmt_misc", 0x6E736673: "nsfs", 0xABBA1974: "xenfs",
}  # fmt: skip
_STATFS_BYTES, _STATFS_TYPE = 256, struct.Struct("l")  # struct statfs begins with the type; it has 120 bytes
# Old kernels, and sandboxes that answer EPERM to calls they do not know.
_NO_OPENAT2 = (errno.ENOSYS, errno.EPERM, errno.EINVAL)


@frozen
class Place:
    """Names a path as a granted root and what is below it (relative, without `..`; `.` is the root itself)."""

    root: str
    below: str
    owners: tuple[str, ...] = ()  # users and groups that may change the root, beside root and the agent's user

    @property
    def path(self) -> str:
        return os.path.normpath(os.path.join(self.root, self.below))


def _openat2(folder: int, below: str) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    how = _OPEN_HOW.pack(_HANDLE, 0, _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS)
    path = ctypes.c_char_p(os.fsencode(below))
    handle = libc.syscall(ctypes.c_long(_SYS_OPENAT2), ctypes.c_int(folder), path, how, ctypes.c_size_t(len(how)))
    if handle < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(handle)


def walk(folder: int, below: str) -> int:
    """Open a handle as openat2 would, component by component. Raises OSError (ELOOP) at a link. `below` has no `..`."""
    handle = os.dup(folder)
    parts = below.split("/")
    for number, part in enumerate(parts):
        handle = _into(handle, part)
        # O_DIRECTORY would do, but answers ENOTDIR for a link: the refusal should say what it is.
        if number < len(parts) - 1 and stat.S_ISLNK(os.fstat(handle).st_mode):
            os.close(handle)
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return handle


def _into(folder: int, part: str) -> int:
    """Return a handle of one entry of a folder, without following it, in exchange for that of the folder."""
    try:
        return os.open(part, _HANDLE, dir_fd=folder)
    finally:
        os.close(folder)


def open_root(root: str, owners: tuple[str, ...]) -> int:
    """Return a handle of a granted file or folder. Raises CallFailed("denied") if another user could have put it there.

    No link is followed from `/` on. Each folder on the way, and the root if it is one, is judged as it was opened.
    Raises OSError if it can't be opened.
    """
    trusted = Trusted.beside_root(owners)
    handle, at = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC), "/"
    _judge(handle, at, trusted)
    for part in filter(None, root.split("/")):
        handle, at = _into(handle, part), os.path.join(at, part)
        _judge(handle, at, trusted)
    return handle


def _judge(handle: int, at: str, trusted: Trusted) -> None:
    """Raise CallFailed, and close the handle, if it is of a link or of a folder that another user could change."""
    found = os.fstat(handle)
    fault = None
    if stat.S_ISLNK(found.st_mode):
        fault = (
            f"{at} is a symbolic link, and none is followed on the way to a granted path: grant the place it leads to"
        )
    elif stat.S_ISDIR(found.st_mode):
        fault = trusted.fault(at, found)
        fault = fault and f"{fault} (or name its user or group: owners = [...] in [caps.file])"
    if fault is not None:
        os.close(handle)
        raise CallFailed("denied", fault)


def handle_beneath(place: Place) -> int:
    """Return an O_PATH descriptor of a place. Raises OSError, or CallFailed if its root is not to be trusted."""
    root = open_root(place.root, place.owners)
    if place.below == ".":
        return root
    try:
        try:
            return _openat2(root, place.below)
        except OSError as fault:
            if fault.errno not in _NO_OPENAT2:
                raise
            return walk(root, place.below)
    finally:
        os.close(root)


def status_beneath(place: Place) -> os.stat_result:
    """Return lstat of a path below folders that are no links. If the path itself is a link, the link is described."""
    if place.below != ".":
        folder, _, name = place.below.rpartition("/")
        parent = Place(place.root, folder or ".", place.owners)
    else:
        folder, name = os.path.split(place.root)
        parent = Place(folder, ".", place.owners)
    handle = handle_beneath(parent)
    try:
        return os.stat(name or ".", dir_fd=handle, follow_symlinks=False)
    finally:
        os.close(handle)


def regular_file(place: Place) -> int:
    """Open a regular file for reading. Raises CallFailed("denied") if it is none, OSError if it can't be opened."""
    handle = handle_beneath(place)
    try:
        status = os.fstat(handle)
        if stat.S_ISLNK(status.st_mode):  # O_PATH with O_NOFOLLOW opens the link itself
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if not stat.S_ISREG(status.st_mode):
            raise CallFailed("denied", f"{place.path} is no regular file, and others are never read")
        # Process memory and kernel settings look like regular files there, and a host may mount more than one of each.
        if (kind := KERNELS.get(filesystem_type(handle))) is not None:
            raise CallFailed("denied", f"{place.path} is a file of the kernel ({kind}), which are never read as files")
        return os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(handle)


def folder(place: Place) -> int:
    """Open a directory for listing."""
    handle = handle_beneath(place)
    try:
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=handle)
    finally:
        os.close(handle)


def filesystem_type(handle: int) -> int:
    """Return the number of the filesystem that an open file is on, as statfs(2) has it. Raises OSError."""
    answer = ctypes.create_string_buffer(_STATFS_BYTES)
    if ctypes.CDLL(None, use_errno=True).fstatfs(ctypes.c_int(handle), answer) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(_STATFS_TYPE.unpack_from(answer.raw)[0]) & 0xFFFFFFFF
