"""Keeps a file that operators write in force: it is read at start, on SIGHUP and on a change, and rewritten whole.

A file with a fault in it changes nothing: what was in force stays so, and `fault` says why. Subclasses read the text,
put it in force, and keep a copy of it for a start at which the file has a fault.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from groundwork.atomic_write import sync_folder, write_durably
from groundwork.one_by_one import OneByOne

POLL_SECONDS = 2.0  # between two looks, a stat each, in a thread; an editor's save is live within them

Stamp = tuple[int, int, int] | None
Config = TypeVar("Config")


class WatchedFile(Generic[Config]):
    """Keeps a file of settings and its text as a Config in step; one reading or writing at a time. `most` is in bytes.

    `refusal` is the error for a text that can't be used; `advice` goes with a text of more than `most` bytes.
    """

    log = Logger()
    missing: str | None = None  # the text that stands for a file that isn't there

    def __init__(self, reactor: Any, path: Path, refusal: type[Exception], most: int, advice: str) -> None:
        self.path = path
        self.refusal = refusal
        self.fault: str | None = None  # of the file as it is now
        self._most, self._advice = most, advice
        self._seen: Stamp | tuple[()] = ()  # not looked at yet
        self._lock = OneByOne()
        self._poll = LoopingCall(self.reread, "file")
        self._poll.clock = reactor

    # ------------------------------------------------------------------------------------- for subclasses

    def read(self, text: str | None) -> Config:
        """Return what a text means. Called in a thread; raises the refusal."""
        raise NotImplementedError

    def use(self, config: Config, text: str | None) -> None:
        """Put a config in force. Called in the reactor's thread; must not raise."""
        raise NotImplementedError

    async def keep(self, text: str | None, author: str) -> None:
        """Keep a copy of the text that is in force now, for `start`. A failure is logged, not raised."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------- for callers

    def start(self, kept: str | None = None) -> Deferred[None]:
        """Read the file for the first time, and watch it. If it has a fault, the copy `kept` is used. Never fails."""
        return self._lock.run(lambda: Deferred.fromCoroutine(self._start(kept)))

    def stop(self) -> None:
        """Watch the file no more."""
        if self._poll.running:
            self._poll.stop()

    def reread(self, author: str) -> Deferred[None]:
        """Put the file as it is now in force; the author "file" stands for a poll, which reads a changed one only.

        It never fails: a fault is kept in `fault`.
        """
        done = self._lock.run(lambda: Deferred.fromCoroutine(self._reread(author)))
        return done.addErrback(lambda failure: self.log.failure("reading {path}", failure, path=self.path))

    def text(self) -> Deferred[str | None]:
        """Return the file as it is; `missing` if there is none. Fails with the refusal if it can't be read."""
        return deferToThread(self._text)

    def rewrite(
        self, text: str | None, author: str, demand: Callable[[str | None], None] = lambda held: None,
        dry_run: bool = False,
    ) -> Deferred[Config]:  # fmt: skip
        """Replace the file in one step, or delete it (None), and put it in force; fires with the config.

        `demand` is called with the text that is replaced, and may raise. A dry run goes as far as the file. Fails with
        what `demand` raises, and with the refusal if the text can't be used; the file is left alone then.
        """
        return self._lock.run(lambda: Deferred.fromCoroutine(self._rewrite(text, author, demand, dry_run)))

    # ------------------------------------------------------------------------------------- one at a time

    def _text(self) -> str | None:
        text = read_text(self.path, self._most, self.refusal, self._advice)
        return self.missing if text is None else text

    async def _start(self, kept: str | None) -> None:
        await self._reread("start")
        if self.fault is not None and kept is not None:
            self.log.warn("the last {name} without a fault stays in force", name=self.path.name)
            self.use(await deferToThread(self.read, kept), kept)
        self._poll.start(POLL_SECONDS, now=False).addErrback(
            lambda failure: self.log.failure("the poll of {path}", failure, path=self.path)
        )

    async def _reread(self, author: str) -> None:
        stamp = await deferToThread(stamp_of, self.path)
        if stamp == self._seen and author == "file":
            return
        self._seen = stamp
        try:
            text = await self.text()
            config = await deferToThread(self.read, text)
        except self.refusal as error:
            self.fault = str(error)
            self.log.error("{path} is not used, what was before it stays: {fault}", path=self.path, fault=error)
            return
        await self._take(config, text, author)

    async def _rewrite(
        self, text: str | None, author: str, demand: Callable[[str | None], None], dry_run: bool
    ) -> Config:
        demand(await self.text())
        self._check_bytes(text or "")
        config = await deferToThread(self.read, text)
        if dry_run:
            return config
        try:
            await deferToThread(_put, self.path, text)
        except OSError as error:
            raise self.refusal(f"{self.path} can't be written: {error.strerror}") from error
        self._seen = await deferToThread(stamp_of, self.path)
        await self._take(config, text, author)
        return config

    def _check_bytes(self, text: str) -> None:
        try:
            size = len(text.encode())
        except UnicodeEncodeError as error:
            raise self.refusal(f"{self.path.name} holds what is no text: {error.reason}") from error
        if size > self._most:
            raise self.refusal(f"{self.path.name} has more than {self._most} bytes: {self._advice}")

    async def _take(self, config: Config, text: str | None, author: str) -> None:
        self.fault = None
        self.use(config, text)
        await self.keep(text, author)


def stamp_of(path: Path) -> Stamp:
    """Return what tells that a file has changed, without reading it; None where there is none. Blocks."""
    try:
        about = os.stat(path)
    except OSError:
        return None
    return about.st_ino, about.st_size, about.st_mtime_ns


def read_text(path: Path, most: int, refusal: type[Exception], advice: str) -> str | None:
    """Return the text of a file, None where there is none. Blocks.

    Raises `refusal` if it can't be read, is not UTF-8, or has more than `most` bytes; `advice` is for the last.
    """
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


def _put(path: Path, text: str | None) -> None:
    if text is not None:
        write_durably(path, text.encode())
        return
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
        sync_folder(path.parent)
