"""Open a file beneath a granted root so that no link, device, pipe or race leads elsewhere.

A path is opened as a mere handle first (O_PATH: no device wakes up, no pipe blocks), looked at, and only then opened
for reading through that handle, so what was looked at is what is read. Two ways lead to the handle: openat2 where the
kernel has it, else one component after the other with O_NOFOLLOW.
"""

import ctypes
import errno
import os
import stat
import struct

from equus.capabilities.calls import CallFailed

_SYS_OPENAT2 = 437  # the same number on all architectures
_RESOLVE_NO_MAGICLINKS, _RESOLVE_NO_SYMLINKS, _RESOLVE_BENEATH = 0x02, 0x04, 0x08
_OPEN_HOW = struct.Struct("QQQ")
_HANDLE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
# Old kernels, and sandboxes that answer EPERM to calls they do not know.
_NO_OPENAT2 = (errno.ENOSYS, errno.EPERM, errno.EINVAL)


def _openat2(folder: int, below: str) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    how = _OPEN_HOW.pack(_HANDLE, 0, _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS)
    path = ctypes.c_char_p(os.fsencode(below))
    handle = libc.syscall(ctypes.c_long(_SYS_OPENAT2), ctypes.c_int(folder), path, how, ctypes.c_size_t(len(how)))
    if handle < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(handle)


def walk(folder: int, below: str) -> int:
    """The same by hand: each component without following links. `..` never gets here."""
    handle = os.dup(folder)
    parts = below.split("/")
    for number, part in enumerate(parts):
        try:
            following = os.open(part, _HANDLE, dir_fd=handle)
        finally:
            os.close(handle)
        handle = following
        # O_DIRECTORY would do, but answers ENOTDIR for a link: the refusal should say what it is.
        if number < len(parts) - 1 and stat.S_ISLNK(os.fstat(handle).st_mode):
            os.close(handle)
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return handle


def handle_beneath(root: str, below: str) -> int:
    """An O_PATH descriptor of `below` (relative, without `..`) under the folder `root`; OSError as the kernel says."""
    folder = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            return _openat2(folder, below)
        except OSError as fault:
            if fault.errno not in _NO_OPENAT2:
                raise
            return walk(folder, below)
    finally:
        os.close(folder)


def status_beneath(root: str, below: str) -> os.stat_result:
    """lstat of a path whose folders are no links; the last component may be one, and is then described itself."""
    folder, _, name = below.rpartition("/")
    handle = handle_beneath(root, folder or ".")
    try:
        return os.stat(name, dir_fd=handle, follow_symlinks=False)
    finally:
        os.close(handle)


def regular_file(root: str, below: str) -> int:
    """A descriptor open for reading on a regular file; CallFailed("denied") for anything else."""
    handle = handle_beneath(root, below)
    try:
        status = os.fstat(handle)
        if stat.S_ISLNK(status.st_mode):  # O_PATH with O_NOFOLLOW opens the link itself
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if not stat.S_ISREG(status.st_mode):
            raise CallFailed("denied", f"{below} is no regular file, and others are never read")
        # Memory of processes and switches of the kernel pose as regular files there.
        if status.st_dev in _kernel_devices():
            raise CallFailed("denied", f"{below} lies in /proc or /sys, which are never read as files")
        return os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(handle)


def folder(root: str, below: str) -> int:
    """A descriptor open for listing a directory."""
    handle = handle_beneath(root, below)
    try:
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=handle)
    finally:
        os.close(handle)


def _kernel_devices() -> set[int]:
    found = set()
    for path in ("/proc", "/sys"):
        try:
            found.add(os.stat(path).st_dev)
        except OSError:
            continue
    return found
