"""Tests that an explanation of a target does not bring back its forgotten agent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from helen.agents.roster import Roster
from helen.explain.explain import explain
from helen.states.model import Rule
from helen.web.routes.states import _facts

NOW = 1_700_000_000.0


def test_a_target_whose_agent_was_forgotten() -> None:
    """A target whose agent was forgotten is explained without making that an agent again; its lease stays."""
    roster = Roster(lambda agent: None, lambda agent, link: None)
    roster.host("switch-1")
    roster.know("probe-1").connected_at = NOW
    timeline = SimpleNamespace(
        clocks={}, states={}, dependencies=SimpleNamespace(ignored={}), rule=lambda key: Rule(attempts=1, passive=True)
    )  # fmt: skip
    parts: Any = SimpleNamespace(
        evaluator=SimpleNamespace(timeline=timeline),
        sessions=SimpleNamespace(roster=roster, delivery=SimpleNamespace(schedule_of=lambda agent: ())),
        targets=SimpleNamespace(runners=lambda name: ("probe-1",), entries_of=lambda name: ()),
        meshes=SimpleNamespace(watchers=lambda check_id: ()),
    )
    assert _facts(parts, ("switch-1", "ping"), NOW, is_now=True).connected_since == NOW
    roster.forget("probe-1")
    facts = _facts(parts, ("switch-1", "ping"), NOW, is_now=True)
    assert (facts.runners, facts.connected_since, set(roster.agents)) == (("probe-1",), None, {"switch-1"})
    assert explain(facts)["agent"] == "switch-1"
