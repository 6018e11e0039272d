"""A file of text that people write, as it lies on disk: what tells that it has changed, and what it says. Blocking."""

from __future__ import annotations

import os
from pathlib import Path

POLL_SECONDS = 2.0  # a stat each, in a thread; an editor's save is live within them

Stamp = tuple[int, int, int] | None


def stamp(path: Path) -> Stamp:
    """What tells that it has changed, without reading it; None where there is none."""
    try:
        about = os.stat(path)
    except OSError:
        return None
    return about.st_ino, about.st_size, about.st_mtime_ns


def read(path: Path, most: int, refusal: type[Exception], advice: str) -> str | None:
    """Its text, None where there is none. Raises `refusal`; `advice` is for a file of more than `most` bytes."""
    try:
        with open(path, "rb") as file:
            raw = file.read(most + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise refusal(f"{path} can't be read: {error.strerror}") from error
    if len(raw) > most:
        raise refusal(f"{path} has more than {most} bytes: {advice}")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise refusal(f"{path} is no UTF-8: {error}") from error
