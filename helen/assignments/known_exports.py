"""Keeps which metrics of the checks of all agents are exported, so that a scrape finds them without a schedule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from helen.agents.roster import Agent
from helen.assignments.schedule import ScheduleEntry

Exports = Mapping[str, tuple[str, ...]]  # check id -> names or patterns of metrics


class KnownExports:
    """Knows the exports of each scheduled check that has any, by agent and check id."""

    def __init__(self) -> None:
        self._by_agent: dict[str, Exports] = {}

    def take(self, agent: Agent, entries: Iterable[ScheduleEntry]) -> None:
        """Take over what an agent is to run from now on."""
        exports = exports_of(entries)
        if exports:
            self._by_agent[agent.name] = exports
        else:
            self._by_agent.pop(agent.name, None)

    def of(self, agent: str) -> Exports:
        """Return the exports of an agent's checks, those alone that have any."""
        return self._by_agent.get(agent, {})


def exports_of(entries: Iterable[ScheduleEntry]) -> Exports:
    """Return the exports of these entries, those alone that have any."""
    return {entry.id: entry.export for entry in entries if entry.export}
