"""Perform `host.file.tail`: follow a log by a cursor, over its rotations. Never writes.

A cursor is `DEVICE:INODE:OFFSET:MARK`. The mark is a digest of the bytes before the offset. It tells a log that has
grown from one that was cut and filled again, and from a new file with the old inode number. After a rotation the rest
of the old file is read first, if it lies beside the new one: under another name (a move) or as a copy (copytruncate).

A program writes on to a file that was moved until it opens the new one, so the cursor then has `+` and a cursor of that
file, which is read on for as long as it lies there.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from typing import Any

from attrs import evolve, frozen

from equus.capabilities import files, safe_open
from equus.capabilities.calls import CallFailed, Context, Fields, Perform, bad, demand_descriptor, positional

# A run moves at most 8 MiB, and text in JSON is up to six times as long: four such calls fit, whatever the log holds.
TAIL_DEFAULT = 262_144
# Bytes before the cursor that its mark covers: some lines with their times, and one read of a disk.
MARK_BYTES = 4096
# Names that are looked through for the file that was followed before, and how many contents of them are compared.
MOST_NAMES = 10_000
MOST_COMPARED = 50
_CURSOR = re.compile(r"(\d{1,20}):(\d{1,20}):(\d{1,20})(?::([0-9a-f]{16}))?", re.ASCII)
_CALL = "host.file.tail"


@frozen
class Cursor:
    """Names the byte up to which a file was read. `mark` is None in cursors of earlier agents."""

    device: int
    inode: int
    offset: int
    mark: str | None
    before: "Cursor | None" = None  # of the file that was moved last

    def __str__(self) -> str:
        own = f"{self.device}:{self.inode}:{self.offset}:{self.mark}"
        return own if self.before is None else f"{own}+{self.before}"

    @classmethod
    def at(cls, descriptor: int, offset: int) -> "Cursor":
        """Return the cursor of a place in an open file."""
        status = os.fstat(descriptor)
        return cls(status.st_dev, status.st_ino, offset, _mark(descriptor, offset))

    def precedes(self, descriptor: int) -> bool:
        """Return True if this open file begins with all that was read up to the cursor."""
        if self.offset > os.fstat(descriptor).st_size:
            return False
        return self.mark is None or self.mark == _mark(descriptor, self.offset)

    def is_of(self, descriptor: int) -> bool:
        """Return True if this open file has the device and inode of the cursor.

        The number of a network filesystem changes when it is mounted anew, so that a mark stands in for it.
        """
        status = os.fstat(descriptor)
        return status.st_ino == self.inode and (status.st_dev == self.device or bool(self.mark and self.offset))


@frozen
class Part:
    """Holds the lines that were read of one file: from where on, and up to where."""

    lines: list[str]
    end: int  # the offset of the next byte to read
    used: int  # bytes
    more: bool
    skipped: int  # bytes


def file_tail(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.file.tail: return the whole lines that came since the cursor."""
    value, cursor, options = positional(_CALL, args, "path", "cursor", "options")
    fields = Fields(_CALL, [options])
    limit = fields.whole("limit", TAIL_DEFAULT, 1, files.READ_LIMIT)
    start = fields.choice("from", "end", ("end", "start"))
    fields.done()
    seen = _parse(cursor)
    path, place = files.granted_path(_CALL, value, policy)

    def read() -> dict[str, Any]:
        """Read the new lines."""
        descriptor = files.open_beneath(place, policy, context)
        try:
            if seen is None:
                begin = 0 if start == "start" else os.fstat(descriptor).st_size
                return _answer(descriptor, _part(descriptor, begin, limit))
            if seen.is_of(descriptor) and seen.precedes(descriptor):
                return _after_late_lines(descriptor, seen, path, limit, policy, context)
            return _after_rotation(descriptor, seen, path, limit, policy, context)
        finally:
            os.close(descriptor)

    return files.reach(path, context, read)


def _parse(value: Any) -> Cursor | None:
    """Parse a cursor. A check may have changed the text."""
    if value is None:
        return None
    own, plus, before = value.partition("+") if isinstance(value, str) else ("", "", "")
    found, found_before = _CURSOR.fullmatch(own), _CURSOR.fullmatch(before)
    if found is None or (plus and found_before is None):
        raise bad(f"{_CALL}: cursor must be nil or the cursor of an earlier answer")
    return _cursor(found, None if found_before is None else _cursor(found_before, None))


def _cursor(found: re.Match[str], before: Cursor | None) -> Cursor:
    return Cursor(int(found[1]), int(found[2]), int(found[3]), found[4], before)


def _mark(descriptor: int, offset: int) -> str:
    begin = max(0, offset - MARK_BYTES)
    return hashlib.sha256(files.bytes_from(descriptor, begin, offset - begin)).hexdigest()[:16]


def _answer(
    descriptor: int, part: Part, rotated: bool = False, incomplete: bool = False, before: Cursor | None = None
) -> dict[str, Any]:
    """Return the answer of the call; its cursor is in the open file, after the part."""
    return {
        "lines": part.lines,
        "cursor": str(evolve(Cursor.at(descriptor, part.end), before=before)),
        "more": part.more,
        "skipped_bytes": part.skipped,
        "rotated": rotated,
        "incomplete": incomplete,
    }


def _after_late_lines(
    descriptor: int, seen: Cursor, path: str, limit: int, policy: Any, context: Context
) -> dict[str, Any]:
    """Read what came late to the file that was moved last, and then on in this one."""
    late, before = Part([], 0, 0, False, 0), None
    moved = None if seen.before is None else _moved(seen.before, path, policy, context)
    if seen.before is not None and moved is not None:
        try:
            late = _part(moved, seen.before.offset, limit)
            before = Cursor.at(moved, late.end)
        finally:
            os.close(moved)
    return _joined(descriptor, late, seen.offset, limit, before=before)


def _joined(
    descriptor: int, first: Part, offset: int, limit: int, before: Cursor | None, **told: bool
) -> dict[str, Any]:
    """Return the answer with the lines of an earlier file, and as many of this one as fit beside them."""
    if first.more:
        return _answer(descriptor, Part(first.lines, offset, first.used, True, first.skipped), before=before, **told)
    left = files.MOST_LINES - len(first.lines)
    new = _part(descriptor, offset, limit - first.used, most_lines=left, alone=not first.used)
    both = Part(first.lines + new.lines, new.end, first.used + new.used, new.more, first.skipped + new.skipped)
    return _answer(descriptor, both, before=before, **told)


def _after_rotation(
    descriptor: int, seen: Cursor, path: str, limit: int, policy: Any, context: Context
) -> dict[str, Any]:
    """Read the rest of the file that the cursor is of, if it is found, and then the new file from its start."""
    rest, skipped_files, before = Part([], 0, 0, False, 0), False, None
    old = _followed_before(descriptor, seen, path, policy, context)
    if old is not None:
        previous, skipped_files = old
        try:
            rest = _part(previous, seen.offset, limit, ended=True)
            if rest.more:
                return _answer(previous, rest, rotated=True, incomplete=skipped_files)
            if seen.is_of(previous):  # a copy is written to no more
                before = Cursor.at(previous, rest.end)
        finally:
            os.close(previous)
    incomplete = old is None or skipped_files
    return _joined(descriptor, rest, 0, limit, before=before, rotated=True, incomplete=incomplete)


# ------------------------------------------------------------------------------------------------ the old file


def _followed_before(
    descriptor: int, seen: Cursor, path: str, policy: Any, context: Context
) -> tuple[int, bool] | None:
    """Open the file that was read up to the cursor and now lies beside `path`, or return None.

    The second value is True if a file was rotated between that one and this: its lines were never read.
    """
    folder, base = os.path.split(path)
    inodes = _inodes(folder, policy)
    copies = [name for name in inodes if name.startswith(base) and name != base][:MOST_COMPARED]
    moved = [name for name, inode in inodes.items() if inode == seen.inode and name != base]
    for name in moved + (copies if seen.mark and seen.offset else []):
        candidate = _open_beside(folder, name, policy, context)
        if candidate is None:
            continue
        if (name in copies or seen.is_of(candidate)) and seen.precedes(candidate):
            return candidate, _newer(candidate, descriptor, folder, copies, policy, context)
        os.close(candidate)
    return None


def _moved(seen: Cursor, path: str, policy: Any, context: Context) -> int | None:
    """Open the file of a cursor under the name that it has now, beside `path`; return None if it is gone."""
    folder, base = os.path.split(path)
    for name, inode in _inodes(folder, policy).items():
        if inode != seen.inode or name == base:
            continue
        found = _open_beside(folder, name, policy, context)
        if found is not None and seen.is_of(found) and seen.precedes(found):
            return found
        if found is not None:
            os.close(found)
    return None


def _inodes(folder: str, policy: Any) -> dict[str, int]:
    """Return the names of the folder with their inode numbers; none if the policy grants a single file of it."""
    try:
        _, place = files.granted_path(_CALL, folder, policy)
        opened = safe_open.folder(place)
    except CallFailed:
        return {}
    except OSError as fault:
        demand_descriptor(folder, fault)
        return {}
    try:
        with os.scandir(opened) as entries:
            return {entry.name: entry.inode() for entry, _ in zip(entries, range(MOST_NAMES), strict=False)}
    finally:
        os.close(opened)


def _open_beside(folder: str, name: str, policy: Any, context: Context) -> int | None:
    """Open a regular file of the folder by the rules of all others, or return None."""
    try:
        _, place = files.granted_path(_CALL, os.path.join(folder, name), policy)
        return files.open_beneath(place, policy, context)
    except OSError as fault:
        demand_descriptor(os.path.join(folder, name), fault)
        return None
    except (CallFailed, UnicodeError):
        return None


def _newer(old: int, new: int, folder: str, names: list[str], policy: Any, context: Context) -> bool:
    """Return True if another file of these was last written to between the old file and the new one."""
    first, known = os.fstat(old).st_mtime, {os.fstat(old).st_ino, os.fstat(new).st_ino}
    for status in _states(folder, names, policy, context):
        if status.st_mtime > first and status.st_ino not in known:
            return True
    return False


def _states(folder: str, names: list[str], policy: Any, context: Context) -> Iterator[os.stat_result]:
    for name in names:
        descriptor = _open_beside(folder, name, policy, context) if any(map(str.isdigit, name)) else None
        if descriptor is not None:
            yield os.fstat(descriptor)
            os.close(descriptor)


# ------------------------------------------------------------------------------------------------ lines


def _part(
    descriptor: int, offset: int, limit: int, ended: bool = False, most_lines: int | None = None, alone: bool = True
) -> Part:
    """Read whole lines from an offset on. If the file has `ended`, its last bytes are a line without a line end, too.

    If the part is not `alone` in its answer, a line that doesn't fit into the limit is left for the next call.
    """
    most_lines = files.MOST_LINES if most_lines is None else most_lines
    size = os.fstat(descriptor).st_size
    skipped = max(0, size - offset - files.BACKLOG_BYTES)
    position = offset + skipped
    data = files.bytes_from(descriptor, position, limit) if limit > 0 and most_lines > 0 else b""
    if ended and data and position + len(data) >= size and not data.endswith(b"\n"):
        lines, used = _whole_lines(data + b"\n", limit + 1, most_lines)
        used = min(used, len(data))
    elif not alone and b"\n" not in data:
        lines, used = [], 0
    else:
        lines, used = _whole_lines(data, limit, most_lines)
    more = len(data) == limit or used < data.rfind(b"\n") + 1 or (most_lines <= 0 and size > position)
    if ended:
        more = position + used < size
    if skipped and lines:  # the rest of the line that the cut went through is skipped, too
        skipped += data.find(b"\n") + 1 or len(data)
        del lines[0]
    return Part(lines, position + used, used, more, skipped)


def _whole_lines(data: bytes, limit: int, most_lines: int) -> tuple[list[str], int]:
    """Return the lines up to the last line end, at most `most_lines` of them, and their length in bytes.

    A line longer than the limit is returned in pieces: its end would never fit.
    """
    end = data.rfind(b"\n") + 1
    if not end and len(data) == limit:
        return [data.decode("utf-8", "replace")], len(data)
    parts = data[:end].split(b"\n")[:-1][:most_lines]
    used = sum(len(part) + 1 for part in parts)
    return [part.removesuffix(b"\r").decode("utf-8", "replace") for part in parts], used


CALLS: dict[str, Perform] = {"file.tail": file_tail}
