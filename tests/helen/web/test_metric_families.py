"""Tests series of single agents, which are written in pieces."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from helen.agents.roster import Agent, Roster
from helen.assignments.known_notes import KnownNotes
from helen.states.agent_rules import AgentRules
from helen.states.fleet_states import run
from helen.states.fleet_timeline import Timeline
from helen.states.inputs import Result
from helen.states.model import Rule
from helen.web.figures.fleet_figures import FleetFigures, single_families

LINK: Any = SimpleNamespace(version=2)


def test_only_agents_are_connected_or_not() -> None:
    """Only agents with a link or a certificate are connected or not: hosts and revoked agents have no such series
    (J6)."""
    roster = Roster(lambda agent: None, lambda agent, link: None)
    roster.agents = {
        each.name: each for each in (
            Agent("web-1", link=LINK), Agent("db-1"), Agent("nas", enrolled=False), Agent("pings", enrolled=False),
            Agent("old", revoked_at=5.0), Agent("plain", link=LINK, enrolled=False),
        )
    }  # fmt: skip
    parts: Any = SimpleNamespace(
        library=SimpleNamespace(published=None),
        sessions=SimpleNamespace(roster=roster),
        evaluator=SimpleNamespace(timeline=Timeline()),
        notes=KnownNotes(),
    )
    for patterns in ([], ["*"]):
        fleet = FleetFigures(parts, patterns)
        list(fleet.steps(list(roster.agents.values())))
        families = {family.name: list(family.samples) for family in single_families(parts, fleet)}
        connected = {labels["agent"]: bool(value) for _, labels, value in families["helen_agent_connected"] if labels}
        assert connected == {"db-1": False, "plain": True, "web-1": True}


def test_a_check_that_goes_while_its_agents_series_are_written() -> None:
    """A check that goes while its agent's series are written has none, and the others have theirs."""
    timeline = Timeline()
    rules = AgentRules({}, {name: Rule(stale=600.0) for name in ("cpu", "disk", "load")})
    run(timeline.set_rules("web-1", rules))
    for number, check in enumerate(("cpu", "disk", "load"), 1):
        run(timeline.result("web-1", check, Result(100.0 + number, 0, 100.0, "s", number)))
    roster = Roster(lambda agent: None, lambda agent, link: None)
    roster.agents = {"web-1": Agent("web-1", link=LINK)}
    parts: Any = SimpleNamespace(
        library=SimpleNamespace(published=None),
        sessions=SimpleNamespace(roster=roster),
        evaluator=SimpleNamespace(timeline=timeline),
        notes=KnownNotes(),
    )
    fleet = FleetFigures(parts, ["*"])
    list(fleet.steps(list(roster.agents.values())))
    [statuses] = [each for each in single_families(parts, fleet) if each.name == "helen_check_status"]
    samples = iter(statuses.samples)
    first = next(samples)
    assert first is not None and first[1]["check"] == "cpu"
    run(timeline.set_rules("web-1", AgentRules({}, {name: rules.checks[name] for name in ("cpu", "load")})))
    assert [each[1]["check"] for each in samples if each is not None] == ["load"]
