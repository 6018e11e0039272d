"""Perform the capability `file`: read regular files and folders below the roots that the policy grants. Never writes.

Every access goes through safe_open.py, in a bounded thread: a root may be on a network filesystem that hangs.
"""

import errno
import hashlib
import os
import stat
import time
from collections.abc import Callable
from typing import Any, TypeVar

from equus.capabilities import safe_open
from equus.capabilities.calls import CallFailed, Context, Fields, Perform, bad, positional, text_argument
from equus.capabilities.safe_open import Place
from equus.capabilities.time_limit import Pool, within

Answer = TypeVar("Answer")

# A blob of the protocol is 1 MiB, so that more could not be reported.
READ_LIMIT = 1_048_576
READ_DEFAULT = 65_536
# Lines of one answer of host.file.tail; a log that grows by more of them between two runs is read in several calls.
MOST_LINES = 10_000
# If a log grew by more than this since the last call, its oldest part is skipped: the check would never catch up.
BACKLOG_BYTES = 16 * 1_048_576
MOST_NAMES = 1000
# About a second of hashing on a slow machine.
CHECKSUM_LIMIT = 256 * 1_048_576
# Default folders of the policy and keys of an agent, and of a Helen beside it; Context.private has this agent's.
PRIVATE = ("/etc/equus", "/var/lib/equus", "/var/lib/helen")
ALGORITHMS = ("sha256", "sha512", "sha1", "md5")
# Seconds. A local disk under load answers well within this; a slower filesystem counts as unavailable.
FILE_SECONDS = 10.0
FILES = Pool("calls on files")
_TYPES = {
    stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFIFO: "fifo", stat.S_IFSOCK: "socket",
    stat.S_IFLNK: "link", stat.S_IFCHR: "device", stat.S_IFBLK: "device",
}  # fmt: skip


def granted_path(call: str, value: Any, policy: Any) -> tuple[str, Place]:
    """Return the path, and its place below the root that grants it. Raises CallFailed if none grants it."""
    path = text_argument(call, "path", value)
    if not path.startswith("/") or ".." in path.split("/"):
        raise bad(f"{call}: path must begin with / and have no ..")
    path = os.path.normpath(path).replace("//", "/")
    root = policy.file_root(path)
    if root is None:
        raise CallFailed("denied", policy.refusal("file", path, f'paths = ["{path}"]'))
    return path, Place(root, os.path.relpath(path, root), policy.grants["file"].owners)


def reach(path: str, context: Context, act: Callable[[], Answer]) -> Answer:
    """Call `act` within the time limit. Raises CallFailed in place of an OSError, or after the limit."""
    try:
        return within(FILES, context.seconds_left(FILE_SECONDS), path, context.entry, act)
    except OSError as fault:
        if fault.errno in (errno.ENOENT, errno.ENOTDIR):
            raise CallFailed("not-found", f"{path} does not exist") from None
        if fault.errno in (errno.ELOOP, errno.EXDEV):
            raise CallFailed("denied", f"{path} leads over a symbolic link, which is never followed") from None
        if fault.errno in (errno.EACCES, errno.EPERM):
            raise CallFailed("failed", f"{path}: the user that the agent runs as may not read it") from None
        raise CallFailed("failed", f"{path}: {fault.strerror}") from None


def open_beneath(place: Place, policy: Any, context: Context) -> int:
    """Open a regular file for reading. Raises CallFailed if its path in the kernel is one of the agent's own files."""
    descriptor = safe_open.regular_file(place)
    real = os.readlink(f"/proc/self/fd/{descriptor}")
    own = [*PRIVATE, *context.private, *([policy.path] if policy.path else [])]
    if any(real == known or real.startswith(f"{known}/") for known in map(os.path.realpath, own)):
        os.close(descriptor)
        raise CallFailed("denied", f"{real} belongs to the agent itself and is never read by checks")
    return descriptor


def file_stat(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.file.stat: return the fields of lstat."""
    path, place = granted_path("host.file.stat", positional("host.file.stat", args, "path")[0], policy)
    status = reach(path, context, lambda: safe_open.status_beneath(place))
    return {
        "path": path,
        "type": _TYPES.get(stat.S_IFMT(status.st_mode), "device"),
        "size_bytes": status.st_size,
        "mode": f"{stat.S_IMODE(status.st_mode):04o}",
        "uid": status.st_uid,
        "gid": status.st_gid,
        "modified_at": status.st_mtime,
        "accessed_at": status.st_atime,
        "changed_at": status.st_ctime,
        "age_seconds": round(time.time() - status.st_mtime, 3),
        "links": status.st_nlink,
        "inode": status.st_ino,
    }


def file_list(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.file.list: return the names in a directory."""
    path, place = granted_path("host.file.list", positional("host.file.list", args, "path")[0], policy)

    def names() -> list[str]:
        """List the directory."""
        descriptor = safe_open.folder(place)
        try:
            return sorted(os.listdir(descriptor))
        finally:
            os.close(descriptor)

    found = [os.fsencode(name).decode("utf-8", "replace") for name in reach(path, context, names)]
    return {"names": found[:MOST_NAMES], "total": len(found)}


def bytes_from(descriptor: int, offset: int, limit: int) -> bytes:
    """Read up to `limit` bytes, in several reads if they are short."""
    pieces, left = [], limit
    while left > 0:
        piece = os.pread(descriptor, min(left, 1 << 18), offset)
        if not piece:
            break
        pieces.append(piece)
        offset, left = offset + len(piece), left - len(piece)
    return b"".join(pieces)


def file_read(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.file.read: return the text of a file, or a part of it."""
    value, options = positional("host.file.read", args, "path", "options")
    fields = Fields("host.file.read", [options])
    limit = fields.whole("limit", READ_DEFAULT, 1, READ_LIMIT)
    offset, as_hex = fields.whole("offset", 0, 0, 1 << 53), fields.flag("hex", False)
    fields.done()
    path, place = granted_path("host.file.read", value, policy)

    def read() -> tuple[bytes, int]:
        """Read the bytes and the size of the file."""
        descriptor = open_beneath(place, policy, context)
        try:
            return bytes_from(descriptor, offset, limit), os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)

    data, size = reach(path, context, read)
    text = data.hex() if as_hex else data.decode("utf-8", "replace")
    return {"text": text, "size_bytes": size, "truncated": offset + len(data) < size}


def file_checksum(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.file.checksum: return the digest of a whole file. Raises CallFailed if it is too large or denied."""
    value, algorithm = positional("host.file.checksum", args, "path", "algorithm")
    algorithm = text_argument("host.file.checksum", "algorithm", algorithm, default="sha256")
    if algorithm not in ALGORITHMS:
        raise bad(f"host.file.checksum: algorithm must be one of {', '.join(ALGORITHMS)}")
    path, place = granted_path("host.file.checksum", value, policy)

    def digest() -> tuple[str, int]:
        """Read the whole file and return its digest and size."""
        descriptor = open_beneath(place, policy, context)
        try:
            return _digest(descriptor, path, algorithm, context.deadline)
        finally:
            os.close(descriptor)

    text, size = reach(path, context, digest)
    return {"algorithm": algorithm, "digest": text, "size_bytes": size}


def _digest(descriptor: int, path: str, algorithm: str, deadline: float) -> tuple[str, int]:
    hasher, size = hashlib.new(algorithm, usedforsecurity=False), 0
    while piece := os.read(descriptor, 1 << 20):
        size += len(piece)
        if size > CHECKSUM_LIMIT:
            raise CallFailed("too-large", f"{path} is larger than {CHECKSUM_LIMIT >> 20} MiB")
        if time.monotonic() > deadline:
            raise CallFailed("timeout", f"{path} could not be read within the run's time")
        hasher.update(piece)
    return hasher.hexdigest(), size


CALLS: dict[str, Perform] = {
    "file.stat": file_stat,
    "file.list": file_list,
    "file.read": file_read,
    "file.checksum": file_checksum,
}
