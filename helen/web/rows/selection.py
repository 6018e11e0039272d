"""Picks and groups rows for a board: what a client asked for, out of the rows of an order, some a step. Pure.

Rows are never changed, only replaced, so a choice that takes several turns is of one moment.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypedDict

from attrs import frozen

from equus_protocol.results import STATUS_WORDS
from helen.agents.sight import Sight
from helen.web.rows.filters import read_filter
from helen.web.rows.orders import ROWS_A_STEP
from helen.web.rows.row import SORT_KEYS, Row, is_unwell, shown_time

FIELDS = ("agent", "check_id", "status", "since", "heard", "summary", "reason", "soft", "marks", "at")
SUMMARY_LETTERS = 200
GROUP_BY = ("agent", "check", "status")  # beside the keys of labels
NO_VALUE = "(none)"  # the group of rows whose agents lack the label
NUMBERS = {word: number for number, word in enumerate(STATUS_WORDS)}
ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))  # a tenth of a row is the spaces between values


class GroupJson(TypedDict):
    """Names a group of rows, and how many of each status are in it."""

    name: str
    counts: dict[str, int]


@frozen
class Wanted:
    """Describes the rows that a client asks for. `text` is a filter; with `all` those that are well, too.

    `sight` None: the caller is not limited to some agents.
    """

    text: str = ""
    all: bool = False
    sort: str = "problems"
    group: str = ""
    sight: Sight | None = None

    @property
    def is_narrow(self) -> bool:
        """Return True if rows that are well are left out."""
        return not self.text and not self.all

    def fitting(self, rows: Iterable[Row], now: float) -> list[Row]:
        """Return the rows that fit, in their order. `now`: unix seconds. Raises ValueError for a filter of no sense."""
        fits, sight, is_narrow = read_filter(self.text), self.sight, self.is_narrow
        return [
            row for row in rows
            if (not is_narrow or is_unwell(row)) and (sight is None or sight(row.agent)) and fits(row, now)
        ]  # fmt: skip


@frozen
class Selection:
    """Holds the rows that fit, sorted, how many have each status, and the same for each group."""

    rows: Sequence[Row]
    counts: dict[str, int]
    groups: tuple[GroupJson, ...]


class Choice:
    """Picks the rows that fit out of those of an order, ROWS_A_STEP at a step; `selection` is whole after the last.

    `now`: unix seconds. Raises ValueError for a filter of no sense.
    """

    def __init__(self, wanted: Wanted, now: float) -> None:
        self._fits, self._sight, self._now = read_filter(wanted.text), wanted.sight, now
        self.takes_all = not wanted.text and not wanted.group and wanted.sight is None  # of an order
        self._group = wanted.group
        self._rows: list[Row] = []
        self._counts = dict.fromkeys(STATUS_WORDS, 0)
        self._groups: dict[str, dict[str, int]] = {}

    def steps(self, rows: Sequence[Row]) -> Iterator[None]:
        """Look at all rows of an order."""
        fits, sight, now = self._fits, self._sight, self._now
        for first in range(0, len(rows), ROWS_A_STEP):
            self._take([
                row for row in rows[first : first + ROWS_A_STEP]
                if (sight is None or sight(row.agent)) and fits(row, now)
            ])  # fmt: skip
            yield

    def _take(self, rows: list[Row]) -> None:
        self._rows += rows
        for row in rows:
            self._counts[row.status] += 1
            if self._group:
                name = group_of(row, self._group)
                if name not in self._groups:
                    self._groups[name] = dict.fromkeys(STATUS_WORDS, 0)
                self._groups[name][row.status] += 1

    def selection(self) -> Selection:
        """Return the rows, counts and groups that were picked; 10,000 groups take some 20 ms."""
        groups: list[GroupJson] = [{"name": name, "counts": counts} for name, counts in self._groups.items()]
        groups.sort(key=lambda group: (*(-group["counts"][word] for word in WORST), group["name"]))
        return Selection(self._rows, self._counts, tuple(groups))

    @property
    def has_many_groups(self) -> bool:
        """Return True if so many groups were found that they have to be sorted elsewhere."""
        return len(self._groups) > MANY_GROUPS


WORST = ("critical", "unknown", "warning")
MANY_GROUPS = 500  # which are sorted within a millisecond


def place_of(sort: str, row: Row) -> tuple[Any, ...]:
    """Return the place of a row in an order: numbers and texts, the names of agent and check last."""
    return tuple(SORT_KEYS[sort](row))


def group_of(row: Row, key: str) -> str:
    """Return the name of the group of a row by agent, check, status or the value of a label."""
    if key == "agent":
        return row.agent
    if key == "check":
        return row.shown_check
    return row.status if key == "status" else row.labels.get(key, NO_VALUE)


def values_of(row: Row) -> list[Any]:
    """Return the values of a row in the order of FIELDS, for JSON."""
    return [
        row.agent, row.check, NUMBERS[row.status], shown_time(row.since),
        None if row.heard is None else shown_time(row.heard), row.summary[:SUMMARY_LETTERS], row.reason, row.soft,
        row.marks, row.at,
    ]  # fmt: skip


def encode(rows: Iterable[Row], strips: Iterable[str] | None = None) -> str:
    """Return rows as JSON without the outer brackets: arrays of the values of FIELDS, and of strips where given."""
    if strips is None:
        return ENCODER.encode([values_of(row) for row in rows])[1:-1]
    return ENCODER.encode([[*values_of(row), strip] for row, strip in zip(rows, strips, strict=True)])[1:-1]
