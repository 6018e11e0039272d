"""Tests long answers: as fast as they are read and no faster, and ended by a client that hangs up."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from gzip import decompress as gunzip
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock, Cooperator
from twisted.python.failure import Failure

from helen.web.connections import paced_answers
from helen.web.connections.paced_answers import TAKE_SECONDS, Write, write_pieces, write_rows
from helen.web.connections.short_turns import ROWS_A_STEP


class Reader:
    """Play a request whose client takes `room` bytes and then waits."""

    method = b"GET"

    def __init__(self, room: int = 10**9) -> None:
        self.got, self.room = b"", room
        self.producer: Any = None
        self.finished: list[Deferred[None]] = []
        self.clock = Clock()
        self.is_cut = False

    def later(self, seconds: float, call: Any) -> Any:
        return self.clock.callLater(seconds, call)

    def cut(self) -> None:
        self.is_cut = True
        for each in self.finished:
            each.errback(Failure(ConnectionError()))
        self.producer.stopProducing()

    def getHeader(self, name: bytes) -> bytes:
        return b"gzip"

    def setHeader(self, name: str, value: str) -> None:
        """Ignore a header."""

    def notifyFinish(self) -> Deferred[None]:
        self.finished.append(Deferred())
        return self.finished[-1]

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        self.producer = producer

    def unregisterProducer(self) -> None:
        self.producer = None

    def write(self, data: bytes) -> None:
        self.got += data
        if len(self.got) > self.room:
            self.producer.pauseProducing()


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Provide a clock that drives the reactor's cooperator."""
    clock = Clock()
    cooperator = Cooperator(scheduler=lambda call: clock.callLater(0.001, call), terminationPredicateFactory=lambda: (
        lambda: True
    ))  # fmt: skip
    monkeypatch.setattr(paced_answers, "cooperate", cooperator.cooperate)
    return clock


def test_one_that_takes_nothing_is_cut(turns: Clock) -> None:
    """A client that takes nothing for TAKE_SECONDS is cut off, and one that takes a little now and then is not (14)."""
    reader, told = Reader(room=1_000), []
    write_rows(reader, "rows", THINGS, lambda thing: {"n": thing}, {"next": None}).addBoth(told.append)
    pump(turns)
    for _ in range(3):
        reader.clock.advance(TAKE_SECONDS - 1.0)
        reader.room = len(reader.got) + 10
        reader.producer.resumeProducing()
        pump(turns)
    assert not reader.is_cut
    reader.clock.advance(TAKE_SECONDS - 1.0)
    assert not reader.is_cut
    reader.clock.advance(1.0)
    pump(turns)
    assert (reader.is_cut, len(told), reader.clock.getDelayedCalls()) == (True, 1, [])


THINGS = range(20 * ROWS_A_STEP)


def pump(clock: Clock) -> None:
    for _ in range(100):
        clock.advance(0.001)


def test_no_faster_than_it_is_read(turns: Clock) -> None:
    """A waiting reader gets at most a piece more than it took, and the rest as JSON when it goes on."""
    reader, told = Reader(room=1_000), []
    write_rows(reader, "rows", THINGS, lambda thing: {"n": thing}, {"next": None}).addBoth(told.append)
    pump(turns)
    assert 1_000 < len(reader.got) < 3_000
    assert told == []
    for _ in range(30):
        if reader.producer is not None:
            reader.room = len(reader.got) + 1_000
            reader.producer.resumeProducing()
            pump(turns)
    assert (told, reader.producer) == ([b""], None)
    assert json.loads(reader.got) == {"rows": [{"n": thing} for thing in THINGS], "next": None}


def test_an_answer_that_ends_while_its_reader_waits(turns: Clock) -> None:
    """An answer that ends while its reader waits leaves no timer that would cut a later request."""
    whole, reader, told = Reader(), Reader(), []
    write_rows(whole, "rows", range(3), lambda thing: {"n": thing})
    pump(turns)
    reader.room = len(whole.got) - 1
    write_rows(reader, "rows", range(3), lambda thing: {"n": thing}).addBoth(told.append)
    pump(turns)
    assert (reader.got, told, reader.producer) == (whole.got, [b""], None)
    assert (reader.clock.getDelayedCalls(), reader.is_cut) == ([], False)


def test_the_end_of_a_packed_answer_is_too_much(turns: Clock) -> None:
    """The end of a packed answer is written although its task cannot be paused any more, and no timer is left."""

    def pieces(write: Write, is_gone: Callable[[], bool]) -> Iterator[None]:
        write(b"rows")
        reader.room = len(reader.got)
        yield

    reader, told = Reader(), []
    write_pieces(reader, pieces, whole=False, may_pack=True).addBoth(told.append)
    pump(turns)
    assert (gunzip(reader.got), told, reader.producer) == (b"rows", [b""], None)
    assert reader.clock.getDelayedCalls() == []


def test_a_failure_lets_go_of_the_connection(turns: Clock) -> None:
    """A failure releases the connection while its reader waits, without a timer that would cut it later."""

    def pieces(write: Write, is_gone: Callable[[], bool]) -> Iterator[None]:
        write(b"rows")
        raise ValueError("a row is wrong")
        yield

    reader, told = Reader(room=1), []
    write_pieces(reader, pieces, whole=False).addErrback(lambda failure: told.append(failure.type))
    pump(turns)
    assert (told, reader.producer, reader.clock.getDelayedCalls()) == ([ValueError], None, [])


def test_whoever_hangs_up_ends_it(turns: Clock) -> None:
    """A client that hangs up ends its answer, also during a pause, and nothing more is made."""
    reader, told, shown = Reader(room=1_000), [], list[int]()
    write_rows(reader, "rows", THINGS, lambda thing: shown.append(thing) or thing).addBoth(told.append)
    pump(turns)
    before = len(shown)
    reader.finished[0].errback(Failure(ConnectionError("gone")))
    reader.producer.stopProducing()
    pump(turns)
    assert told == [b""]
    assert len(shown) == before
