"""Tests that whole requests take turns, from the beginning to the answer, with rows counted in each turn.

No clock is looked at. A row counts once in a turn, however often it is asked for something; a walk over all of them at
once, wherever it is made, is a turn with as many rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from acting import Play
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock, Cooperator
from twisted.python.failure import Failure
from twisted.web.test.requesthelper import DummyChannel

from helen.agents.roster import Agent
from helen.agents.sight import Sight
from helen.states.model import Rule
from helen.web.access import OWNER
from helen.web.connections import short_turns
from helen.web.connections.short_turns import ROWS_A_STEP
from helen.web.pages.board import FIRST_ROWS, board
from helen.web.request import ApiRequest
from helen.web.routes.rows import list_rows
from helen.web.rows import row_feed
from helen.web.rows.row import Row
from helen.web.rows.row_feed import ROWS_A_FRAME, SLICE_KEYS, RowFeed
from helen.web.rows.selection import Wanted
from helen.web.streaming.event_filter import EventFilter
from helen.web.streaming.stream_views import RowView
from helen.web.streaming.streams import Streams

AGENTS, CHECKS = 40, 50
MOST = FIRST_ROWS + 2 * ROWS_A_STEP  # rows of one turn: those of the first sight of a page, and a step before and after


class TurnClock(Clock):
    """Run each delayed call in a turn of its own."""

    def callLater(self, delay: float, what: Callable[..., object], *args: object, **kwargs: object) -> Any:
        return super().callLater(max(delay, 1.0), what, *args, **kwargs)


class Site:
    """Hold a feed of 2,000 rows, and those that were looked at in this turn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock, self.touched = TurnClock(), set[int]()
        touched = self.touched

        class Counted(Row):
            __slots__ = ()

            def __getattribute__(self, name: str) -> Any:
                if name != "look":  # alone, it is how a frame finds its first row: 5,000 take a millisecond
                    touched.add(id(self))
                return super().__getattribute__(name)

        monkeypatch.setattr(row_feed, "Row", Counted)
        made = Cooperator(lambda: lambda: True, lambda step: self.clock.callLater(1.0, step))  # a step is a turn
        monkeypatch.setattr(short_turns, "_cooperator", made)
        played = Play({f"a{agent}/c{check}": Rule(attempts=1) for agent in range(AGENTS) for check in range(CHECKS)})
        for agent in range(AGENTS):
            for check in range(CHECKS):
                played.act(10.0, f"a{agent}/c{check} {'ok' if check else 'critical'}")
        self.agents = {f"a{agent}": Agent(f"a{agent}", labels={"role": "db"}) for agent in range(AGENTS)}
        self.feed = RowFeed(
            Clock(), lambda: played.timeline, lambda: 1, lambda: 1, self.agents, lambda: float(self.clock.seconds())
        )  # fmt: skip
        monkeypatch.setattr(row_feed, "SLICE_SECONDS", 0.0)
        while played.timeline.changed:
            self.feed.take_changes()

    def parts(self, sight: Sight | None) -> Any:
        """Return the parts that a request for rows needs, for a caller with this sight."""
        return SimpleNamespace(
            row_feed=self.feed, visible=lambda caller: sight, version="1",
            events=SimpleNamespace(id_of=lambda at: f"e.{at}"),
            sessions=SimpleNamespace(roster=SimpleNamespace(agents=self.agents)),
        )  # fmt: skip

    def follow(self, begin: Callable[[], Deferred[Any]]) -> tuple[Any, list[int]]:
        """Return the answer, and the number of rows that each turn looked at."""
        sizes, done, self_touched = list[int](), list[Any](), self.touched
        self_touched.clear()
        begin().addBoth(done.append)
        while not done:
            sizes.append(len(self_touched))
            self_touched.clear()
            assert len(sizes) < 10_000
            self.clock.advance(1.0)
        if isinstance(done[0], Failure):
            done[0].raiseException()
        return done[0], [*sizes, len(self_touched)]


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(monkeypatch)


def asked(path: str, query: dict[str, str], written: list[bytes]) -> ApiRequest:
    request = ApiRequest(DummyChannel(), False)
    request.method, request.uri, request.path, request.clientproto = b"GET", path.encode(), path.encode(), b"HTTP/1.1"
    request.args = {name.encode(): [value.encode()] for name, value in query.items()}
    request.caller = OWNER
    request.write = written.append
    return request


LIMITS: list[tuple[str, ...] | None] = [None, ("role=db",), ("a1*",)]
QUERIES = [
    {},
    {"all": "1", "sort": "heard"},
    {"all": "1", "filter": "c4", "group": "agent", "sort": "since"},
]


@pytest.mark.parametrize("limit", LIMITS, ids=str)
@pytest.mark.parametrize("query", QUERIES, ids=lambda query: "-".join(query) or "problems")
def test_rows_take_turns(site: Site, limit: tuple[str, ...] | None, query: dict[str, str]) -> None:
    """A request for rows takes turns, also the first one of a limited caller or of a new order."""
    sight, written = None if limit is None else Sight(limit, site.agents), list[bytes]()
    request = asked("/api/v1/rows", query | {"strips": "1"}, written)
    _, sizes = site.follow(lambda: Deferred.fromCoroutine(list_rows(site.parts(sight), request)))
    told = json.loads(b"".join(written))
    seen = {"None": AGENTS, "('role=db',)": AGENTS, "('a1*',)": 11}[str(limit)]
    each = 11 if "filter" in query else CHECKS + 1 if query else 1  # c4 and c40 to c49; the link has a state, too
    assert len(told["rows"]) == seen * each
    assert max(sizes) <= MOST, sizes


@pytest.mark.parametrize("limit", LIMITS, ids=str)
@pytest.mark.parametrize("query", QUERIES, ids=lambda query: "-".join(query) or "problems")
def test_a_page_takes_turns(site: Site, limit: tuple[str, ...] | None, query: dict[str, str]) -> None:
    """The page of rows takes turns, with the counts in its head."""
    sight, written = None if limit is None else Sight(limit, site.agents), list[bytes]()
    wanted = {"q" if name == "filter" else name: value for name, value in query.items()}
    rest, sizes = site.follow(
        lambda: Deferred.fromCoroutine(board(site.parts(sight), asked("/", wanted, written)))
    )  # fmt: skip
    answer = b"".join(written) + rest
    is_some = limit == ("a1*",)
    assert answer.count(b'<tr data-agent="a') == (11 if is_some and not query else FIRST_ROWS)
    assert not is_some or b'<tr data-agent="a0"' not in answer
    assert (b'data-count="critical">%d<' % (AGENTS if limit != ("a1*",) else 11)) in answer
    assert max(sizes) <= MOST, sizes
    assert len(sizes) >= (AGENTS * CHECKS / ROWS_A_STEP if limit is not None or "all" in query else 1)


class Reader:
    """Play a client of a stream, and keep what it got."""

    def __init__(self) -> None:
        self.got = b""
        self.registerProducer = self.unregisterProducer = lambda *_: None

    def write(self, data: bytes) -> None:
        self.got += data

    def notifyFinish(self) -> Deferred[None]:
        return Deferred()


def changed(got: bytes) -> Iterator[dict[str, Any]]:
    for frame in got.split(b"\n\n"):
        if b"event: rows" in frame:
            yield json.loads(frame.partition(b"data: ")[2])


@pytest.mark.parametrize("limit", LIMITS, ids=str)
def test_a_stream_takes_turns(site: Site, limit: tuple[str, ...] | None) -> None:
    """A stream tells a client far behind, and others with other rows, some rows of one client in each turn."""
    sight = None if limit is None else Sight(limit, site.agents)
    log = SimpleNamespace(listeners=[], newest=0, floor=0, after=lambda *_: [], id_of=lambda at: f"e.{at}", watched={})
    streams = Streams(site.clock, cast(Any, log), lambda: None, site.feed)
    readers = [Reader() for _ in range(3)]
    for number, reader in enumerate(readers):
        view = RowView(Wanted(all=True, text=f"c{number}" if number else "", sight=sight))
        site.touched.clear()
        streams.open(cast(Any, reader), EventFilter(frozenset(("none",))), None, OWNER, view,
                     rows_since=site.feed.name_of(0))  # fmt: skip
        assert len(site.touched) <= ROWS_A_FRAME + SLICE_KEYS
    sizes = list[int]()
    for _ in range(300):
        site.touched.clear()
        site.clock.advance(1.0)
        sizes.append(len(site.touched))
    streams.stop()
    told = {(row[0], row[1]) for frame in changed(readers[0].got) for row in frame["rows"]}
    assert len(told) == (AGENTS if limit != ("a1*",) else 11) * (CHECKS + 1)
    # Streams that are woken by themselves may share a turn; each tells as many rows as a frame holds
    assert max(sizes) <= len(readers) * (ROWS_A_FRAME + SLICE_KEYS), sizes
