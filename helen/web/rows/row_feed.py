"""Keeps the rows of all checks for boards, and by which look each was found to have changed.

Looks are counted, since one record may change rows of several looks: a board that follows gets what the looks after its
own have found. One that comes back with an event's id gets each row that has changed since once, as it is now, and the
names of those that are gone. All that a row shows counts as a change: status, holds, acknowledgement, trial; a summary
alone only where a check is not ok, and once in SUMMARY_SECONDS at most.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice, takewhile
from typing import Any, TypeVar

from attrs import frozen

from equus_protocol.results import STATUS_WORDS
from groundwork.event import Event
from helen.agents.roster import Agent, Latest
from helen.agents.sight import Sight
from helen.states.fleet_timeline import Timeline
from helen.states.model import ROLLOUT, SUMMARY_MOST, Rule, State
from helen.web.rows.orders import Order, Orders
from helen.web.rows.row import TEXT_OF_REASON, Key, Row, marks_of
from helen.web.rows.strips import Strips
from helen.web.rows.tallies import Tallies

T = TypeVar("T")
TICK_SECONDS = 0.25  # between two looks for changes: four frames a second at most
SLICE_SECONDS = 0.001  # of the reactor's time for a look, half of it while an agent floods
SLICE_KEYS = 10  # rows between two looks at the clock
SUMMARY_SECONDS = 10.0  # between two changes of a row that only its summary makes
GONE_SECONDS = 600.0  # for which the name of a row that is gone is kept
MOST_GONE = 20_000
ROWS_A_FRAME = 200  # that are told at once, of a look or several; a look finds some 150
MOST_BEHIND = 5_000  # changes that are told one by one; after more it is cheaper to read all rows anew
MOST_LOOKS = 4 * 600  # that found something, of which the newest record is kept: ten minutes of them


@frozen
class Change:
    """Holds the changes that looks have found: present rows, those that are gone or were relabelled, the last look."""

    rows: tuple[Row, ...]
    past: tuple[Row, ...]  # as they were before they went, or their agents got other labels
    here: frozenset[Key]  # those of them that are there still
    look: int

    @property
    def gone(self) -> tuple[Key, ...]:
        """Return the names of rows that are here no more."""
        return tuple(dict.fromkeys(self.gone_from(None)))

    def gone_from(self, sight: Sight | None) -> list[Key]:
        """Return the names of rows that a caller has seen, and that are gone for it: from here, or out of sight."""
        if sight is None:
            return [row.key for row in self.past if row.key not in self.here]
        was_seen = [row for row in self.past if sight.fits(row.agent, row.labels)]
        return [row.key for row in was_seen if row.key not in self.here or not sight(row.agent)]


class RowFeed:
    """Keeps the rows. `changed` is called after each look that found a change.

    `timeline()` and `place()` return the states and the number of the record that they are of; `newest()` returns that
    of the newest record that streams tell of; `agents` are those of the roster by name; `steady` returns monotonic
    seconds; `started` is when Helen did, unix seconds; `slice_seconds` says how long anybody may work in a turn.
    """

    def __init__(
        self,
        reactor: Any,
        timeline: Callable[[], Timeline],
        place: Callable[[], int],
        newest: Callable[[], int],
        agents: Mapping[str, Agent],
        steady: Callable[[], float],
        started: float = 0.0,
        slice_seconds: Callable[[], float] = lambda: SLICE_SECONDS,
    ) -> None:
        self.changed: Event[[]] = Event()
        self.rows: dict[Key, Row] = {}  # by their last change, the newest at the end
        self.counts = dict.fromkeys(STATUS_WORDS, 0)
        self.strips = Strips(started)
        self.has_looked = False  # at all checks, once
        self.orders = Orders()
        self._tallies = Tallies()
        self.at = 0  # of the last change
        self.look = 0  # that found it
        self._run = secrets.token_hex(4)  # of this process: looks of another one are none of ours
        self._reactor = reactor
        self._timeline, self._place, self._newest, self._agents = timeline, place, newest, agents
        self._steady, self._slice_seconds = steady, slice_seconds
        self._gone: deque[tuple[int, float, Row]] = deque()  # rows that are gone, or as they were with other labels
        self._forgotten = 0  # the look up to which rows may be gone of which nothing is known any more
        self._looks: deque[tuple[int, int]] = deque()  # the newest record at the end of each look that found something
        self._forgotten_record = -1  # the newest record of a look that is none of them any more
        self._seen: Timeline | None = None
        self._call: Any = None

    # ---------------------------------------------------------------------------------------------- looking

    def start(self) -> None:
        """Begin to look for changes, four times a second."""
        self.take_changes()

    def stop(self) -> None:
        """Look no more."""
        if self._call is not None and self._call.active():
            self._call.cancel()
        self._call = None

    def take_changes(self) -> None:
        """Look at the changed checks, as far as a slice of time allows, and plan the next look."""
        timeline = self._timeline()
        if timeline is not self._seen:
            self._seen = timeline
            timeline.changed.update(timeline.states)
            timeline.changed.update(self.rows)
        before, until = self.look, self._steady() + min(SLICE_SECONDS, self._slice_seconds())
        is_done = self._take(timeline, until)
        self._forget_gone()
        self.orders.drop_unused(self._steady())
        self._tallies.drop_unused(self._steady())
        if self.look != before:
            self._looks.append((self._newest(), self.look))
            self.changed()
        self._call = self._reactor.callLater(TICK_SECONDS if is_done else 0, self.take_changes)

    def _take(self, timeline: Timeline, until: float) -> bool:
        """Take changed keys until none is left, or the slice is over; return True if none is left."""
        number, at, look = 0, self._place(), self.look + 1
        while timeline.changed:
            key = timeline.changed.pop()
            if self._renew(key, timeline.states.get(key), timeline.rule(key), at, look):
                self.at, self.look = at, look
            number += 1
            if number % SLICE_KEYS == 0 and self._steady() >= until:
                return False
        self.has_looked = True
        return True

    def _renew(self, key: Key, state: State | None, rule: Rule, at: int, look: int) -> bool:
        """Put a row in its new place, or drop it; return True if it has changed."""
        held = self.rows.get(key)
        if state is None:
            if held is not None:
                self._drop(key, held, look)
            return held is not None
        row = self._row_of(key, state, rule, at, look)
        if held is not None and _same(held, row) and not self._is_news(held, row):
            return False
        self.rows.pop(key, None)
        self.rows[key] = row
        self.orders.renew(held, row)
        self._tallies.renew(key, row)
        if held is not None and held.labels != row.labels:
            self._gone.append((look, self._steady(), held))
        if held is None or held.status != row.status:
            if held is not None:
                self.counts[held.status] -= 1
            self.counts[row.status] += 1
            self.strips.note(key, state.shown.status, state.shown.since, state.shown.known)
        return True

    def _drop(self, key: Key, held: Row, look: int) -> None:
        del self.rows[key]
        self.orders.renew(held, None)
        self._tallies.renew(key, None)
        self.counts[held.status] -= 1
        self.strips.forget(key)
        self._gone.append((look, self._steady(), held))

    def counts_in(self, sight: Sight | None) -> dict[str, int] | None:
        """Return how many rows have each status, of agents that are seen; None until `count` has counted them once."""
        return self.counts if sight is None else self._tallies.counts(sight, self.rows, self._steady())

    def count(self, sight: Sight | None) -> Iterator[None]:
        """Count the rows of agents that are seen, some a step; from then on their counts are kept."""
        while self.counts_in(sight) is None:
            self._tallies.build_on()
            yield

    @staticmethod
    def _is_news(held: Row, row: Row) -> bool:
        """Return True if the summary of a row that is not ok has changed, and it is time to say so."""
        if row.status == "ok" or (held.summary == row.summary and held.heard == row.heard):
            return False
        return (row.heard or 0.0) - (held.heard or 0.0) >= SUMMARY_SECONDS or held.heard is None

    def _forget_gone(self) -> None:
        limit = self._steady() - GONE_SECONDS
        while self._gone and (self._gone[0][1] < limit or len(self._gone) > MOST_GONE):
            self._forgotten = self._gone.popleft()[0]
        while len(self._looks) > MOST_LOOKS:
            self._forgotten_record = self._looks.popleft()[0]

    # ---------------------------------------------------------------------------------------------- rows

    def order(self, sort: str, is_narrow: bool) -> Order:
        """Return all rows in an order, or those that are not well; it may have to be built first."""
        return self.orders.of(sort, is_narrow, self._steady())

    def _row_of(self, key: Key, state: State, rule: Rule, at: int, look: int) -> Row:
        agent, check = key
        known = self._agents.get(agent)
        latest = known.latest.get(check) if known is not None else None
        shown = state.shown
        attempts = rule.recover if shown.status == 0 else rule.attempts
        return Row(
            agent, check, STATUS_WORDS[shown.status], shown.since, None if latest is None else latest.received,
            _summary(latest, shown.reason), shown.reason, f"{shown.attempt}/{attempts}" if shown.attempt else "",
            _marks(state), known.labels if known is not None else {}, at=at, look=look,
        )  # fmt: skip

    def now(self, row: Row) -> Row:
        """Return a row as its check is at this moment: of one that is ok, summary and time follow no change."""
        timeline, key = self._timeline(), row.key
        if key in timeline.changed:  # which the next look takes
            state = timeline.states.get(key)
            return row if state is None else self._row_of(key, state, timeline.rule(key), row.at, row.look)
        known = self._agents.get(row.agent)
        latest = known.latest.get(row.check) if known is not None else None
        if latest is None or latest.received == row.heard:
            return row
        return Row(
            row.agent, row.check, row.status, row.since, latest.received, _summary(latest, row.reason), row.reason,
            row.soft, row.marks, row.labels, at=row.at, look=row.look,
        )  # fmt: skip

    def since(self, look: int) -> Change | None:
        """Return the changes that the looks after one have found, of ROWS_A_FRAME rows or a look more at most. The rest
        is since the last of them.

        None: it is too long ago to know what is gone since then, or more than MOST_BEHIND have changed.
        """
        rows = list(_after(look, ((row.look, row) for row in reversed(self.rows.values()))))
        past = list(_after(look, ((each[0], each) for each in reversed(self._gone))))
        if look < self._forgotten or len(rows) + len(past) > MOST_BEHIND:
            return None
        until = self.look
        if len(rows) + len(past) > ROWS_A_FRAME:
            until = sorted([row.look for row in rows] + [found for found, _, _ in past])[ROWS_A_FRAME - 1]
        told = tuple(row for row in reversed(rows) if row.look <= until)
        were = tuple(row for found, _, row in reversed(past) if found <= until)
        return Change(told, were, frozenset(row.key for row in were if row.key in self.rows), until)

    def name_of(self, look: int) -> str:
        """Return the name of a look, by which a client says what it has."""
        return f"{self._run}.{look}"

    def look_of(self, name: str) -> int | None:
        """Return the look of a name; None if it is none of this process."""
        run, _, number = name.partition(".")
        is_ours = run == self._run and number.isascii() and number.isdigit() and len(number) < 16
        return int(number) if is_ours and int(number) <= self.look else None

    def look_before(self, place: int) -> int:
        """Return a look of which a stream that has told the id of a record has surely sent all rows.

        It is the one before the last that ended before that record was told: its own rows may have been cut off behind
        an event. -1 if that is too long ago to know.
        """
        if place <= self._forgotten_record:
            return -1
        ended = [look for newest, look in self._looks if newest < place]
        return max(0, ended[-1] - 1) if ended else 0


def _after(look: int, found: Iterable[tuple[int, T]]) -> Iterator[T]:
    """Yield the rows that looks after one have found, of those that come with the newest first; one more than
    MOST_BEHIND at most."""
    return (each for _, each in islice(takewhile(lambda pair: pair[0] > look, found), MOST_BEHIND + 1))


def _summary(latest: Latest | None, reason: str | None) -> str:
    """Return the text of a row: the latest result's, behind the reason if there is none that counts."""
    said, text = latest.summary if latest is not None else "", TEXT_OF_REASON.get(reason or "")
    if text is not None:
        said = f"{text}; before: {said}" if said else text
    return said[:SUMMARY_MOST]


def _marks(state: State) -> str:
    holds: Iterable[dict[str, str]] = [{"kind": hold.kind} for hold in state.holds]
    if state.trial is not None:
        holds = [*holds, {"kind": ROLLOUT}]
    return marks_of({"acknowledged": state.ack is not None, "held_by": holds, "flapping": state.flap.on})


def _same(held: Row, row: Row) -> bool:
    """Return True if two rows show the same but for summary and time of the latest result."""
    return (
        held.status == row.status and held.since == row.since and held.reason == row.reason
        and held.soft == row.soft and held.marks == row.marks and held.labels == row.labels
    )  # fmt: skip
