"""Tests that results of a target are dated by the clock of the agent that ran them, whoever ran the one before."""

from __future__ import annotations

import pytest

from equus_protocol.results import CRITICAL, OK
from groundwork.target_ids import kept_spool
from helen.states.agent_rules import AgentRules
from helen.states.fleet_states import run
from helen.states.fleet_timeline import Timeline
from helen.states.inputs import Result
from helen.states.model import LINK, Rule

PING = ("switch-1", "ping")


def looked(at: float, status: int, agent: str, sequence: int, ahead: float = 0.0) -> Result:
    """Return a result that ended as it was received, by a clock that is so many seconds ahead."""
    return Result(at, status, at + ahead, kept_spool(agent, "s"), sequence)


@pytest.mark.parametrize("ahead", [0.0, 300.0, 3_600.0])
def test_a_handover_between_clocks(ahead: float) -> None:
    """The first result of an agent with a right clock counts at once after one whose clock is ahead."""
    timeline = Timeline()
    run(timeline.set_rules("switch-1", AgentRules({}, {"ping": Rule(1, 1, stale=120.0, passive=True)})))
    for sequence in range(1, 6):
        run(timeline.result(*PING, looked(100.0 + 10 * sequence, OK, "probe-1", sequence, ahead)))
    events = run(timeline.result(*PING, looked(200.0, CRITICAL, "probe-2", 1)))
    assert timeline.states[PING].shown.status == CRITICAL and events
    assert timeline.late_results == 0
    assert (timeline.clocks["probe-1"].offset, "switch-1" in timeline.clocks) == (pytest.approx(ahead), False)


def test_one_clock_for_an_agent_and_what_it_looks_at() -> None:
    """The offset that an agent's own results have shown counts for those of its targets."""
    timeline = Timeline()
    run(timeline.set_rules("switch-1", AgentRules({}, {"ping": Rule(1, 1, stale=120.0, passive=True)})))
    run(timeline.link("probe-1", True))
    run(timeline.result("probe-1", "cpu", Result(110.0, OK, 410.0, "s", 1)))
    run(timeline.result(*PING, looked(111.0, OK, "probe-1", 2, 300.0)))
    assert timeline.states[PING].seen is not None
    assert timeline.states[PING].seen.ended == pytest.approx(111.0)
    assert timeline.clocks.keys() == {"probe-1"}


def test_a_handover_without_a_false_alarm() -> None:
    """Two intervals without a result are told to nobody; the deadline after that is stale as ever."""
    timeline = Timeline()
    rule = Rule(3, 1, stale=155.0, passive=True, depends=(f"probe-1/{LINK}",))
    run(timeline.set_rules("switch-1", AgentRules({}, {"ping": rule})))
    run(timeline.result(*PING, looked(100.0, OK, "probe-1", 1)))
    assert run(timeline.advance(220.0)) == []
    assert run(timeline.result(*PING, looked(220.0, OK, "probe-2", 1))) == []
    assert [each.event.KIND for each in run(timeline.advance(376.0))][:1] == ["transition"]
