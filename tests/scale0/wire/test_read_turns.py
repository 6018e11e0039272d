"""Tests turns of the reactor that ZeroMQ sockets share: who is read, how much, and when the next turn is asked for."""

from __future__ import annotations

import contextlib

from twisted.internet.base import DelayedCall

from scale0.wire.read_turns import SLICE, TURN_BUDGET, ReadTurns


class Reactor:
    """Calls what it was asked for when the test says that a turn has passed."""

    def __init__(self) -> None:
        self.calls: list[DelayedCall] = []

    def callLater(self, delay: float, function) -> DelayedCall:
        assert delay == 0
        self.calls.append(DelayedCall(0, function, (), {}, self.calls.remove, lambda call: None))
        return self.calls[-1]

    def pass_turn(self) -> None:
        calls, self.calls[:] = list(self.calls), []
        for call in calls:
            call.called = 1
            call.func()


class Socket:
    """Holds so many messages, and marks itself again as one of ours does while any are left."""

    def __init__(self, turns: ReadTurns, left: int, log: list[tuple[str, int]], name: str) -> None:
        self.turns, self.left, self.log, self.name = turns, left, log, name

    def drain(self, limit: int) -> int:
        taken = min(limit, self.left)
        self.left -= taken
        self.log.append((self.name, limit))
        if self.left:
            self.turns.again(self)
        return taken


def stage(*lengths: int) -> tuple[Reactor, ReadTurns, list[tuple[str, int]], list[Socket]]:
    reactor, log = Reactor(), []
    turns = ReadTurns(reactor)
    return reactor, turns, log, [Socket(turns, left, log, "abc"[n]) for n, left in enumerate(lengths)]


def test_the_budget_is_four_slices() -> None:
    assert (TURN_BUDGET, SLICE) == (128, 32)


def test_an_edge_is_read_at_once_to_its_end() -> None:
    reactor, turns, log, [socket] = stage(40)
    turns.edge(socket)
    assert log == [("a", 32), ("a", 32)] and socket.left == 0 and not reactor.calls


def test_a_mark_is_read_in_the_next_turn_and_asks_for_one_alone() -> None:
    reactor, turns, log, [first, second] = stage(3, 4)
    turns.mark(first)
    turns.mark(second)
    turns.mark(first)
    assert log == [] and len(reactor.calls) == 1
    reactor.pass_turn()
    assert log == [("a", 32), ("b", 32)] and (first.left, second.left) == (0, 0)
    assert not reactor.calls
    turns.mark(first)
    assert len(reactor.calls) == 1


def test_a_flood_is_read_round_robin_until_the_budget_is_spent() -> None:
    """A flood is read 33, 33, 33 and then 29 at a time, as each drain costs one more than it read."""
    reactor, turns, log, [first, second] = stage(1000, 1000)
    turns.mark(first)
    turns.mark(second)
    reactor.pass_turn()
    assert log == [("a", 32), ("b", 32), ("a", 32), ("b", 29)] and len(reactor.calls) == 1
    turns.edge(first)
    assert len(log) == 4, "the budget is spent"
    reactor.pass_turn()
    assert log[4:] == [("a", 32), ("b", 32), ("a", 32), ("b", 29)]


def test_an_empty_drain_costs_one() -> None:
    reactor, turns, log, [socket] = stage(0)
    drain = socket.drain

    def again(limit: int) -> int:
        turns.mark(socket)
        return drain(limit)

    socket.drain = again  # type: ignore[method-assign]
    turns.edge(socket)
    assert len(log) == 128 and [limit for _, limit in log[-3:]] == [3, 2, 1] and len(reactor.calls) == 1


def test_a_closed_socket_is_read_no_more_and_a_stopped_reactor_is_left_alone() -> None:
    reactor, turns, log, [socket] = stage(5)
    turns.mark(socket)
    turns.forget(socket)
    turns.forget(socket)
    reactor.pass_turn()
    assert log == []
    turns.stop()
    turns.mark(socket)
    turns.stop()
    turns.stop()
    assert not reactor.calls


def test_a_drain_that_raises_does_not_stop_the_turns() -> None:
    reactor, turns, log, [bad, good] = stage(1, 1)

    def fail(limit: int) -> int:
        raise ValueError

    bad.drain = fail  # type: ignore[method-assign]
    turns.mark(bad)
    turns.mark(good)
    with contextlib.suppress(ValueError):
        reactor.pass_turn()
    assert len(reactor.calls) == 1
    reactor.pass_turn()
    assert log == [("b", 32)]
    turns.mark(good)
    assert len(reactor.calls) == 1
