"""Write small documents of the state folder in a thread, so that the reactor never waits for the disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from groundwork.atomic_write import write_durably


class DocumentWriter:
    """Write documents in a thread: for each path one at a time, and of those that wait only the newest.

    `failed` is called with the path and a Failure if a write failed; the document is then lost.
    """

    def __init__(self, defer_to_thread: Callable[..., Any], failed: Callable[[Path, Any], None]) -> None:
        self._defer_to_thread = defer_to_thread
        self._failed = failed
        self._writing: dict[Path, bytes | None] = {}  # the content that waits behind the one being written

    def write(self, path: Path, content: bytes) -> None:
        """Replace the file `path`, once earlier writes to it are done."""
        if path in self._writing:
            self._writing[path] = content
        else:
            self._write(path, content)

    def _write(self, path: Path, content: bytes) -> None:
        self._writing[path] = None
        written = self._defer_to_thread(write_durably, path, content)
        written.addErrback(lambda failure: self._failed(path, failure)).addCallback(self._written, path)

    def _written(self, _: Any, path: Path) -> None:
        waiting = self._writing.pop(path)
        if waiting is not None:
            self._write(path, waiting)
