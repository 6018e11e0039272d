"""STATE/assignments.toml, the truth about what runs where: read at start, on SIGHUP, when it changes; rewritten whole.

A file with a fault in it changes nothing: what was true stays true, through a restart as well, and the fault is told.
Each version that was taken is kept as a revision in the store.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.task import LoopingCall
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from helen import publications, textfile
from helen.policy import Assignments, AssignmentsError, read
from helen.publications import Revision
from helen.statedir import write_whole
from helen.store import Store, StoreFailed
from helen.textfile import POLL_SECONDS, Stamp

MAX_FILE = 4 * 1024 * 1024  # bytes: MAX_ENTRIES of the policy, at 400 bytes each


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
        self.taken: str | None = None  # the text that is in force
        self.observers: list[Callable[[], None]] = []  # called when another text is
        self._store = store
        self._clock = clock
        self._on_changed = on_changed
        self._seen: Stamp | tuple[()] = ()  # not looked at yet
        self._lock = DeferredLock()
        self._poll = LoopingCall(self.reread, "file")
        self._poll.clock = reactor

    def start(self, newest: Revision | None = None) -> Deferred[None]:
        """Read it for the first time; fires when that is done. With a fault in it `newest` is what counts."""
        return self._lock.run(lambda: Deferred.fromCoroutine(self._start(newest)))

    def stop(self) -> None:
        if self._poll.running:
            self._poll.stop()

    def reread(self, author: str) -> Deferred[None]:
        """Take the file as it is now; a fault is kept in `fault`. Never fails."""
        done = self._lock.run(lambda: Deferred.fromCoroutine(self._reread(author)))
        return done.addErrback(lambda failure: self.log.failure("the assignments", failure))

    def rewrite(
        self, text: str, author: str, demand: Callable[[str], None] = lambda held: None, dry_run: bool = False
    ) -> Deferred[Assignments]:
        """Replace the file in one step; fails with AssignmentsError and leaves it alone if the text can't be used.

        `demand` sees the text that is replaced, and may raise. A dry run goes as far as the file.
        """
        return self._lock.run(lambda: Deferred.fromCoroutine(self._rewrite(text, author, demand, dry_run)))

    def text(self) -> Deferred[str]:
        """The file as it is; empty where there is none. Fails with AssignmentsError if it can't be read."""
        return deferToThread(_read_text, self.path)

    async def _start(self, newest: Revision | None) -> None:
        if newest is not None:
            self.revision = newest.number
        await self._reread("start")
        if self.fault is not None and newest is not None:
            self.log.warn("revision {number} of the assignments stays in force", number=newest.number)
            self.taken = newest.text
            self._on_changed(await deferToThread(read, newest.text))
        self._poll.start(POLL_SECONDS, now=False).addErrback(
            lambda failure: self.log.failure("the poll of the assignments", failure)
        )

    async def _reread(self, author: str) -> None:
        stamp = await deferToThread(textfile.stamp, self.path)
        if stamp == self._seen and author == "file":
            return
        self._seen = stamp
        try:
            text = await deferToThread(_read_text, self.path)
            assignments = await deferToThread(read, text)
        except AssignmentsError as error:
            self.fault = str(error)
            self.log.error("{path} is not used, the assignments before it stay: {fault}", path=self.path, fault=error)
            return
        await self._take(assignments, text, author)

    async def _rewrite(
        self, text: str, author: str, demand: Callable[[str], None], dry_run: bool
    ) -> Assignments:  # fmt: skip
        demand(await deferToThread(_read_text, self.path))
        if len(text.encode()) > MAX_FILE:
            raise AssignmentsError(f"more than {MAX_FILE} bytes: name agents by patterns and labels")
        assignments = await deferToThread(read, text)
        if dry_run:
            return assignments
        try:
            await deferToThread(write_whole, self.path, text.encode())
        except OSError as error:
            raise AssignmentsError(f"{self.path} can't be written: {error.strerror}") from error
        self._seen = await deferToThread(textfile.stamp, self.path)
        await self._take(assignments, text, author)
        return assignments

    async def _take(self, assignments: Assignments, text: str, author: str) -> None:
        """The file is the truth, whether or not the store can keep a revision of it."""
        self.fault = None
        is_new, self.taken = text != self.taken, text
        self._on_changed(assignments)
        for observer in self.observers if is_new else ():
            observer()
        if not text and not self.revision:
            return
        try:
            self.revision = await self._store.call(publications.add_revision, self._clock(), author, text)
        except StoreFailed as error:
            self.log.error("the assignments are in force, but no revision of them is kept: {error}", error=error)


def _read_text(path: Path) -> str:
    return textfile.read(path, MAX_FILE, AssignmentsError, "name agents by patterns and labels") or ""
