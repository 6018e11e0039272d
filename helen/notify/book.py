"""STATE/notifications.toml: read at start, on SIGHUP and when it changes. A file with a fault changes nothing.

What was true stays true then, through a restart as well: the last file without a fault is kept in the store. No file
means that nobody is told anything.
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

from helen import records
from helen.notify.config import Config, NotificationsError, read
from helen.notify.rows import CONFIG
from helen.store import Store, StoreFailed

POLL_SECONDS = 2.0  # a stat each, in a thread; an editor's save is live within them
MAX_FILE = 1024 * 1024  # bytes: ten thousand rules at a hundred bytes

Stamp = tuple[int, int, int] | None


class NotificationBook:
    """`config` is what counts, None for no file; `on_changed()` is called when it is another."""

    log = Logger()

    def __init__(self, reactor: Any, path: Path, store: Store, on_changed: Callable[[], None]) -> None:
        self.path = path
        self.config: Config | None = None
        self.fault: str | None = None  # of the file as it is now
        self._store = store
        self._on_changed = on_changed
        self._seen: Stamp | tuple[()] = ()
        self._lock = DeferredLock()
        self._poll = LoopingCall(self.reread, "file")
        self._poll.clock = reactor

    def start(self, kept: str | None) -> Deferred[None]:
        """Read it for the first time; with a fault in it `kept`, the last good one, is what counts. Never fails."""
        return self._lock.run(lambda: Deferred.fromCoroutine(self._start(kept)))

    def stop(self) -> None:
        if self._poll.running:
            self._poll.stop()

    def reread(self, author: str) -> Deferred[None]:
        """Take the file as it is now. Never fails."""
        done = self._lock.run(lambda: Deferred.fromCoroutine(self._reread(author)))
        return done.addErrback(lambda failure: self.log.failure("the notifications", failure))

    async def _start(self, kept: str | None) -> None:
        await self._reread("start")
        if self.fault is not None and kept:
            self.log.warn("the last {name} without a fault stays in force", name=self.path.name)
            self.config = await deferToThread(read, kept)
            self._on_changed()
        self._poll.start(POLL_SECONDS, now=False).addErrback(
            lambda failure: self.log.failure("the poll of the notifications", failure)
        )

    async def _reread(self, author: str) -> None:
        stamp = await deferToThread(_stamp, self.path)
        if stamp == self._seen and author == "file":
            return
        self._seen = stamp
        try:
            text = await deferToThread(_read_text, self.path)
            config = None if text is None else await deferToThread(read, text)
        except NotificationsError as error:
            self.fault = str(error)
            self.log.error("{path} is not used, what was before it stays: {fault}", path=self.path, fault=error)
            return
        self.fault, self.config = None, config
        self._on_changed()
        try:
            await self._store.call(records.put, CONFIG, text or "")
        except StoreFailed as error:
            self.log.error("{name} is in force, but no copy of it is kept: {error}", name=self.path.name, error=error)


def _stamp(path: Path) -> Stamp:
    try:
        about = os.stat(path)
    except OSError:
        return None
    return about.st_ino, about.st_size, about.st_mtime_ns


def _read_text(path: Path) -> str | None:
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_FILE + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NotificationsError(f"{path} can't be read: {error.strerror}") from error
    if len(raw) > MAX_FILE:
        raise NotificationsError(f"{path} has more than {MAX_FILE} bytes: match with patterns")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise NotificationsError(f"{path} is no UTF-8: {error}") from error
