"""Tests a clock that is in doubt after a start: agents' results confirm it, or hold what would expire."""

from __future__ import annotations

import pytest
from twisted.logger import capturedLogs

from groundwork.clock_watch import SETTLE_SECONDS, ClockWatch
from groundwork.start_clock import Agents
from helen.evaluation.clock_trust import ClockTrust
from helen.states.clock_offset import Newest

NOW = 1_800_000_000.0


class Fleet:
    """Plays agents that send a result each half minute; each is `ahead` by its seconds."""

    def __init__(self, ahead: list[float], doubt: float = 9_000.0, may_confirm: bool = True) -> None:
        self.ahead = ahead
        self.wall, self.steady = NOW, 10.0
        self.newest = {f"web-{at}": Newest("s", 1, NOW - 500.0, NOW - 500.0) for at in range(len(ahead))}  # from before
        self.clock = ClockWatch(lambda: self.wall, lambda: self.steady, lambda: self.steady)
        self.clock.begin(doubt, may_confirm)
        self.trust = ClockTrust(self.clock, lambda: self.newest)

    def half_minute(self, late: float = 0.0) -> None:
        """Let half a minute pass: results come that waited for `late` seconds."""
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
    """The verdict is made of results since the start alone, and not by one look."""
    fleet = Fleet(ahead)
    fleet.trust.look()
    fleet.half_minute()
    assert (fleet.trust.verdict, fleet.clock.unsettled()) == (Agents.FEW, 9_000.0)
    fleet.half_minute()
    fleet.half_minute()
    assert (fleet.trust.verdict, fleet.clock.unsettled()) == (verdict, held)


def test_most_agents_are_behind_for_hours() -> None:
    """Nothing expires as long as most agents are behind, and for an hour after that."""
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
    """Spools that drain after a long stop confirm nothing, as each result is closer to now than the one before."""
    fleet = Fleet([0.0] * 4)
    for late in (9_000.0, 6_000.0, 3_000.0, 100.0):
        fleet.half_minute(late)
        assert (fleet.trust.verdict, fleet.clock.unsettled()) == (Agents.FEW, 9_000.0)
    fleet.half_minute()
    fleet.half_minute()
    assert fleet.clock.unsettled() == 0.0


def test_a_step_that_is_sure_is_not_confirmed() -> None:
    """A step that is sure stands for its hour, whatever agents say."""
    fleet = Fleet([0.0] * 4, may_confirm=False)
    for _ in range(4):
        fleet.half_minute()
    assert (fleet.trust.verdict, fleet.clock.unsettled()) == (Agents.AGREE, 9_000.0)


@pytest.mark.parametrize(("change", "is_steady"), [(8.0, True), (-8.0, True), (8.5, False), (-8.5, False)])
def test_clocks_that_change_meanwhile(change: float, is_steady: bool) -> None:
    """A clock may change by eight seconds at most between two looks; a larger change is a spool that drains."""
    fleet = Fleet([0.0] * 3, may_confirm=False)
    fleet.half_minute()
    fleet.ahead = [change] * 3
    fleet.half_minute()
    assert (fleet.trust.verdict is Agents.AGREE) is is_steady


@pytest.mark.parametrize(("after", "counts"), [(-0.5, False), (0.0, False), (0.5, True)])
def test_results_since_the_doubt_began(after: float, counts: bool) -> None:
    """A result from before the doubt does not count, as it was measured by another clock."""
    fleet = Fleet([0.0] * 3, may_confirm=False)
    at = fleet.clock.doubted_at + after
    for _ in range(2):
        fleet.newest = {f"web-{number}": Newest("s", 2, at, at) for number in range(3)}
        fleet.trust.look()
    assert (fleet.trust.verdict is Agents.AGREE) is counts


def test_a_clock_that_is_ahead_is_said_once() -> None:
    """A clock that is ahead is told once and not at each look; that it was right is told when it is confirmed."""
    with capturedLogs() as logged:
        fleet = Fleet([-9_000.0] * 3)
        for _ in range(5):
            fleet.half_minute()
        said = [each["log_format"] for each in logged]
        assert [text.partition(",")[0] for text in said] == ["the clocks of most agents are behind this machine's"]
        fleet.ahead = [0.0] * 3
        for _ in range(4):
            fleet.half_minute()
    assert [each["log_format"].partition(":")[0] for each in logged][1:2] == [
        "the clocks of most agents agree with this machine's"
    ]
    assert fleet.trust.verdict is Agents.FEW
