"""Keeps STATE/assignments.toml in force, the truth about what runs where, and each of its texts as a revision.

helen/files/watched_file.py has the rules of such a file. A fault in it changes nothing, through a restart as well: the
newest revision stays in force. No file is an empty one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred

from helen.assignments.assignments_text import read
from helen.assignments.schedule import Assignments, AssignmentsError
from helen.files.watched_file import WatchedFile
from helen.storage import publication_rows
from helen.storage.database import Store, StoreFailed
from helen.storage.publication_rows import Revision

MAX_FILE = 4 * 1024 * 1024  # bytes: MAX_ENTRIES of the schedule, at 400 bytes each


class AssignmentsFile(WatchedFile[Assignments]):
    """Reads and writes assignments.toml, and keeps the assignments that are in force. `on_changed(assignments)` is
    called with each that is put in force.
    """

    missing = ""

    def __init__(
        self,
        reactor: Any,
        path: Path,
        store: Store,
        wall: Callable[[], float],
        on_changed: Callable[[Assignments], None],
    ) -> None:
        super().__init__(reactor, path, AssignmentsError, MAX_FILE, "name agents by patterns and labels")
        self.revision = 0
        self.taken: str | None = None  # the text that is in force
        self.observers: list[Callable[[], None]] = []  # called when another text is
        self._store = store
        self._wall = wall
        self._on_changed = on_changed

    def start_from(self, newest: Revision | None) -> Deferred[None]:
        """Read the file for the first time; if it has a fault, the newest revision is in force. Never fails."""
        if newest is not None:
            self.revision = newest.number
        return self.start(None if newest is None else newest.text)

    def read(self, text: str | None) -> Assignments:
        """Read the assignments of a text. Raises AssignmentsError."""
        return read(text or "")

    def use(self, config: Assignments, text: str | None) -> None:
        """Put assignments in force, and tell the observers if the text is another one."""
        is_new, self.taken = (text or "") != self.taken, text or ""
        self._on_changed(config)
        for observer in self.observers if is_new else ():
            observer()

    async def keep(self, text: str | None, author: str) -> None:
        """Keep the text as a revision. It is in force, whether or not the store can keep it."""
        if not text and not self.revision:
            return
        try:
            self.revision = await self._store.call(publication_rows.add_revision, self._wall(), author, text or "")
        except StoreFailed as error:
            self.log.error("the assignments are in force, but no revision of them is kept: {error}", error=error)
