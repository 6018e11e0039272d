"""Commands become changes of the journal: whoever gave one is answered when it is durable and judged, not before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from helen.journal.journal import Journal
from helen.journal.values import StoredChange, StoredResult

DURABLE_SECONDS = 5.0  # that the disk may take; a full one takes as long as it is full
JUDGED_SECONDS = 2.0  # that the judge may take to come to it: thousands of results may lie before it
LOOK_SECONDS = 0.005  # between two looks at how far the judge is


class NotDurable(Exception):
    """The disk did not take a change in time. It is not given up: it takes effect when the disk does."""


class Changes:
    """`judged()`: the number of the last record that is judged."""

    def __init__(self, reactor: Any, journal: Journal, judged: Callable[[], int]) -> None:
        self._reactor = reactor
        self._journal = journal
        self._judged = judged
        self._waiting: dict[int, Deferred[int]] = {}  # by the identity of the change, which the journal keeps

    async def write(
        self, kind: str, document: Mapping[str, Any], agent: str | None = None, check_id: str | None = None
    ) -> int:
        """The number of the record. Raises NotDurable, and JournalError if the journal is closed."""
        change = self._journal.change(kind, document, agent, check_id)
        durable = self._waiting[id(change)] = Deferred()
        durable.addTimeout(DURABLE_SECONDS, self._reactor, self._too_late)
        try:
            at = await durable
        finally:
            self._waiting.pop(id(change), None)
        until = self._reactor.seconds() + JUDGED_SECONDS
        while self._judged() < at and self._reactor.seconds() < until:
            await deferLater(self._reactor, LOOK_SECONDS)
        return at

    def durable(self, records: Iterable[StoredResult | StoredChange]) -> None:
        """What is on disk."""
        if not self._waiting:
            return
        for record in records:
            if isinstance(record, StoredChange):
                waiting = self._waiting.pop(id(record.change), None)
                if waiting is not None:
                    waiting.callback(record.at)

    def _too_late(self, *_: Any) -> None:
        raise NotDurable(
            f"the disk has not taken it within {DURABLE_SECONDS:g} s: `helen status` says why. It takes effect when the"
            " disk does"
        )
