"""Series of single agents: which names have them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from helen.agents.roster import Agent, Roster
from helen.assignments.known_notes import KnownNotes
from helen.states.fleet_timeline import Timeline
from helen.web.figures.fleet_figures import FleetFigures, single_families

LINK: Any = SimpleNamespace(version=2)


def test_only_agents_are_connected_or_not() -> None:
    """Hosts that others report for have no link to be down, and a revoked agent is not expected back. (J6)"""
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
