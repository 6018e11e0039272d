"""Files that are whole whenever the power goes: written beside, synced, renamed, and the folder synced.

Blocking; for the start and for threads.
"""

from __future__ import annotations

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Make new and removed names in a folder durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_durably(path: Path, data: bytes, mode: int = 0o600) -> None:
    """A whole new content for a file: all of it or the old one, whatever happens."""
    fresh = path.with_name(path.name + ".new")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        os.fchmod(fd, mode)
        with os.fdopen(os.dup(fd), "wb") as file:
            file.write(data)
        os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(fresh, path)
    sync_folder(path.parent)
