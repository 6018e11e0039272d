"""Keeps what people are to know of the checks of all agents, so that a message finds it without a schedule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from groundwork.check_notes import NO_NOTES, CheckNotes
from helen.agents.roster import Agent
from helen.assignments.schedule import ScheduleEntry


class KnownNotes:
    """Knows the notes of each scheduled check that has any, by agent and check id."""

    def __init__(self) -> None:
        self._by_agent: dict[str, dict[str, CheckNotes]] = {}

    def take(self, agent: Agent, entries: Iterable[ScheduleEntry]) -> None:
        """Take over what an agent is to run from now on."""
        noted = {entry.id: entry.notes for entry in entries if entry.notes != NO_NOTES}
        if noted:
            self._by_agent[agent.name] = noted
        else:
            self._by_agent.pop(agent.name, None)

    def of(self, agent: str, check_id: str) -> CheckNotes:
        """Return the notes of a check; all of them are None where there are none."""
        return self._by_agent.get(agent, {}).get(check_id, NO_NOTES)

    def owners(self, agent: str) -> Iterator[tuple[str, str]]:
        """Yield id and owner of each check of an agent that has an owner."""
        for check_id, notes in self._by_agent.get(agent, {}).items():
            if notes.owner is not None:
                yield check_id, notes.owner
