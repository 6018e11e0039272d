"""STATE/assignments.toml, the truth about what runs where: read at start, on SIGHUP, when it changes; rewritten whole.

A file with a fault in it changes nothing: what was true stays true, and the fault is told. Each version that was taken
is kept as a revision in the store.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.task import LoopingCall
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from helen import publications
from helen.policy import Assignments, AssignmentsError, read
from helen.statedir import write_whole
from helen.store import Store

POLL_SECONDS = 2.0  # a stat each; an editor's save is live within them


class AssignmentBook:
    """`on_changed(assignments)` is called with each version that is taken."""

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        path: Path,
        store: Store,
        clock: Callable[[], float],
        on_changed: Callable[[Assignments], None],
    ) -> None:
        self.path = path
        self.fault: str | None = None  # of the file as it is now
        self.revision = 0
        self._store = store
        self._clock = clock
        self._on_changed = on_changed
        self._seen: tuple[int, int, int] | None = None
        self._lock = DeferredLock()
        self._poll = LoopingCall(self._look)
        self._poll.clock = reactor

    def start(self) -> Deferred[None]:
        """Read it for the first time; fires when that is done."""
        done = self.reread("start")
        self._poll.start(POLL_SECONDS, now=False)
        return done

    def stop(self) -> None:
        if self._poll.running:
            self._poll.stop()

    def reread(self, author: str) -> Deferred[None]:
        """Take the file as it is now."""
        return self._lock.run(lambda: Deferred.fromCoroutine(self._reread(author)))

    def rewrite(self, text: str, author: str) -> Deferred[None]:
        """Replace the file in one step; fails with AssignmentsError and leaves it alone if the text can't be used."""
        return self._lock.run(lambda: Deferred.fromCoroutine(self._rewrite(text, author)))

    def text(self) -> Deferred[str]:
        """The file as it is; empty where there is none."""
        return deferToThread(_read_text, self.path)

    def _look(self) -> Deferred[None] | None:
        return self.reread("file") if _stamp(self.path) != self._seen else None

    async def _reread(self, author: str) -> None:
        stamp = await deferToThread(_stamp, self.path)
        if stamp == self._seen and author == "file":
            return
        self._seen = stamp
        try:
            text = await deferToThread(_read_text, self.path)
            assignments = read(text)
        except (AssignmentsError, OSError, UnicodeDecodeError) as error:
            self.fault = str(error)
            self.log.error("{path} is not used, the assignments before it stay: {fault}", path=self.path, fault=error)
            return
        await self._take(assignments, text, author)

    async def _rewrite(self, text: str, author: str) -> None:
        assignments = read(text)
        await deferToThread(write_whole, self.path, text.encode())
        self._seen = await deferToThread(_stamp, self.path)
        await self._take(assignments, text, author)

    async def _take(self, assignments: Assignments, text: str, author: str) -> None:
        self.fault = None
        if text:
            self.revision = await self._store.call(publications.add_revision, self._clock(), author, text)
        self._on_changed(assignments)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        about = os.stat(path)
    except OSError:
        return None
    return about.st_ino, about.st_size, about.st_mtime_ns


def _read_text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
