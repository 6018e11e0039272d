"""Files that are whole whenever the power goes: written beside, synced, renamed, and the folder synced.

`write_durably` blocks and is for the start and for threads; `Keeper` is for the reactor.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


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


class Keeper:
    """Writes documents in a thread, for each path one at a time, and of those that wait only the newest."""

    def __init__(self, defer_to_thread: Callable[..., Any], failed: Callable[[Path, Any], None]) -> None:
        self._defer_to_thread = defer_to_thread
        self._failed = failed
        self._writing: dict[Path, bytes | None] = {}  # what waits behind the one that is being written

    def keep(self, path: Path, data: bytes) -> None:
        if path in self._writing:
            self._writing[path] = data
        else:
            self._write(path, data)

    def _write(self, path: Path, data: bytes) -> None:
        self._writing[path] = None
        written = self._defer_to_thread(write_durably, path, data)
        written.addErrback(lambda failure: self._failed(path, failure)).addCallback(self._written, path)

    def _written(self, _: Any, path: Path) -> None:
        waiting = self._writing.pop(path)
        if waiting is not None:
            self._write(path, waiting)
