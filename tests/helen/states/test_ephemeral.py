"""Tests that an ephemeral agent's absence is no problem, and that it is forgotten without a word unless
one was told.
"""

from __future__ import annotations

from typing import Any

from timeline_copy import copy_of

from equus_protocol.results import CRITICAL, OK, UNKNOWN
from helen.assignments.state_rules import EPHEMERAL_AWAY, NO_SETTINGS, RuleSettings, link_rule
from helen.states.agent_rules import AgentRules
from helen.states.events import Decision
from helen.states.fleet_states import run
from helen.states.fleet_timeline import Timeline
from helen.states.inputs import Result
from helen.states.model import AWAY, LINK, PENDING, Rule
from helen.states.timeline_snapshot import header_of, restore

DISK, HOST = ("pod-1", "disk"), ("pod-1", LINK)


def connected(stale: float = 60.0) -> tuple[Timeline, list[Any]]:
    """Return a timeline in which pod-1 is connected since 100, its disk was well at 101; and the events so far."""
    timeline = Timeline()
    rules = AgentRules({}, {"disk": Rule(1, 1, stale=stale)}, link_rule(NO_SETTINGS, is_ephemeral=True))
    events = run(timeline.helen_started(99.0)) + run(timeline.set_rules("pod-1", rules))
    run(timeline.advance(100.0))
    events += run(timeline.link("pod-1", True)) + run(timeline.result(*DISK, result(101.0, OK)))
    return timeline, events


def result(at: float, status: int) -> Result:
    return Result(at, status, at, "s", int(at))


def decisions(events: list[Any]) -> list[tuple[str, str, str]]:
    return [(each.check_id, each.event.action, each.event.what) for each in events if isinstance(each.event, Decision)]


def test_away_and_forgotten_without_a_word() -> None:
    """The link stays well, its checks are unknown and held back, and nobody is told, a day long and at the end."""
    timeline, _ = connected(stale=2.0)
    events = run(timeline.link("pod-1", False)) + run(timeline.advance(106.0))
    link, disk = timeline.states[HOST], timeline.states[DISK]
    assert (link.shown.status, link.shown.reason) == (OK, AWAY)
    assert (disk.shown.status, disk.shown.reason) == (UNKNOWN, AWAY)
    events += run(timeline.advance(86_400.0)) + run(timeline.forget("pod-1"))
    assert [action for _, action, _ in decisions(events)] == ["hold", "drop"]
    assert timeline.states == {}


def test_a_problem_that_was_told_is_closed() -> None:
    """A person who was told of a full disk is told that its machine is no more."""
    timeline, _ = connected()
    told = run(timeline.result(*DISK, result(102.0, CRITICAL)))
    assert decisions(told) == [("disk", "notify", "problem")]
    events = run(timeline.link("pod-1", False)) + run(timeline.advance(200.0)) + run(timeline.forget("pod-1"))
    assert decisions(events)[-1] == ("disk", "notify", "closed")


def test_it_comes_back() -> None:
    """The link loses the reason, and the checks wait for a result; a copy of the states goes on alike."""
    timeline, _ = connected()
    run(timeline.link("pod-1", False))
    run(timeline.advance(150.0))
    timeline = restore(header_of(copy_of(timeline)), [(*key, state) for key, state in timeline.states.items()])
    events = run(timeline.link("pod-1", True))
    assert (timeline.states[HOST].shown.status, timeline.states[HOST].shown.reason) == (OK, None)
    assert timeline.states[DISK].shown.reason == PENDING
    events += run(timeline.result(*DISK, result(151.0, OK)))
    assert timeline.states[DISK].shown.status == OK
    assert not [each for each in decisions(events) if each[1] == "notify"]


def test_the_rule_of_its_link() -> None:
    """The link is away sooner than others, or as soon as the file says, and others are critical as ever."""
    assert link_rule(NO_SETTINGS, is_ephemeral=True) == Rule(1, 1, flap_start=None, away=EPHEMERAL_AWAY, missing=OK)
    assert link_rule(RuleSettings(away=2.0), is_ephemeral=True).away == 2.0
    assert link_rule(RuleSettings(away=90.0)) == Rule(1, 1, flap_start=None, away=90.0)
    assert Rule.from_json(link_rule(NO_SETTINGS, is_ephemeral=True).to_json()).missing == OK
