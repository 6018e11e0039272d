"""Writes the outcomes of a query to its file, in a thread, and tells those that follow the file of each write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from helen.queries import answer_file
from helen.queries.job_outcomes import Outcome

WRITE_SECONDS = 0.2  # between two writes to the file of a query


class AnswerWriter:
    """Gathers outcomes, and appends them to `path` with one write at a time."""

    log = Logger()

    def __init__(self, reactor: Any, path: Path) -> None:
        self._reactor = reactor
        self._path = path
        self._timer: Any = None
        self._unwritten: list[Outcome] = []
        self._writing: Deferred[None] | None = None
        self._news: list[Deferred[None]] = []

    def add(self, outcome: Outcome) -> None:
        """Have an outcome written within WRITE_SECONDS."""
        self._unwritten.append(outcome)
        if self._timer is None or not self._timer.active():
            self._timer = self._reactor.callLater(WRITE_SECONDS, self._begin)

    def news(self) -> Deferred[None]:
        """Return a Deferred that fires when there are new outcomes in the file, and at the end."""
        waiting: Deferred[None] = Deferred()
        self._news = [each for each in self._news if not each.called] + [waiting]
        return waiting

    async def close(self) -> None:
        """Write what is left, and tell followers that no more will come."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        await self._write()
        self._spread()

    def _begin(self) -> None:
        Deferred.fromCoroutine(self._write())

    async def _write(self) -> None:
        """Write new outcomes, one write at a time. A failing disk is told in the log, and the query goes on."""
        while self._unwritten:
            if self._writing is not None:
                waiting: Deferred[None] = Deferred()
                self._writing.chainDeferred(waiting)
                await waiting
                continue
            outcomes, self._unwritten = self._unwritten, []
            self._writing = Deferred()
            try:
                await deferToThread(answer_file.append, self._path, outcomes)
            except OSError as error:
                self.log.error("answers are not kept in {path}: {error}", path=self._path, error=error.strerror)
            finally:
                written, self._writing = self._writing, None
                written.callback(None)
                self._spread()

    def _spread(self) -> None:
        news, self._news = self._news, []
        for waiting in news:
            waiting.callback(None)
