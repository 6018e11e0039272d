"""Tests that reactors of programs go by the monotonic clock, and deadlines of silence by the time awake."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from twisted.internet.base import ReactorBase

from groundwork.awake_clock import AwakeClock
from groundwork.steady_reactor import use_monotonic_clock


class Hands(ReactorBase):
    """Is a reactor without sockets whose clock is set by hand."""

    now = 1_800_000_000.0

    def __init__(self) -> None:
        super().__init__()
        self.seconds = lambda: self.now  # type: ignore[method-assign]

    def installWaker(self) -> None:
        """Do nothing, as no waker is needed."""


@pytest.mark.parametrize("step", [-86_400.0, -3.0, 3.0, 7_200.0])
def test_calls_move_to_the_monotonic_clock_with_the_time_that_is_left(step: float, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """Calls come when they were meant to, whatever the wall clock does afterwards (F1)."""
    reactor, done = Hands(), []
    reactor.callLater(5.0, done.append, "first")
    reactor.runUntilCurrent()
    reactor.callLater(9.0, done.append, "second")
    steady = [77.0]
    monkeypatch.setattr(time, "monotonic", lambda: steady[0])
    use_monotonic_clock(reactor)
    use_monotonic_clock(reactor)
    reactor.callLater(7.0, done.append, "between")
    reactor.now += step
    counts = []
    for steady[0] in (81.9, 82.0, 84.0, 85.9, 86.0):
        reactor.runUntilCurrent()
        counts.append(len(done))
    assert counts == [0, 1, 2, 2, 3]
    assert done == ["first", "between", "second"]


@pytest.mark.parametrize("module", ["helen.tap", "equus.tap", "scale0.tap"])
def test_the_reactor_of_a_program_does_not_read_the_wall_clock(module: str) -> None:
    """The module that starts the program installs the steady reactor before anything is scheduled (F1)."""
    code = (
        f"import time, {module}; from twisted.internet import reactor;"
        "assert reactor.seconds is time.monotonic; call = reactor.callLater(9, print);"
        "assert abs(call.getTime() - time.monotonic() - 9) < 5"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_stall_is_no_time() -> None:
    """Deadlines move by the length of a stall; short pauses count as what they are."""
    now = [10.0]
    clock = AwakeClock(lambda: now[0], late=2.0)
    seen = []
    for later in (1.0, 1.9, 75.0, 0.5, 0.0, 2.0, 1.0):
        now[0] += later
        seen.append(clock.seconds())
    assert seen == pytest.approx([11.0, 12.9, 12.9, 13.4, 13.4, 13.4, 14.4])
    assert clock.slept == 77.0
