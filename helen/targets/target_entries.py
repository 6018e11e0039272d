"""Keeps the checks of each target: as entries of its own, and as the agents with its lease run them."""

from __future__ import annotations

from collections.abc import KeysView

from helen.assignments.schedule import ScheduleEntry
from helen.assignments.target_schedule import of_runner


class TargetEntries:
    """Holds the entries of targets by name; each form of an entry is made once, however often it is sent."""

    def __init__(self) -> None:
        self._own: dict[str, tuple[ScheduleEntry, ...]] = {}
        self._sent: dict[str, tuple[ScheduleEntry, ...]] = {}  # the same, as an agent runs them
        self._ids: dict[str, frozenset[str]] = {}

    def names(self) -> KeysView[str]:
        """Return the targets that were planned, those without checks as well."""
        return self._own.keys()

    def put(self, target: str, made: tuple[ScheduleEntry, ...]) -> bool:
        """Take what is to be looked at of a target; return True if it is something else than before."""
        if made == self._own.get(target):
            return False
        self._own[target], self._ids[target] = made, frozenset(entry.id for entry in made)
        self._sent[target] = tuple(of_runner(target, entry) for entry in made)
        return True

    def drop(self, target: str) -> None:
        """Forget a target."""
        for kept in (self._own, self._sent, self._ids):
            kept.pop(target, None)

    def own(self, target: str) -> tuple[ScheduleEntry, ...]:
        """Return the entries of a target, with ids of its own."""
        return self._own.get(target, ())

    def sent(self, target: str) -> tuple[ScheduleEntry, ...]:
        """Return the entries of a target as agents run them, with the ids under which they report."""
        return self._sent.get(target, ())

    def has(self, target: str, check_id: str) -> bool:
        """Return True if a target has a check of this id."""
        return check_id in self._ids.get(target, ())
