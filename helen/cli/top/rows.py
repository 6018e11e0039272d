"""Join results and states to the rows of `helen top`, one for each check on each agent, and sort them. Pure.

helen/cli/top/feed.py asks Helen for them, helen/cli/top/view.py draws them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from helen.web.rows.row import LETTERS, SORT_KEYS, Key, Row, row_of


@frozen
class Update:
    """Hold the answers of one round of requests. A whole update replaces all rows; else it has the new results."""

    status: Mapping[str, Any]
    results: tuple[Mapping[str, Any], ...]
    states: tuple[Mapping[str, Any], ...]
    labels: Mapping[str, Mapping[str, str]] | None = None  # by agent; None: as before
    whole: bool = False


class Rows:
    """Hold all rows. The cost of `take` is that of the rows that have changed."""

    def __init__(self) -> None:
        self.rows: dict[Key, Row] = {}
        self.status: Mapping[str, Any] = {}
        self._results: dict[Key, Mapping[str, Any]] = {}
        self._states: dict[Key, Mapping[str, Any]] = {}
        self._labels: Mapping[str, Mapping[str, str]] = {}

    def take(self, update: Update) -> None:
        """Take an update, and join the rows again that it touches."""
        self.status = update.status
        new = {_key(result): result for result in update.results}
        states = {_key(state): state for state in update.states}
        before = self._states
        if update.whole:
            self._results, self.rows, touched = new, {}, new.keys() | states.keys()
        else:
            self._results |= new
            touched = new.keys() | {key for key in states.keys() | before.keys() if states.get(key) != before.get(key)}
        if update.labels is not None and update.labels != self._labels:
            self._labels = update.labels
            touched = touched | self.rows.keys()
        self._states = states
        for key in touched:
            self._join(key)

    def _join(self, key: Key) -> None:
        result, state = self._results.get(key), self._states.get(key)
        if result is None and state is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = row_of(key, result or {}, state or {}, self._labels.get(key[0], {}))

    def counts(self) -> dict[str, int]:
        """Return the number of rows of each status."""
        counted = dict.fromkeys(LETTERS, 0)
        for row in self.rows.values():
            counted[row.status] += 1
        return counted

    def view(self, fits: Callable[[Row, float], bool], sort: str, now: float) -> list[Row]:
        """Return the rows that fit, in this order, and by name where it leaves them equal; `now` is unix seconds."""
        return sorted((row for row in self.rows.values() if fits(row, now)), key=SORT_KEYS[sort])


def _key(document: Mapping[str, Any]) -> Key:
    return document["agent"], document["check_id"]
