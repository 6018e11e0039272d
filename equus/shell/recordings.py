"""List the recordings of a host's sessions, keep them for their time, and say how much room is left. Blocking.

They lie in STATE/recordings, which only root can enter. Their names are made by recording.py.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from groundwork.counts import count

FOLDER = "recordings"  # in the agent's state folder
NAME = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}")
SHARE = 16  # of all room one connection may take one part: nobody takes that of all others
LEAST = 65_536  # bytes of room without which no session begins
MOST_LISTED = 1_000
MOST_HEAD, TAIL = 65_536, 4_096  # bytes of the first line, and of the end in which the last one is


class NoRoom(Exception):
    """Report that recordings take all room that the policy gives them, so no session may begin."""


def prepare(folder: Path, most: int, others: int = 0) -> int:
    """Make the folder of recordings, and return how many bytes one more connection may record.

    `most`: bytes of all recordings. `others`: connections that are open; each may still take its whole share. Raises
    NoRoom, or OSError if the folder can't be made.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    taken = sum(_size(path) for path in _files(folder)) + others * (most // SHARE)
    room = min(most - taken, most // SHARE)
    if room < LEAST:
        shares = f", with the shares of {count(others, 'open session')}" if others else ""
        raise NoRoom(f"recordings take all of their {most // 1_048_576} MiB{shares}: raise record_mib, or remove some")
    return room


def forget_old(folder: Path, keep: float, now: float) -> int:
    """Remove recordings that were not written to for `keep` seconds; return their number. `now`: unix seconds."""
    count = 0
    for path in _files(folder):
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < now - keep:
                path.unlink()
                count += 1
    return count


def path_of(folder: Path, name: str) -> Path | None:
    """Return the file of a recording, None for a name that none has."""
    path = folder / f"{name}.cast"
    return path if NAME.fullmatch(name) and path.is_file() and not path.is_symlink() else None


def listed(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield what there is, the newest first: name, began, seconds, bytes, who, user, caller, kind, command, end.

    `end` is empty while a session goes on, and if it was cut off. A file that can't be read is left out.
    """
    for path in sorted(_files(folder), reverse=True)[:MOST_LISTED]:
        with suppress(OSError, ValueError, TypeError, KeyError):
            yield _described(path)


def _size(path: Path) -> int:
    with suppress(FileNotFoundError):  # removed meanwhile
        return path.stat().st_size
    return 0


def _files(folder: Path) -> list[Path]:
    with suppress(FileNotFoundError):
        return [path for path in folder.iterdir() if path.suffix == ".cast" and NAME.fullmatch(path.stem)]
    return []


def _described(path: Path) -> dict[str, Any]:
    with open(path, "rb") as file:
        head = json.loads(file.readline(MOST_HEAD))
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL))
        last = file.read().splitlines()[-1]
    seconds, end = _end_of(last)
    about = head["equus"]
    return {
        "name": path.stem, "began": head["timestamp"], "seconds": seconds, "bytes": size, "who": about["who"],
        "user": about["user"], "caller": about["caller"], "kind": about["kind"], "command": head.get("command"),
        "end": end,
    }  # fmt: skip


def _end_of(line: bytes) -> tuple[float | None, str]:
    """Return seconds and text of the last line, if it is the one that ends a recording."""
    try:
        seconds, code, text = json.loads(line)
    except (ValueError, TypeError):
        return None, ""
    return (seconds, text) if code == "m" else (seconds if isinstance(seconds, float) else None, "")
