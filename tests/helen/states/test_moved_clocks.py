"""Tests an agent that comes to a Helen whose clock differs by minutes: its checks are neither stale nor
fresh wrongly.
"""

from __future__ import annotations

from typing import Any

import pytest

from equus_protocol.results import CRITICAL, OK
from helen.states.agent_rules import AgentRules, rules_to_json
from helen.states.clock_offset import NEW_SECONDS, TOLERANCE, AgentClock, measure
from helen.states.events import Transition
from helen.states.fleet_states import run
from helen.states.fleet_timeline import Timeline
from helen.states.inputs import Result
from helen.states.model import STALE, Rule

NOW = 1_800_000_000.0
KEY = "web-1", "disk"
PLANS = {"30 s": (30.0, 10.0), "a minute": (60.0, 20.0), "three minutes": (180.0, 60.0), "15 minutes": (900.0, 300.0)}


class Other:
    """Is a Helen that has never seen the agent; its clock is `ahead` of the agent's, by seconds."""

    def __init__(self, ahead: float, stale: float) -> None:
        self.ahead, self.timeline, self.number = ahead, Timeline(), 100
        self.turns: list[Transition] = []
        self.change("helen_start", -1_000.0, {}, None)
        self.change("link", 0.0, {"event": "up", "address": "a", "version": 2})
        rule = Rule(attempts=1, flap_start=None, stale=stale)
        self.change("rule", 0.0, rules_to_json(AgentRules({}, {"disk": rule}, rule)))

    def change(self, kind: str, at: float, document: dict[str, Any], agent: str | None = "web-1") -> None:
        self._take(self.timeline.change(kind, NOW + at + self.ahead, agent, None, document))

    def result(self, ended: float, received: float, status: int) -> None:
        """Take a result of the spool; times are in seconds since the agent came, by its own clock."""
        self.number += 1
        given = Result(NOW + received + self.ahead, status, NOW + ended, "s", self.number)
        self._take(self.timeline.result(*KEY, given))

    def wait(self, until: float) -> None:
        self._take(self.timeline.advance(NOW + until + self.ahead))

    def _take(self, events: Any) -> None:
        self.turns += [
            each.event for each in run(events) if isinstance(each.event, Transition) and each.check_id == KEY[1]
        ]

    def stale(self) -> list[float]:
        """Return when the check was found stale, in seconds since the agent came."""
        return [round(each.at - NOW - self.ahead, 1) for each in self.turns if each.now.reason == STALE]


@pytest.mark.parametrize("waiting", [0, 3, 12])
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("ahead", [-1_200.0, -300.0, -61.0, -5.0, 0.0, 5.0, 61.0, 300.0, 1_200.0, 40_000.0])
def test_an_agent_that_another_helen_had(ahead: float, plan: str, waiting: int) -> None:
    """The second result counts at the latest, no silence is seen where there is none, and one is where there is one.

    `waiting`: results in its spool that the other Helen did not take.
    """
    stale, every = PLANS[plan]
    helen = Other(ahead, stale)
    for number in range(waiting, 0, -1):
        helen.result(1.0 - number * every / 10, 0.1, CRITICAL)
    times = [0.7 * every + number * every for number in range(8)]
    for number, time in enumerate(times):
        helen.wait(time - 0.01)
        helen.result(time, time + 0.05, CRITICAL)
        assert helen.timeline.states[KEY].hard.known or number == 0
    assert (helen.stale(), helen.timeline.states[KEY].hard.status) == ([], CRITICAL)
    helen.wait(times[-1] + stale - 0.5)
    assert helen.stale() == []
    helen.wait(times[-1] + stale + 0.5)
    assert helen.stale() == [pytest.approx(times[-1] + stale, abs=0.2)]


@pytest.mark.parametrize("ahead", [-30.0, 0.0, 30.0])
def test_a_backlog_of_hours_is_history_there(ahead: float) -> None:
    """No result of such a backlog is taken for news from a slow clock, though each is closer to now."""
    helen = Other(ahead, 60.0)
    for number in range(300):
        helen.result(-7_200.0 + 20 * number, 0.1 + number / 10, CRITICAL)
    assert helen.turns == []
    helen.result(31.0, 31.0, OK)
    helen.wait(50.0)
    helen.result(51.0, 51.0, OK)
    assert [each.now.status for each in helen.turns] == [OK]


@pytest.mark.parametrize(
    "samples, clock",
    [
        ([(-300.0, 0.0)], AgentClock(0.0, 0.0, -300.0, 1, is_new=True)),
        ([(-300.0, 0.0), (-300.0, NEW_SECONDS - 0.1)], AgentClock(0.0, 0.0, -300.0, 2, is_new=True)),
        ([(-300.0, 0.0), (-301.0, NEW_SECONDS)], AgentClock(-300.0)),
        ([(-300.0, 0.0), (-299.0, NEW_SECONDS)], AgentClock(-299.0)),
        ([(-300.0, 0.0), (-297.5, NEW_SECONDS)], AgentClock(0.0, NEW_SECONDS, -297.5, 1, is_new=True)),
        ([(-300.0, 0.0), (-TOLERANCE, 1.0)], AgentClock(0.0)),
        ([(7.0, 0.0)], AgentClock(7.0)),
        ([(-1.0, 0.0), (-300.0, 9.0), (-300.0, 29.0)], AgentClock(0.0, 9.0, -300.0, 2)),  # no new one: as before
    ],
)  # fmt: skip
def test_a_clock_that_is_new(samples: list[tuple[float, float]], clock: AgentClock) -> None:
    """Pairs of the seconds that a result shows the clock ahead, and when it came."""
    found = AgentClock(is_new=True)
    for ahead, received in samples:
        found = measure(found, received + ahead, received)
    assert found == clock
    assert AgentClock.from_json(found.to_json()) == found
