"""A file of settings that people write: read at start, on SIGHUP and when it changes; rewritten whole.

A file with a fault in it changes nothing: what was true stays true, through a restart as well, since the last file
without a fault is kept in the store. What the text means is whoever's that reads it.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.task import LoopingCall
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from helen import records, textfile
from helen.statedir import sync_folder, write_whole
from helen.store import Store, StoreFailed
from helen.textfile import POLL_SECONDS, Stamp

MAX_FILE = 1024 * 1024  # bytes: ten thousand entries at a hundred bytes
NO_FILE = "none"  # the version of a file that isn't there

Config = TypeVar("Config")


class Outdated(Exception):
    """Somebody else has changed the file meanwhile."""


class TextBook(Generic[Config]):
    """`config` is what counts, None for no file; `on_changed()` is called when it is another.

    `key`: of the copy in the store. `read(text)` raises `refusal` with a sentence for each fault.
    """

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        path: Path,
        store: Store,
        key: str,
        read: Callable[[str], Config],
        refusal: type[Exception],
        on_changed: Callable[[], None],
    ) -> None:
        self.path = path
        self.config: Config | None = None
        self.fault: str | None = None  # of the file as it is now
        self._store, self._key = store, key
        self._read, self.refusal = read, refusal
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
        return done.addErrback(lambda failure: self.log.failure("{path}", failure, path=self.path))

    def text(self) -> Deferred[str | None]:
        """The file as it is; None where there is none. Fails with the refusal if it can't be read."""
        return deferToThread(self._read_text)

    def rewrite(self, text: str | None, version: str | None) -> Deferred[str]:
        """Replace the file in one step, or take it away (None): its new version.

        Fails with Outdated if `version` is given and is not what is there, and with the refusal for what can't be used.
        """
        return self._lock.run(lambda: Deferred.fromCoroutine(self._rewrite(text, version)))

    async def judge(self, text: str | None, version: str | None) -> str:
        """What `rewrite` would come to, and fail with; nothing changes."""
        await self._judge(text, version)
        return version_of(text)

    async def _start(self, kept: str | None) -> None:
        await self._reread("start")
        if self.fault is not None and kept:
            self.log.warn("the last {name} without a fault stays in force", name=self.path.name)
            self.config = await deferToThread(self._read, kept)
            self._on_changed()
        self._poll.start(POLL_SECONDS, now=False).addErrback(
            lambda failure: self.log.failure("the poll of {path}", failure, path=self.path)
        )

    async def _reread(self, author: str) -> None:
        stamp = await deferToThread(textfile.stamp, self.path)
        if stamp == self._seen and author == "file":
            return
        self._seen = stamp
        try:
            text = await deferToThread(self._read_text)
            config = None if text is None else await deferToThread(self._read, text)
        except self.refusal as error:
            self.fault = str(error)
            self.log.error("{path} is not used, what was before it stays: {fault}", path=self.path, fault=error)
            return
        await self._take(config, text)

    async def _rewrite(self, text: str | None, version: str | None) -> str:
        config = await self._judge(text, version)
        try:
            await deferToThread(_put, self.path, text)
        except OSError as error:
            raise self.refusal(f"{self.path} can't be written: {error.strerror}") from error
        self._seen = await deferToThread(textfile.stamp, self.path)
        await self._take(config, text)
        return version_of(text)

    async def _judge(self, text: str | None, version: str | None) -> Config | None:
        before = await self.text()
        if version is not None and version != version_of(before):
            raise Outdated(f"{self.path.name} has been changed meanwhile: look at it again, then write")
        if text is not None and len(text.encode("utf-8", "replace")) > MAX_FILE:
            raise self.refusal(f"{self.path.name} has more than {MAX_FILE} bytes: match with patterns")
        return None if text is None else await deferToThread(self._read, text)

    async def _take(self, config: Config | None, text: str | None) -> None:
        self.fault, self.config = None, config
        self._on_changed()
        try:
            await self._store.call(records.put, self._key, text or "")
        except StoreFailed as error:
            self.log.error("{name} is in force, but no copy of it is kept: {error}", name=self.path.name, error=error)

    def _read_text(self) -> str | None:
        return textfile.read(self.path, MAX_FILE, self.refusal, "match with patterns")


def version_of(text: str | None) -> str:
    """By which it is known whether a file is still the one that somebody has seen."""
    return NO_FILE if text is None else hashlib.sha256(text.encode()).hexdigest()[:32]


def _put(path: Path, text: str | None) -> None:
    if text is not None:
        write_whole(path, text.encode())
        return
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
        sync_folder(path.parent)
