"""Finds changes of the past, a page at a time: in the lake, then in segments, then in memory. Blocks: for a thread.

Each change is in one of the three by its number: the lake has those below the oldest segment, memory those above the
newest one. Files are found by bisection, and few are read for one page, which says where the next one begins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from attrs import frozen

from helen.evaluation.event_log import Line
from helen.evaluation.replay import CHANGE_COLUMNS, HistoryRecord, read_change, series_names
from helen.evaluation.segment_footers import first_at, first_from, last_at, newest, oldest
from helen.journal import lazy_parquet as pq
from helen.journal.unread import demand_content

MOST_FILES = 400  # segments that are read for one page
MOST_LOOKED = 100_000  # changes that are looked at for one page
PAGE_BYTES = 4 * 1024 * 1024  # of one page: rules of a great schedule have 100 KiB each
OUT_OF_ORDER = 60.0  # seconds by which `received` may go back from one file to the next: a clock that was set
MICROS = 1_000_000
Place = tuple[int, int]  # of a change: its number, and when it came in microseconds since 1970


class OlderChanges(Protocol):
    """Describes the lake as far as it is needed here."""

    def oldest(self) -> float | None:
        """Return when its oldest change came, unix seconds; None if it has none."""

    def changes(self, **question: Any) -> Iterator[dict[str, Any]]:
        """Return rows {"at", "received" (microseconds), "agent", "check_id", "kind", "document"} in order of time."""


@frozen
class Question:
    """Asks for changes from `begin` to `end`, unix seconds, with a number above `above`; `after`: the page before."""

    begin: float
    end: float
    limit: int
    fits: Callable[[Line], bool]
    kinds: Sequence[str] = ()
    above: int = 0
    after: Place | None = None

    @property
    def seen(self) -> int:
        """Return the number up to which segments and memory have nothing new."""
        return max(self.above, 0 if self.after is None else self.after[0])


@frozen
class Page:
    """Holds lines in their order, where the next page begins (None: that was all), and since when all is known."""

    lines: Sequence[Line]
    next: Place | None
    known_from: float | None


@frozen
class PastChanges:
    """Reads the past of one Helen. `memory` has all changes above `floor`; `line_of` writes a record as a line."""

    history: Path
    lake: OlderChanges
    memory: Sequence[Line]
    floor: int
    line_of: Callable[[HistoryRecord], Line]

    def page(self, question: Question) -> Page:
        """Return the next changes. Raises what the lake raises."""
        files = sorted((self.history / "segments").glob("chg-*.parquet"))
        first = next((at for at in map(first_at, files) if at is not None), self.floor + 1)
        wanted = self._files(files, question)
        read, is_cut = wanted[:MOST_FILES], len(wanted) > MOST_FILES
        candidates = chain(
            self._of_lake(question, first),
            (line for line in self._of_segments(read, question.kinds) if line.at > question.seen),
            () if is_cut else (line for line in self.memory if line.at > question.seen),
        )
        lines, place = _cut(candidates, question)
        if place is None and is_cut:
            place = (last_at(read[-1]), 0)
        return Page(lines, place, self._known_from(files))

    def _known_from(self, files: Sequence[Path]) -> float | None:
        known = [self.lake.oldest(), *map(oldest, files[:1]), *(line.received for line in self.memory[:1])]
        return min((each for each in known if each), default=None)

    def _files(self, files: Sequence[Path], question: Question) -> Sequence[Path]:
        """Return the segments with something of the time that is asked for, and above the place of the page before."""
        begin, end = question.begin - OUT_OF_ORDER, question.end + OUT_OF_ORDER
        low = first_from(files, lambda path: newest(path) < begin)
        low = max(low, first_from(files, lambda path: last_at(path) <= question.seen))
        return files[low : first_from(files, lambda path: oldest(path) <= end)]

    def _of_segments(self, files: Sequence[Path], kinds: Sequence[str]) -> Iterator[Line]:
        names = series_names(self.history / "series.parquet") if files else {}

        def named(number: int | None) -> tuple[str | None, str | None]:
            return (None, None) if number is None else names.get(number, (None, None))

        for path in files:
            try:
                rows = pq.read_table(path, columns=CHANGE_COLUMNS).to_pylist()
            except (OSError, pa.ArrowException) as error:
                demand_content(path, error)
                continue  # deleted meanwhile, or damaged: helen.journal.verify reports it
            for row in sorted(rows, key=lambda row: int(row["at"])):
                if row["at"] <= self.floor and (not kinds or row["kind"] in kinds):
                    yield self.line_of(read_change(row, named))

    def _of_lake(self, question: Question, first: int) -> Iterator[Line]:
        """Give the changes below the number of the first segment, unless a page before has got as far."""
        after = question.after
        if question.seen >= first - 1:
            return
        asked = {
            "begin": round(question.begin * MICROS), "end": math.ceil(question.end * MICROS), "before": first,
            "after": None if after is None else (after[1], after[0]), "kinds": question.kinds,
        }  # fmt: skip
        for row in self.lake.changes(**asked):
            if row["at"] <= question.above:
                continue
            yield self.line_of(HistoryRecord(
                row["at"], row["received"] / MICROS, row["kind"], row["agent"], row["check_id"],
                document=row["document"],
            ))  # fmt: skip


def _cut(candidates: Iterable[Line], question: Question) -> tuple[list[Line], Place | None]:
    """Return the lines of a page, and the place up to which it looked if there are more."""
    lines, size = list[Line](), 0
    before = None
    for looked, line in enumerate(candidates):
        if looked == MOST_LOOKED and before is not None:
            return lines, _place(before)
        before = line
        if not question.begin <= line.received <= question.end or not question.fits(line):
            continue
        if len(lines) >= question.limit or (lines and size + len(line.frame) > PAGE_BYTES):
            return lines, _place(lines[-1])
        lines.append(line)
        size += len(line.frame)
    return lines, None


def _place(line: Line) -> Place:
    return line.at, round(line.received * MICROS)
