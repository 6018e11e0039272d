"""Joined writes, and walks through a fleet in short steps."""

from typing import Any

from twisted.internet.task import Clock

from helen.sessions.fair_turns import STALE_SECONDS, STEP_SECONDS, FairTurns


class Speaker:
    is_busy = False

    def __init__(self, log: list[str], name: str = "x") -> None:
        self.log, self.name = log, name

    def flush(self) -> None:
        self.log.append(f"flush {self.name}")

    def listen(self) -> None:
        self.log.append(f"listen {self.name}")


class OneTurn:
    """A reactor whose turns are taken one at a time; a Clock would take those that are asked for meanwhile, too."""

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
    """And one turn of the reactor for everybody."""
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
    """Nor listened to."""
    clock, log = Clock(), []
    turns = FairTurns(clock)
    a = Speaker(log)
    turns.soon(a)
    turns.later(a)
    turns.forget(a)
    clock.advance(0)
    assert log == []


def test_a_walk_takes_breaks() -> None:
    """No longer than STEP_SECONDS at a time, all things in their order, one walk after the other."""
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
    """One that takes most of a turn, and asks for another."""

    def __init__(self, log: list[str], name: str, turns: FairTurns, now: list[float]) -> None:
        super().__init__(log, name)
        self.turns, self.now = turns, now

    def listen(self) -> None:
        super().listen()
        self.now[0] += STEP_SECONDS * 0.6
        self.turns.later(self)


def test_listening_ends_in_time_and_goes_round() -> None:
    """Five that never end are heard two in a turn, in their order, and what was said to others leaves in each (F73)."""
    reactor, log, now = OneTurn(), [], [0.0]
    turns = FairTurns(reactor, lambda: now[0])
    for name in "abcde":
        turns.later(Slow(log, name, turns, now))
    for _ in range(5):
        turns.soon(Speaker(log, "x"))
        reactor.turn()
    assert [each for each in log if each != "flush x"] == [f"listen {name}" for name in "abcdeabcde"]
    assert log[2::3] == ["flush x"] * 5


class Busy(Slow):
    is_busy = True


class BusyOnce(Speaker):
    is_busy = True


def test_the_busy_have_one_slice_a_turn_between_them() -> None:
    """However many of them there are, another's message waits for one; they go round, and nobody is left out."""
    reactor, log, now = OneTurn(), [], [0.0]
    turns = FairTurns(reactor, lambda: now[0])
    for name in "abc":
        turns.later(Busy(log, name, turns, now))
    for number in range(4):
        turns.later(Speaker(log, str(number)))
        reactor.turn()
    assert log == [f"listen {each}" for each in "0a1b2c3a"]


def test_the_busy_are_listened_to_to_the_end() -> None:
    """Without anybody else to wake the reactor; one that has gone gets no slice."""
    reactor, log = OneTurn(), []
    turns = FairTurns(reactor)
    speakers = [BusyOnce(log, name) for name in "abc"]
    for speaker in speakers:
        turns.later(speaker)
    turns.forget(speakers[1])
    for _ in range(3):
        reactor.turn()
    assert log == ["listen a", "listen c"]
    assert reactor.calls == []


def test_what_came_in_waits_once_the_turn_has_had_its_time() -> None:
    """The first is handled in any case; the next turn begins anew (F73)."""
    reactor, now = OneTurn(), [100.0]
    turns = FairTurns(reactor, lambda: now[0])
    assert turns.has_time()
    now[0] += STEP_SECONDS * 0.9
    assert turns.has_time()
    now[0] += STEP_SECONDS * 0.2
    assert not turns.has_time()
    turns.later(Speaker([]))
    reactor.turn()
    assert turns.has_time()
    assert reactor.calls == []  # no timer for what is handled at once
    now[0] += STALE_SECONDS
    assert turns.has_time()


def test_one_that_fails_keeps_nobody_from_its_turn() -> None:
    """It is logged, and the walk goes on."""
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
