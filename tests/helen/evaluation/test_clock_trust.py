"""The machine's clock is in doubt after a start: agents' results confirm it, or hold what would expire."""

from __future__ import annotations

import pytest

from groundwork.clock_watch import SETTLE_SECONDS, ClockWatch
from groundwork.start_clock import Agents
from helen.evaluation.clock_trust import ClockTrust
from helen.states.clock_offset import Newest

NOW = 1_800_000_000.0


class Fleet:
    """Agents that send a result each half minute; each is `ahead` by its seconds."""

    def __init__(self, ahead: list[float], doubt: float = 9_000.0, may_confirm: bool = True) -> None:
        self.ahead = ahead
        self.wall, self.steady = NOW, 10.0
        self.newest = {f"web-{at}": Newest("s", 1, NOW - 500.0, NOW - 500.0) for at in range(len(ahead))}  # from before
        self.clock = ClockWatch(lambda: self.wall, lambda: self.steady, lambda: self.steady)
        self.clock.begin(doubt, may_confirm)
        self.trust = ClockTrust(self.clock, lambda: self.newest)

    def half_minute(self, late: float = 0.0) -> None:
        """Results come that waited for `late` seconds."""
        for _ in range(30):
            self.wall, self.steady = self.wall + 1.0, self.steady + 1.0
            self.clock.look()
        for at, ahead in enumerate(self.ahead):
            self.newest[f"web-{at}"] = Newest("s", 2, self.wall - 0.1 - late + ahead, self.wall - 0.1)
        self.trust.look()


@pytest.mark.parametrize(
    ("ahead", "verdict", "held"),
    [
        ([0.2, -0.3, 1.0, 0.0], Agents.FEW, 0.0),  # confirmed, and no question any more
        ([0.2, -0.3], Agents.FEW, 9_000.0),
        ([-9_000.0, -8_999.0, -9_000.5, 0.0], Agents.BEHIND, 9_000.0),
        ([-9_000.0, -8_999.0, 0.5, 0.0], Agents.FEW, 9_000.0),
    ],
)
def test_agents_decide(ahead: list[float], verdict: Agents, held: float) -> None:
    """By results since the start alone, and not by one look."""
    fleet = Fleet(ahead)
    fleet.trust.look()
    fleet.half_minute()
    assert (fleet.trust.verdict, fleet.clock.unsettled()) == (Agents.FEW, 9_000.0)
    fleet.half_minute()
    fleet.half_minute()
    assert (fleet.trust.verdict, fleet.clock.unsettled()) == (verdict, held)


def test_most_agents_are_behind_for_hours() -> None:
    """Nothing expires as long as they say so, and for an hour after that."""
    fleet = Fleet([-9_000.0] * 3)
    for _ in range(int(3 * SETTLE_SECONDS / 30.0)):
        fleet.half_minute()
    assert fleet.clock.unsettled() == 9_000.0
    fleet.ahead = []
    for _ in range(int(SETTLE_SECONDS / 30.0) - 1):
        fleet.half_minute()
    assert fleet.trust.verdict is Agents.BEHIND
    fleet.newest = {}
    for _ in range(int(SETTLE_SECONDS / 30.0) - 1):
        fleet.half_minute()
    assert fleet.clock.unsettled() == 9_000.0
    fleet.half_minute()
    fleet.half_minute()
    assert fleet.clock.unsettled() == 0.0


def test_spools_that_drain_say_nothing() -> None:
    """After a long stop all agents send what waited: each result is closer to now than the one before."""
    fleet = Fleet([0.0] * 4)
    for late in (9_000.0, 6_000.0, 3_000.0, 100.0):
        fleet.half_minute(late)
        assert (fleet.trust.verdict, fleet.clock.unsettled()) == (Agents.FEW, 9_000.0)
    fleet.half_minute()
    fleet.half_minute()
    assert fleet.clock.unsettled() == 0.0


def test_a_step_that_is_sure_is_not_confirmed() -> None:
    """It stands for its hour, whatever agents say."""
    fleet = Fleet([0.0] * 4, may_confirm=False)
    for _ in range(4):
        fleet.half_minute()
    assert (fleet.trust.verdict, fleet.clock.unsettled()) == (Agents.AGREE, 9_000.0)
