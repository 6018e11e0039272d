"""Gives strips the twelve hours before Helen's start, from the transitions of the journal, the newest hour first.

It is done beside all else that a start has to do: a page of transitions at a time, each read in a thread, with pauses.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from attrs import evolve
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread

from helen.evaluation.event_log import Line
from helen.queries.past_changes import Page, Question
from helen.states.events import Transition
from helen.states.model import Condition
from helen.web.connections.short_turns import ROWS_A_STEP, take_turns
from helen.web.problems import Problem
from helen.web.rows.row import Key
from helen.web.rows.row_feed import RowFeed
from helen.web.rows.strips import NOTHING, QUARTER, QUARTERS

SPAN, HOUR = QUARTERS * QUARTER, 3_600.0  # seconds
LINES = 1_000  # of a page
MOST_PAGES = 60  # of one start: 60,000 transitions, or some 20,000 segments
PAUSE_SECONDS = 0.2  # between two pages
LATER_SECONDS, MOST_TRIES = 1.0, 120  # until rows and segments are there
KINDS = (Transition.KIND,)
Past = dict[Key, list[tuple[float, int]]]  # since when a check has had which status, in order of time


class RecalledStrips:
    """Reads the changes before the start that the strips of a feed lack. `ask` returns a page of past changes."""

    def __init__(self, reactor: Any, feed: RowFeed, ask: Callable[[Question], Awaitable[Page]]) -> None:
        self._reactor, self._feed, self._strips, self._ask = reactor, feed, feed.strips, ask
        self._limit = feed.strips.since - SPAN
        self._pages_left = MOST_PAGES

    async def read(self) -> None:
        """Read hour by hour, until twelve are there, or the journal begins, or MOST_PAGES are read. Raises Problem."""
        await self._wait_for_rows()
        while self._strips.since > self._limit:
            begin = max(self._limit, self._strips.since - HOUR)
            past: Past = {}
            known_from = await self._read_into(past, Question(begin, self._strips.since, LINES, is_wanted, KINDS))
            if known_from is None:
                return
            await take_turns(self._recall(past))
            self._strips.since = max(begin, min(known_from, self._strips.since))
            if self._strips.since > begin:
                return

    async def _wait_for_rows(self) -> None:
        for _ in range(MOST_TRIES):
            if self._feed.has_looked:
                return
            await deferLater(self._reactor, LATER_SECONDS)

    async def _read_into(self, past: Past, question: Question) -> float | None:
        """Add the changes of an hour; return since when the journal knows all. None: they are too many, or it is empty.

        Raises Problem.
        """
        while self._pages_left > 0:
            self._pages_left -= 1
            page = await self._page(question)
            for key, changes in (await deferToThread(statuses_of, page.lines)).items():
                past.setdefault(key, []).extend(changes)
            if page.next is None:
                return page.known_from
            question = evolve(question, after=page.next)
            await deferLater(self._reactor, PAUSE_SECONDS)
        return None

    async def _page(self, question: Question) -> Page:
        """Return a page, once segments have what memory has not, and others leave room. Raises Problem in the end."""
        for _ in range(MOST_TRIES - 1):
            try:
                return await self._ask(question)
            except Problem as problem:
                if problem.status != HTTPStatus.SERVICE_UNAVAILABLE:
                    raise
                await deferLater(self._reactor, LATER_SECONDS)
        return await self._ask(question)

    def _recall(self, past: Mapping[Key, Sequence[tuple[float, int]]]) -> Iterator[None]:
        for number, (key, changes) in enumerate(past.items()):
            self._strips.recall(key, changes)
            if number % ROWS_A_STEP == 0:
                yield


def is_wanted(line: Line) -> bool:
    """Return True if a change is a transition of a check."""
    return line.kind in KINDS and line.agent is not None and line.check_id is not None


def statuses_of(lines: Iterable[Line]) -> Past:
    """Return the statuses that transitions tell of, with the one before the first of each check. For a thread."""
    found: Past = {}
    for line in lines:
        if line.agent is None or line.check_id is None:
            continue
        document = json.loads(line.data)["document"]
        changes = found.setdefault((line.agent, line.check_id), [])
        if not changes:
            changes.append(_status(document["was"]))
        changes.append(_status(document["now"]))
    return found


def _status(document: Mapping[str, Any]) -> tuple[float, int]:
    condition = Condition.from_json(dict(document))
    return condition.since, condition.status if condition.known else NOTHING
