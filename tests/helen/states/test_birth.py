"""Tests which checks of an agent get a state: those that Helen has rules for, and so many others."""

from __future__ import annotations

import pytest
from timeline_copy import copy_of

from helen.states.agent_rules import AgentRules
from helen.states.fleet_states import MOST_STATES, run
from helen.states.fleet_timeline import Timeline
from helen.states.inputs import Result
from helen.states.model import LINK, Rule
from helen.states.timeline_snapshot import header_of, restore


def born(timeline: Timeline, *check_ids: str, agent: str = "evil", at: float = 100.0) -> int:
    """Give a result of each, and return how many of the agent's checks have a state."""
    for check_id in check_ids:
        run(timeline.result(agent, check_id, Result(at, 2, at, "s", 1)))
    return len(timeline.keys_of(agent))


@pytest.mark.parametrize("number", [MOST_STATES - 1, MOST_STATES, MOST_STATES + 1, 3 * MOST_STATES])
def test_both_sides_of_the_quota(number: int) -> None:
    """An agent that makes up ids gets 1,000; the results of further ones are counted, and step nothing (F51)."""
    timeline = Timeline()
    assert born(timeline, *(f"c{n}" for n in range(number))) == min(number, MOST_STATES)
    left_out = number - MOST_STATES
    assert timeline.left_out == ({"evil": left_out} if left_out > 0 else {})
    assert born(timeline, "c0", agent="honest") == 1
    assert timeline.clock == 100.0


def test_what_has_a_rule_is_born_all_the_same() -> None:
    """A schedule comes from the operator; so do the link and what has a state already (F51)."""
    timeline = Timeline()
    timeline.most_states = 3
    assert born(timeline, "a", "b", "c", "d") == 3
    run(timeline.set_rules("evil", AgentRules({}, {"x": Rule(), "y": Rule()}, Rule())))
    run(timeline.link("evil", True))
    assert born(timeline, "x", "y", "a", "e") == 6
    assert {check_id for _, check_id in timeline.keys_of("evil")} == {"a", "b", "c", "x", "y", LINK}
    assert timeline.left_out == {"evil": 2}


def test_one_that_goes_makes_room() -> None:
    """A check that is retired makes room for another, and so does an agent that is forgotten."""
    timeline = Timeline()
    timeline.most_states = 2
    run(timeline.set_rules("evil", AgentRules({}, {"x": Rule()}, Rule())))
    born(timeline, "a", "b")
    run(timeline.set_rules("evil", AgentRules({}, {}, Rule())))
    assert born(timeline, "b") == 2
    run(timeline.forget("evil"))
    assert (timeline.left_out, born(timeline, "c", "d")) == ({}, 2)


def test_the_figure_is_in_the_history() -> None:
    """A replay comes to the same states: the start of a Helen names the figure, and a copy on disk keeps it."""
    timeline = Timeline()
    run(timeline.change("helen_start", 10.0, None, None, {"version": "1", "states": 2}))
    assert born(timeline, "a", "b", "c", "d") == 2
    again = restore(header_of(copy_of(timeline)), [(*key, state) for key, state in timeline.states.items()])
    assert (again.most_states, again.left_out) == (2, {"evil": 2})
    assert born(again, "e") == 2
    run(again.change("helen_start", 200.0, None, None, {"version": "0"}))
    assert (again.most_states, born(again, "e", at=201.0)) == (MOST_STATES, 3)


def test_an_older_copy_is_read() -> None:
    """An older copy names no figure, and counts nothing."""
    header = header_of(Timeline())
    del header["most_states"], header["left_out"]
    assert (restore(header, []).most_states, restore(header, []).left_out) == (MOST_STATES, {})
