"""Writes commands of operators into the journal, and answers when they are durable and evaluated, not before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from twisted.internet.defer import Deferred, FirstError, gatherResults
from twisted.internet.task import cooperate
from twisted.python.failure import Failure

from helen.journal.journal import Journal
from helen.journal.values import StoredChange, StoredResult
from helen.states.model import Key

DURABLE_SECONDS = 5.0  # that the disk may take; a full one takes as long as it is full
MANY_A_TURN = 100  # changes of one command, some 20 us each
EVALUATED_SECONDS = 2.0  # that the evaluator may take to come to it: thousands of results may be before it


class NotDurable(Exception):
    """Says that the disk did not take a change in time. It is not given up: it takes effect when the disk does."""


class Commands:
    """Takes commands of people. `when_evaluated(at)`: a Deferred that fires once record `at` is evaluated."""

    def __init__(self, reactor: Any, journal: Journal, when_evaluated: Callable[[int], Deferred[None]]) -> None:
        self._reactor = reactor
        self._journal = journal
        self._when_evaluated = when_evaluated
        self._waiting: dict[int, Deferred[int]] = {}  # by the identity of the change, which the journal keeps

    async def write(
        self, kind: str, document: Mapping[str, Any], agent: str | None = None, check_id: str | None = None
    ) -> int:
        """Write a change; return the number of its record once it is evaluated, or after EVALUATED_SECONDS.

        Raises NotDurable if the disk does not take it in time, and JournalError if the journal is closed.
        """
        change = self._journal.change(kind, document, agent, check_id)
        durable = self._waiting[id(change)] = Deferred()
        durable.addTimeout(DURABLE_SECONDS, self._reactor, self._too_late)
        try:
            at = await durable
        finally:
            self._waiting.pop(id(change), None)
        await self._when_evaluated(at).addTimeout(EVALUATED_SECONDS, self._reactor, lambda *_: None)
        return at

    async def write_many(self, kind: str, documents: Iterable[tuple[Key, Mapping[str, Any]]]) -> None:
        """Write a change of each check, some of them a turn; return once all are durable and evaluated.

        Raises NotDurable if the disk does not take one in time: those before it and after it may take effect later.
        """
        written: list[Deferred[int]] = []

        def turns() -> Iterator[None]:
            for number, ((agent, check_id), document) in enumerate(documents):
                written.append(Deferred.fromCoroutine(self.write(kind, document, agent, check_id)))
                if number % MANY_A_TURN == MANY_A_TURN - 1:
                    yield

        await cooperate(turns()).whenDone()
        await gatherResults(written, consumeErrors=True).addErrback(_first_of_many)

    def durable(self, records: Iterable[StoredResult | StoredChange]) -> None:
        """Go on with the commands among these records: they are on disk now."""
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


def _first_of_many(failure: Failure) -> Failure:
    """Return the failure of the first of many writes as it was raised."""
    return failure.value.subFailure if isinstance(failure.value, FirstError) else failure
