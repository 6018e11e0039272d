"""Keeps all groups of alerts by key, by alert, and by the time when they are due, and which rows have changed. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import evolve

from helen.notify.group import Changed, Entry, Group
from helen.notify.messages import REPLACED, Alert


class GroupTable:
    """Holds groups, and the order in which they are to be looked at. Times are unix seconds."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.of: dict[str, set[str]] = {}  # alert -> groups that have it
        self._heap: list[tuple[float, str]] = []
        self._dirty: set[str] = set()
        self._dirty_entries: set[tuple[str, str]] = set()

    # ---------------------------------------------------------------------------------------------- alerts

    def keep(self, group: Group, key: str, entry: Entry) -> None:
        """Put an alert, by its key, into a group, or change it there."""
        group.entries[key] = entry
        self.of.setdefault(key, set()).add(group.key)
        self._dirty.add(group.key)
        self._dirty_entries.add((group.key, key))

    def remove(self, group: Group, key: str) -> None:
        """Take an alert out of a group; a group without alerts ends."""
        group.entries.pop(key, None)
        self.of.get(key, set()).discard(group.key)
        if not self.of.get(key):
            self.of.pop(key, None)
        self._dirty.add(group.key)
        self._dirty_entries.add((group.key, key))
        self.end_if_empty(group)

    def end_if_empty(self, group: Group) -> None:
        """Drop a group that has nothing left to say."""
        if not group.entries and not group.replaced:
            self.groups.pop(group.key, None)

    def replace(self, group: Group, alert: Alert, at: float) -> None:
        """Have a group resolve an alert as it was before its labels changed."""
        group.replaced.append(evolve(alert, firing=False, at=at, what=REPLACED))
        self.groups[group.key] = group
        self._dirty.add(group.key)

    def drop(self, group: Group) -> None:
        """Drop a group with all its alerts."""
        for entry in list(group.entries.values()):
            self.remove(group, entry.alert.key)
        self.groups.pop(group.key, None)
        self._dirty.add(group.key)

    def touch(self, group: Group) -> None:
        """Have the row of a group written anew."""
        self._dirty.add(group.key)

    # ---------------------------------------------------------------------------------------------- time

    def due(self) -> float | None:
        """Return when to call `pop_due` next; None while nothing waits."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> Group | None:
        """Return a group whose time has come, the longest due first; None if there is none (any more)."""
        while self._heap and self._heap[0][0] <= now:
            at, key = heapq.heappop(self._heap)
            group = self.groups.get(key)
            if group is not None and group.due == at:
                return group
        return None

    def plan(self, group: Group, at: float | None) -> None:
        """Look at a group next at `at`, unix seconds; None: not before it changes."""
        group.due = at
        self._dirty.add(group.key)
        if at is not None:
            heapq.heappush(self._heap, (at, group.key))

    def move(self, by: float) -> None:
        """Move all times by so many seconds."""
        self._heap = []
        for group in self.groups.values():
            group.sent = None if group.sent is None else group.sent + by
            self.plan(group, None if group.due is None else group.due + by)

    # ---------------------------------------------------------------------------------------------- rows

    def changed(self) -> Changed:
        """Return the rows that differ since the last call."""
        groups = {key: self.groups[key].to_json() if key in self.groups else None for key in self._dirty}
        entries = {
            (group, key): self.groups[group].entries.get(key) if group in self.groups else None
            for group, key in self._dirty_entries
        }
        self._dirty, self._dirty_entries = set(), set()
        return Changed(groups, entries)

    def load(
        self, groups: Iterable[Mapping[str, Any]], entries: Iterable[tuple[str, Mapping[str, Any], bool, bool]]
    ) -> None:
        """Take rows of groups, and of entries: group, alert, told, fresh."""
        for document in groups:
            group = Group.from_json(document)
            self.groups[group.key] = group
        for key, document, told, fresh in entries:
            alert = Alert.from_json(document)
            self.groups[key].entries[alert.key] = Entry(alert, told, fresh)
            self.of.setdefault(alert.key, set()).add(key)

    def put_right(self, now: float) -> None:
        """Plan all groups anew by their rows; none waits longer than its timing says."""
        self._heap = []
        for group in self.groups.values():
            group.put_right(now)
            if group.due is not None:
                heapq.heappush(self._heap, (group.due, group.key))
