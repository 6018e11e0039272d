"""Tests an agent's clock from its results; and how a day was spent."""

from __future__ import annotations

import pytest
from availability_oracle import Coverage, cover

from helen.states.clock_offset import AgentClock, measure
from helen.states.events import Transition
from helen.states.model import PENDING, STALE, Condition


def after(*samples: tuple[float, float]) -> AgentClock:
    """Return the clock after samples of (received, how far the result's end was ahead), in their order."""
    clock = AgentClock()
    for received, ahead in samples:
        clock = measure(clock, received + ahead, received)
    return clock


CLOCKS: dict[str, tuple[list[tuple[float, float]], float]] = {
    "right, with delays": ([(0, -0.1), (10, -1.9), (20, -0.02)], 0.0),
    "ahead: at once": ([(0, 30.0)], 30.0),
    "the least delay is the best guess": ([(0, 29.0), (10, 30.0), (20, 29.5)], 30.0),
    "behind: after a minute and three results": ([(0, -30.0), (30, -30.1), (60, -30.0)], -30.0),
    "behind, not three results yet": ([(0, -30.0), (60, -30.0)], 0.0),
    "behind, not a minute yet": ([(0, -30.0), (30, -30.0), (59, -30.0), (59.5, -30.0)], 0.0),
    "a spool that drains": ([(0.1 * at, -3_600.0 + 30.0 * at) for at in range(120)], 0.0),
    "a spool that drains slowly": ([(1.0 * at, -3_600.0 + 30.0 * at) for at in range(120)], 0.0),
    "set back by an hour": ([(0, 3_600.0), (10, 0.0), (40, 0.0), (70, 0.0)], 0.0),
    "one odd result": ([(0, 0.0), (10, -500.0), (20, 0.0), (30, -500.0), (80, -500.0)], 0.0),
}


@pytest.mark.parametrize("case", CLOCKS)
def test_clocks(case: str) -> None:
    """A clock that is ahead is believed at once, and one that is behind when it stands still."""
    samples, offset = CLOCKS[case]
    assert after(*samples).offset == pytest.approx(offset, abs=0.11)


def turn(at: float, status: int, reason: str | None = None, attempt: int = 0) -> Transition:
    was = Condition(3, 0.0, PENDING)
    return Transition(0, at, was, Condition(status, at, reason, attempt), "")


def test_a_stretch_is_cut_by_all_that_happened_in_it() -> None:
    """Planned time counts before absent time, and that before the check's status; soft results change nothing."""
    turns = [turn(10, 0), turn(20, 2, attempt=1), turn(30, 2), turn(60, 3, STALE), turn(80, 0), turn(90, 3)]
    coverage = cover(turns, 0.0, 100.0, planned=[(40, 50)], absences=[(45, 55), (85, 88)])
    unknown = {PENDING: 10.0, "helen-down": 8.0, STALE: 20.0, "said-unknown": 10.0}
    assert coverage == Coverage(ok=20.0 + 7.0, bad=15.0, planned=10.0, unknown=unknown)
    assert coverage.total == 100.0


def test_what_was_before_counts() -> None:
    """A day begins with the state that the one before ended with."""
    assert cover([turn(10, 2)], 50.0, 60.0) == Coverage(0.0, 10.0, 0.0, {})
    assert cover([], 50.0, 60.0) == Coverage(0.0, 0.0, 0.0, {PENDING: 10.0})
