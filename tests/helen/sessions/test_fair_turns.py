"""Tests turns: one flush for all that was said in one, and walks through a fleet in short steps."""

from functools import partial
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from helen.sessions.fair_turns import (
    CALM_STEP_SECONDS,
    REST,
    REST_MOST,
    SLICE_SECONDS,
    STALE_SECONDS,
    STEP_SECONDS,
    FairTurns,
    TurnsOver,
)
from helen.turn_rotation import LONG_SLICE, SHORT_SLICE


class Speaker:
    is_busy = False

    def __init__(self, log: list[str], name: str = "x") -> None:
        self.log, self.name = log, name

    def flush(self) -> None:
        self.log.append(f"flush {self.name}")

    def listen(self) -> None:
        self.log.append(f"listen {self.name}")


class OneTurn:
    """Is a reactor whose turns are taken one at a time; a Clock would take those that are asked for meanwhile, too."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def callLater(self, seconds: float, call: Any) -> object:
        assert seconds == 0
        self.calls.append(call)
        return call

    def turn(self) -> None:
        calls, self.calls = self.calls, []
        for call in calls:
            call()


def test_one_flush_however_much_was_said() -> None:
    """A speaker is flushed once in a turn, and everybody shares one turn of the reactor."""
    clock, log = Clock(), []
    turns = FairTurns(clock)
    a, b = Speaker(log, "a"), Speaker(log, "b")
    for speaker in (a, b, a, a):
        turns.soon(speaker)
    turns.later(a)
    turns.later(a)
    assert len(clock.getDelayedCalls()) == 1
    clock.advance(0)
    assert log == ["listen a", "flush a", "flush b"]
    assert clock.getDelayedCalls() == []


def test_who_has_gone_is_not_spoken_to() -> None:
    """A speaker that has gone is neither flushed nor listened to."""
    clock, log = Clock(), []
    turns = FairTurns(clock)
    a = Speaker(log)
    turns.soon(a)
    turns.later(a)
    turns.forget(a)
    clock.advance(0)
    assert log == []


def test_a_walk_takes_breaks() -> None:
    """A walk takes STEP_SECONDS at most in a turn, takes all things in order, and goes before the next walk."""
    reactor, seen = OneTurn(), []
    now = [0.0]

    def each(thing: int) -> None:
        seen.append(thing)
        now[0] += STEP_SECONDS / 2.5

    turns = FairTurns(reactor, lambda: now[0])
    turns.walk(range(5), each)
    turns.walk([9], each)
    reactor.turn()
    assert seen == [0, 1, 2]
    reactor.turn()
    reactor.turn()
    assert seen == [0, 1, 2, 3, 4, 9]
    assert reactor.calls == []


class Slow(Speaker):
    """Is a speaker that takes most of a turn, and asks for another."""

    def __init__(self, log: list[str], name: str, turns: FairTurns, now: list[float]) -> None:
        super().__init__(log, name)
        self.turns, self.now = turns, now

    def listen(self) -> None:
        super().listen()
        self.now[0] += STEP_SECONDS * 0.6
        self.turns.later(self)


def test_listening_ends_in_time_and_goes_round() -> None:
    """Two of five that never end are heard in a turn, in their order, and words to others leave in each turn (F73)."""
    reactor, log, now = OneTurn(), [], [0.0]
    turns = FairTurns(reactor, lambda: now[0])
    for name in "abcde":
        turns.later(Slow(log, name, turns, now))
    for _ in range(5):
        turns.soon(Speaker(log, "x"))
        reactor.turn()
    assert [each for each in log if each != "flush x"] == [f"listen {name}" for name in "abcdeabcde"]
    assert log[2::3] == ["flush x"] * 5


class Call:
    """Is a delayed call of `Paced`."""

    def __init__(self, at: float, call: Any) -> None:
        self.at, self.call, self.is_cancelled = at, call, False

    def cancel(self) -> None:
        self.is_cancelled = True

    def active(self) -> bool:
        return not self.is_cancelled


class Paced:
    """Is a reactor that makes the calls of one moment at a time, and says when that is."""

    def __init__(self, now: list[float]) -> None:
        self.now = now
        self.calls: list[Call] = []

    def callLater(self, seconds: float, call: Any, *given: Any) -> Call:
        self.calls.append(Call(self.now[0] + seconds, partial(call, *given)))
        return self.calls[-1]

    def turn(self) -> float:
        self.calls = [each for each in self.calls if not each.is_cancelled]
        self.now[0] = max(self.now[0], min(each.at for each in self.calls))
        due = [each for each in self.calls if each.at <= self.now[0]]
        for each in due:
            self.calls.remove(each)
            if not each.is_cancelled:
                each.call()
        return self.now[0]


class Busy(Speaker):
    """Is a connection with so many slices to go, each of which takes as long as it may."""

    is_busy = True

    def __init__(self, log: list[str], name: str, turns: FairTurns, now: list[float], slices: int = 99) -> None:
        super().__init__(log, name)
        self.turns, self.now, self.slices = turns, now, slices

    def listen(self) -> None:
        super().listen()
        self.now[0] += SLICE_SECONDS
        self.slices -= 1
        if self.slices:
            self.turns.later(self)


def test_the_busy_have_one_slice_between_them_and_rest_after_it() -> None:
    """Another's message waits for one slice, however many are busy; they go round, and have half of the
    time at most.
    """
    log, now = [], [50.0]
    reactor = Paced(now)
    turns = FairTurns(reactor, lambda: now[0])
    for name in "abc":
        turns.later(Busy(log, name, turns, now))
    began = [reactor.turn() for _ in range(4)]
    assert log == ["listen a", "listen b", "listen c", "listen a"]
    period = SLICE_SECONDS * (1 + REST)
    assert began == pytest.approx([50.0 + SLICE_SECONDS + number * period for number in range(4)], abs=1e-9)
    turns.later(Speaker(log, "quick"))  # while they rest
    assert reactor.turn() < 50.0 + 4 * period
    assert log[4:] == ["listen quick"]


def test_the_busy_are_listened_to_to_the_end() -> None:
    """Busy speakers are heard to the end without anybody else to wake the reactor; one that has gone gets no slice."""
    log, now = [], [0.0]
    reactor = Paced(now)
    turns = FairTurns(reactor, lambda: now[0])
    speakers = [Busy(log, name, turns, now, slices) for name, slices in (("a", 2), ("b", 1), ("c", 1))]
    for speaker in speakers:
        turns.later(speaker)
    turns.forget(speakers[1])
    for _ in range(3):
        reactor.turn()
    assert log == ["listen a", "listen c", "listen a"]
    assert [each for each in reactor.calls if not each.is_cancelled] == []


def test_turns_are_short_once_an_agent_is_busy() -> None:
    """Slices are short once a speaker is busy; one that asks for a further turn and is not busy changes nothing."""
    reactor, now = OneTurn(), [100.0]
    turns = FairTurns(reactor, lambda: now[0])
    turns.later(Speaker([]))
    assert turns.rotation.slice_seconds() == LONG_SLICE
    turns.later(Busy([], "a", turns, now))
    assert turns.rotation.slice_seconds() == SHORT_SLICE


def test_a_rest_has_an_end() -> None:
    """A slice in which the machine stood still for a minute is followed by an ordinary rest."""
    log, now = [], [0.0]
    reactor = Paced(now)
    turns = FairTurns(reactor, lambda: now[0])
    speaker = Busy(log, "a", turns, now)
    turns.later(speaker)
    reactor.turn()
    ended = now[0] = 60.0
    turns._busy_turn()
    assert reactor.turn() <= ended + SLICE_SECONDS + REST_MOST + 1e-9


def test_stop_ends_the_turns_of_the_busy() -> None:
    """Nobody is listened to after a stop; of the rotation, which others share, one empty turn is left in
    the reactor.
    """
    now, log = [0.0], list[str]()
    reactor = Paced(now)
    turns = FairTurns(reactor, lambda: now[0])
    turns.later(Busy(log, "a", turns, now))
    turns.later(Speaker(log))
    turns.stop()
    assert [each.is_cancelled for each in reactor.calls] == [False, True]
    reactor.turn()
    assert (log, [each for each in reactor.calls if each.active()]) == ([], [])


@pytest.mark.parametrize(("is_pressed", "step"), [(False, CALM_STEP_SECONDS), (True, STEP_SECONDS)])
def test_what_came_in_waits_once_the_turn_has_had_its_time(is_pressed: bool, step: float) -> None:
    """The first speaker of a turn is handled in any case; the rest waits for the next turn (F73). Turns are short while
    an agent floods.
    """
    reactor, now = OneTurn(), [100.0]
    turns = FairTurns(reactor, lambda: now[0])
    if is_pressed:
        turns.rotation.press()
    assert turns.has_time()
    now[0] += step * 0.9
    assert turns.has_time()
    now[0] += step * 0.2
    assert not turns.has_time()
    turns.later(Speaker([]))
    reactor.turn()
    assert turns.has_time()
    assert reactor.calls == []  # no timer for what is handled at once
    now[0] += STALE_SECONDS * 1.01
    assert turns.has_time()


def test_one_that_fails_keeps_nobody_from_its_turn() -> None:
    """A thing that fails is logged, and the walk goes on."""
    clock, seen = Clock(), []
    turns = FairTurns(clock)

    def each(thing: int) -> None:
        seen.append(thing)
        if thing == 0:
            raise ValueError("that agent")

    turns.walk(range(3), each)
    clock.advance(0)
    assert seen == [0, 1, 2]


def test_the_end() -> None:
    """Nothing is done any more, and no timer is left."""
    clock, seen = Clock(), []
    turns = FairTurns(clock)
    turns.walk([1], seen.append)
    turns.stop()
    turns.stop()
    clock.advance(0)
    assert (seen, clock.getDelayedCalls()) == ([], [])


# ---------------------------------------------------------------------------------------------- walks that are awaited


def _ended(walked: Deferred[None]) -> list[Any]:
    outcomes: list[Any] = []
    walked.addBoth(lambda outcome: outcomes.append(outcome.value if isinstance(outcome, Failure) else outcome))
    return outcomes


def test_a_walk_that_is_awaited() -> None:
    """The Deferred of a walk fires after its last thing, and also if there is none."""
    clock, taken = Clock(), list[int]()
    turns = FairTurns(clock, clock.seconds)
    ends = [_ended(turns.walk_all(range(5), taken.append)), _ended(turns.walk_all((), taken.append))]
    assert (taken, ends) == ([], [[], []])
    clock.pump([0] * 20)
    assert (taken, ends, turns._awaited) == ([0, 1, 2, 3, 4], [[None], [None]], {})


@pytest.mark.parametrize("bad", [0, 2, 4])
def test_a_fault_ends_a_walk_that_is_awaited(bad: int) -> None:
    """A walk that is awaited ends once with its fault, and another walk goes on."""
    clock, taken, others = Clock(), list[int](), list[int]()
    turns = FairTurns(clock, clock.seconds)

    def take(thing: int) -> None:
        if thing >= bad:
            raise ValueError(f"not {thing}")
        taken.append(thing)

    ended = _ended(turns.walk_all(range(5), take))
    turns.walk(range(3), others.append)
    clock.pump([0] * 20)
    assert [str(each) for each in ended] == [f"not {bad}"]
    assert (taken, others, turns._awaited) == (list(range(bad)), [0, 1, 2], {})
    turns.stop()
    assert len(ended) == 1


def test_the_end_of_turns_ends_walks_that_are_awaited() -> None:
    """The end of turns ends walks that have begun, that wait for others, and that come too late."""
    clock = Clock()
    turns = FairTurns(clock, clock.seconds)
    ends = [_ended(turns.walk_all(range(2), turns_stop)) for turns_stop in (lambda _: turns.stop(), print)]
    clock.pump([0] * 5)
    ends.append(_ended(turns.walk_all(range(2), print)))
    assert [[type(each) for each in ended] for ended in ends] == [[TurnsOver]] * 3
