"""The capability `file`: look at and read regular files below the roots that the policy grants. It writes nothing.

Every access goes through opening.py, and in a bounded thread: a root may lie on a network filesystem that hangs.
"""

import errno
import hashlib
import os
import stat
import time
from collections.abc import Callable
from typing import Any, TypeVar

from equus.capabilities import opening
from equus.capabilities.bounded import within
from equus.capabilities.calls import CallFailed, Context, Fields, Perform, bad, positional, text_argument

Answer = TypeVar("Answer")

# A blob of the protocol is 1 MiB, so more could not be reported anyway.
READ_LIMIT = 1_048_576
READ_DEFAULT = 65_536
# A run moves at most 8 MiB, and text in JSON is up to six times as long: four such calls fit whatever the log holds.
TAIL_DEFAULT = 262_144
# A log that grows by more lines between two runs is read in several calls.
MOST_LINES = 10_000
# Of a log that grew by more than this since the last call, the oldest part is skipped: reading on would never catch up.
BACKLOG_BYTES = 16 * 1_048_576
MOST_NAMES = 1000
# About a second of hashing on a slow machine.
CHECKSUM_LIMIT = 256 * 1_048_576
# Where an agent's policy and keys lie by default; see Context.private for those of this agent.
PRIVATE = ("/etc/equus", "/var/lib/equus")
ALGORITHMS = ("sha256", "sha512", "sha1", "md5")
# A local disk under load answers well within this; beyond it the filesystem is as good as gone.
FILE_SECONDS = 10.0
_TYPES = {
    stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFIFO: "fifo", stat.S_IFSOCK: "socket",
    stat.S_IFLNK: "link", stat.S_IFCHR: "device", stat.S_IFBLK: "device",
}  # fmt: skip


def _granted(call: str, value: Any, policy: Any) -> tuple[str, str, str]:
    """The path, the root that grants it, and what lies below that root."""
    path = text_argument(call, "path", value)
    if not path.startswith("/") or ".." in path.split("/"):
        raise bad(f"{call}: path must begin with / and have no ..")
    path = os.path.normpath(path).replace("//", "/")
    root = policy.file_root(path)
    if root is None:
        raise CallFailed("denied", policy.refusal("file", path, f'paths = ["{path}"]'))
    if root == path and not os.path.isdir(root):  # the grant of a single file
        root = os.path.dirname(root)
    return path, root, os.path.relpath(path, root)


def _reach(path: str, context: Context, act: Callable[[], Answer]) -> Answer:
    """Do it within the time limit; the kernel's refusals become ours."""
    try:
        return within(context.seconds_left(FILE_SECONDS), path, act)
    except OSError as fault:
        if fault.errno in (errno.ENOENT, errno.ENOTDIR):
            raise CallFailed("not-found", f"{path} does not exist") from None
        if fault.errno in (errno.ELOOP, errno.EXDEV):
            raise CallFailed("denied", f"{path} leads over a symbolic link, which is never followed") from None
        if fault.errno in (errno.EACCES, errno.EPERM):
            raise CallFailed("failed", f"{path}: the user that the agent runs as may not read it") from None
        raise CallFailed("failed", f"{path}: {fault.strerror}") from None


def _open(root: str, below: str, policy: Any, context: Context) -> int:
    """A regular file, open for reading, that is none of the agent's own; judged by where the kernel says it lies."""
    descriptor = opening.regular_file(root, below)
    place = os.readlink(f"/proc/self/fd/{descriptor}")
    own = [*PRIVATE, *context.private, *([policy.path] if policy.path else [])]
    if any(place == known or place.startswith(f"{known}/") for known in map(os.path.realpath, own)):
        os.close(descriptor)
        raise CallFailed("denied", f"{place} belongs to the agent itself and is never read by checks")
    return descriptor


def file_stat(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """What lstat says."""
    path, root, below = _granted("host.file.stat", positional("host.file.stat", args, "path")[0], policy)
    status = _reach(path, context, lambda: opening.status_beneath(root, below))
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
    """Names in a directory."""
    path, root, below = _granted("host.file.list", positional("host.file.list", args, "path")[0], policy)

    def names() -> list[str]:
        descriptor = opening.folder(root, below)
        try:
            return sorted(os.listdir(descriptor))
        finally:
            os.close(descriptor)

    found = [os.fsencode(name).decode("utf-8", "replace") for name in _reach(path, context, names)]
    return {"names": found[:MOST_NAMES], "total": len(found)}


def _bytes_from(descriptor: int, offset: int, limit: int) -> bytes:
    """Up to `limit` bytes; a short read is not the end of a file."""
    pieces, left = [], limit
    while left > 0:
        piece = os.pread(descriptor, min(left, 1 << 18), offset)
        if not piece:
            break
        pieces.append(piece)
        offset, left = offset + len(piece), left - len(piece)
    return b"".join(pieces)


def file_read(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """The text of a file, or a part of it."""
    value, options = positional("host.file.read", args, "path", "options")
    fields = Fields("host.file.read", [options])
    limit = fields.whole("limit", READ_DEFAULT, 1, READ_LIMIT)
    offset, as_hex = fields.whole("offset", 0, 0, 1 << 53), fields.flag("hex", False)
    fields.done()
    path, root, below = _granted("host.file.read", value, policy)

    def read() -> tuple[bytes, int]:
        descriptor = _open(root, below, policy, context)
        try:
            return _bytes_from(descriptor, offset, limit), os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)

    data, size = _reach(path, context, read)
    text = data.hex() if as_hex else data.decode("utf-8", "replace")
    return {"text": text, "size_bytes": size, "truncated": offset + len(data) < size}


def file_checksum(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """A digest of a whole file."""
    value, algorithm = positional("host.file.checksum", args, "path", "algorithm")
    algorithm = text_argument("host.file.checksum", "algorithm", algorithm, default="sha256")
    if algorithm not in ALGORITHMS:
        raise bad(f"host.file.checksum: algorithm must be one of {', '.join(ALGORITHMS)}")
    path, root, below = _granted("host.file.checksum", value, policy)

    def digest() -> tuple[str, int]:
        descriptor = _open(root, below, policy, context)
        try:
            return _digest(descriptor, path, algorithm, context.deadline)
        finally:
            os.close(descriptor)

    text, size = _reach(path, context, digest)
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


def file_tail(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Whole lines that came since the cursor."""
    value, cursor, options = positional("host.file.tail", args, "path", "cursor", "options")
    fields = Fields("host.file.tail", [options])
    limit = fields.whole("limit", TAIL_DEFAULT, 1, READ_LIMIT)
    start = fields.choice("from", "end", ("end", "start"))
    fields.done()
    seen = _cursor(cursor)
    path, root, below = _granted("host.file.tail", value, policy)

    def read() -> dict[str, Any]:
        descriptor = _open(root, below, policy, context)
        try:
            return _new_lines(descriptor, seen, limit, start == "start")
        finally:
            os.close(descriptor)

    return _reach(path, context, read)


def _cursor(value: Any) -> tuple[int, int, int] | None:
    """Device, inode and offset; the text is ours, but it has been through a check's hands."""
    if value is None:
        return None
    parts = value.split(":") if isinstance(value, str) and len(value) < 80 else []
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts):
        raise bad("host.file.tail: cursor must be nil or the cursor of an earlier answer")
    device, inode, offset = map(int, parts)
    return device, inode, offset


def _new_lines(descriptor: int, seen: tuple[int, int, int] | None, limit: int, from_start: bool) -> dict[str, Any]:
    status = os.fstat(descriptor)
    size, same = status.st_size, (status.st_dev, status.st_ino)
    rotated = seen is not None and (seen[:2] != same or seen[2] > size)
    begin = 0 if from_start or rotated else size
    offset = seen[2] if seen is not None and not rotated else begin
    skipped = max(0, size - offset - BACKLOG_BYTES)
    data = _bytes_from(descriptor, offset + skipped, limit)
    position = offset + skipped
    lines, used = _whole_lines(data, limit)
    if skipped and lines:  # what is left of the line that we cut into is skipped as well
        skipped += data.find(b"\n") + 1 or len(data)
        del lines[0]
    return {
        "lines": lines,
        "cursor": f"{same[0]}:{same[1]}:{position + used}",
        "more": len(data) == limit or used < data.rfind(b"\n") + 1,
        "skipped_bytes": skipped,
        "rotated": rotated,
    }


def _whole_lines(data: bytes, limit: int) -> tuple[list[str], int]:
    """Lines up to the last line end, at most MOST_LINES of them, and how many bytes they are.

    A line as long as the whole limit is given in pieces: waiting for its end would mean to wait for ever."""
    end = data.rfind(b"\n") + 1
    if not end and len(data) == limit:
        return [data.decode("utf-8", "replace")], len(data)
    parts = data[:end].split(b"\n")[:-1][:MOST_LINES]
    used = sum(len(part) + 1 for part in parts)
    return [part.removesuffix(b"\r").decode("utf-8", "replace") for part in parts], used


CALLS: dict[str, Perform] = {
    "file.stat": file_stat,
    "file.list": file_list,
    "file.read": file_read,
    "file.tail": file_tail,
    "file.checksum": file_checksum,
}
