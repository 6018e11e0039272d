"""Read the whole lines of a log, from an offset on."""

from __future__ import annotations

import os

from attrs import frozen

from equus.capabilities import files


@frozen
class Part:
    """Holds the lines that were read of one file: from where on, and up to where."""

    lines: list[str]
    end: int  # the offset of the next byte to read
    used: int  # bytes
    more: bool
    skipped: int  # bytes


def read_part(
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
