"""Perform `host.file.tail`: follow a log by a cursor, over its rotations. Never writes.

A cursor is `DEVICE:INODE:OFFSET:MARK`. The mark is a digest of the bytes before the offset. It tells a log that has
grown from one that was cut and filled again, and from a new file with the old inode number. After a rotation the rest
of the old file is read first, if it lies beside the new one: under another name (a move) or as a copy (copytruncate).

A program writes on to a file that was moved until it opens the new one, so the cursor then has `+` and a cursor of that
file, which is read on for as long as it lies there.
"""

import os
from typing import Any

from attrs import evolve

from equus.capabilities import files
from equus.capabilities.calls import Context, Fields, Perform, positional
from equus.capabilities.log_cursor import CALL, Cursor, parse_cursor
from equus.capabilities.log_lines import Part, read_part
from equus.capabilities.rotated_logs import followed_before, moved_file

# A run moves at most 8 MiB, and text in JSON is up to six times as long: four such calls fit, whatever the log holds.
TAIL_DEFAULT = 262_144


def file_tail(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.file.tail: return the whole lines that came since the cursor."""
    value, cursor, options = positional(CALL, args, "path", "cursor", "options")
    fields = Fields(CALL, [options])
    limit = fields.whole("limit", TAIL_DEFAULT, 1, files.READ_LIMIT)
    start = fields.choice("from", "end", ("end", "start"))
    fields.done()
    seen = parse_cursor(cursor)
    path, place = files.granted_path(CALL, value, policy)

    def read() -> dict[str, Any]:
        """Read the new lines."""
        descriptor = files.open_beneath(place, policy, context)
        try:
            if seen is None:
                begin = 0 if start == "start" else os.fstat(descriptor).st_size
                return _answer(descriptor, read_part(descriptor, begin, limit))
            if seen.is_of(descriptor) and seen.precedes(descriptor):
                return _after_late_lines(descriptor, seen, path, limit, policy, context)
            return _after_rotation(descriptor, seen, path, limit, policy, context)
        finally:
            os.close(descriptor)

    return files.reach(path, context, read)


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
    moved = None if seen.before is None else moved_file(seen.before, path, policy, context)
    if seen.before is not None and moved is not None:
        try:
            late = read_part(moved, seen.before.offset, limit)
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
    new = read_part(descriptor, offset, limit - first.used, most_lines=left, alone=not first.used)
    both = Part(first.lines + new.lines, new.end, first.used + new.used, new.more, first.skipped + new.skipped)
    return _answer(descriptor, both, before=before, **told)


def _after_rotation(
    descriptor: int, seen: Cursor, path: str, limit: int, policy: Any, context: Context
) -> dict[str, Any]:
    """Read the rest of the file that the cursor is of, if it is found, and then the new file from its start."""
    rest, skipped_files, before = Part([], 0, 0, False, 0), False, None
    old = followed_before(descriptor, seen, path, policy, context)
    if old is not None:
        previous, skipped_files = old
        try:
            rest = read_part(previous, seen.offset, limit, ended=True)
            if rest.more:
                return _answer(previous, rest, rotated=True, incomplete=skipped_files)
            if seen.is_of(previous):  # a copy is written to no more
                before = Cursor.at(previous, rest.end)
        finally:
            os.close(previous)
    incomplete = old is None or skipped_files
    return _joined(descriptor, rest, 0, limit, before=before, rotated=True, incomplete=incomplete)


CALLS: dict[str, Perform] = {"file.tail": file_tail}
