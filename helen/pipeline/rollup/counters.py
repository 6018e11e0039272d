"""Carries the last value of a counter over the edge of its bucket, so that sums of `increase` are what it gained.

A row of sums knows what a counter gained between its own first and last value. Its gain from the value before is a row
of its own, with `increase` and `increase_s` alone: rows of one bucket add up. A value that comes late has a value
before and one after it in the lake already, so the step between those two is taken back and given anew in two.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import date

import pyarrow as pa

from helen.pipeline.lake.kept_days import kept_from
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import held
from helen.pipeline.lake.local_days import micros_of_day
from helen.pipeline.lake.schema import SUMS
from helen.pipeline.rollup.near_rows import counters_in, rows_near
from helen.pipeline.rollup.overlaps import Overlap, made_exact, overlapping
from helen.pipeline.rollup.steps import (
    CARRIED,
    DAYS,
    Key,
    Steps,
    Stretch,
    as_rows,
    changed_steps,
    last_of,
    step_to,
    stretches,
)


class Counters:
    """Keeps the last value of each counter, for the writer of m5.

    Call `settle` once the rows are published, and `forget` if that is not known: then it reads the lake again.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._last: dict[Key, Stretch] | None = None
        self._next: dict[Key, Stretch] = {}
        self._without: set[str] = set()  # files that could not be read when these were
        self._known_from = 0  # a counter without a last value has none from here on; before, the lake is asked

    def carried(self, sums: Sequence[pa.Table], results: Callable[[], Sequence[pa.Table]] = lambda: ()) -> pa.Table:
        """Return rows of m5 with the steps to and between these new rows of sums.

        `results` gives the raw rows that the lake doesn't have yet, those of `sums` among them.
        """
        found: dict[Key, list[Stretch]] = defaultdict(list)
        for rows in sums:
            for key, stretch in stretches(rows).items():
                found[key] += stretch
        self._next = {}
        if not found:
            return SUMS.arrow.empty_table()
        last, whole_from = self._load(), self._whole_from()
        steps: Steps = {}
        late: dict[Key, list[Stretch]] = {}
        for key, rows in found.items():
            known, begin = last.get(key), min(rows).first_at
            is_late = begin <= known.last_at if known is not None else begin < self._known_from
            if is_late or begin < whole_from or overlapping(rows):
                late[key] = rows
                continue
            if (
                known is not None and len(rows) == 1
            ):  # nearly always: the same by `changed_steps`, in a tenth of the time
                step = step_to(known, rows[0])
                steps[key], self._next[key] = [step] if step is not None else [], rows[0]
                continue
            all_of = rows if known is None else [known, *rows]
            steps[key] = changed_steps([] if known is None else [known], all_of, rows)
            self._next[key] = last_of(all_of)
        steps |= self._late(late, sums, results)
        return as_rows(steps)

    def settle(self) -> None:
        """Keep the last values of the rows that were carried last: they are published."""
        if self._last is not None:
            self._last |= self._next
        self._next = {}

    def forget(self) -> None:
        """Forget all: the lake says what is published."""
        self._last, self._next = None, {}

    def _load(self) -> dict[Key, Stretch]:
        """Return the last values. They are read again when a file that they lacked was restored, or counts no more."""
        if self._last is None or not self._without <= self._lake.unread.keys():
            files = [file for file in self._lake.files(SUMS.name) if file.day is not None]
            newest = max((file.day for file in files if file.day is not None), default=date.min + DAYS)
            found: dict[Key, Stretch] = {}  # kept once it is whole: a read that fails is begun anew
            near = held(self._lake, SUMS.name, [f for f in files if f.day is not None and f.day >= newest - DAYS])
            for file in near:
                for key, rows in stretches(counters_in(self._lake, SUMS.name, file.path, None)).items():
                    known = found.get(key)
                    found[key] = last_of([*([known] if known is not None else []), *rows])
            self._last, self._without = found, {file.path for file in near} & self._lake.unread.keys()
            if files:
                self._known_from = micros_of_day(newest - DAYS) + CARRIED
        return self._last

    def _whole_from(self) -> int:
        """Return the time from which on m5 has every row that a step may begin at, microseconds since 1970.

        Only longer levels have the last values of days that retention took out of m5, even if m5 has nothing newer.
        """
        return micros_of_day(kept_from(self._lake, SUMS.name)) + CARRIED

    def _late(
        self,
        late: Mapping[Key, list[Stretch]],
        sums: Sequence[pa.Table],
        results: Callable[[], Sequence[pa.Table]],
    ) -> Steps:
        """Return the steps of counters of which the lake has later values, or values that aren't kept in memory.

        Steps that overlap are among them.
        """
        if not late:
            return {}
        everything = [row for rows in late.values() for row in rows]
        begin, end = min(everything).first_at - CARRIED, max(row.last_at for row in everything) + CARRIED
        near = rows_near(self._lake, sorted({key[0] for key in late}), begin, end)
        steps: Steps = {}
        overlaps = {}
        for key, rows in late.items():
            there = near.get(key, [])
            steps[key] = changed_steps(there, [*there, *rows], rows)
            if overlapping([*there, *rows]):
                overlaps[key] = Overlap(there, rows)
            self._keep(key, [*there, *rows])
        for key, exact in (made_exact(self._lake, overlaps, sums, results()) if overlaps else {}).items():
            steps[key] = [*(step for step in steps[key] if step.bucket not in exact.buckets), *exact.steps]
            self._keep(key, exact.rows)
        return steps

    def _keep(self, key: Key, rows: Sequence[Stretch]) -> None:
        """Keep the row that ends last, of these and what is published."""
        known = (self._last or {}).get(key)
        self._next[key] = last_of([*([known] if known else []), *rows])
