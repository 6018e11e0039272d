"""Keeps the states that were in force at the end of each week, so that a report needs no changes from before it.

A report on one day needs the last state of each check before that day, the downtimes that were still open, the rules,
and whether each Helen ran: of a year of changes a few rows for each check. The table `standing` has these rows of
`changes`, as they are, for each week that is over (UTC; its `day` is the Sunday). A week is made from the one before
and the changes since. Changes that come in later for a time before it make it anew; until then reports take an older
week.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from attrs import field, frozen
from pyspark.sql import SparkSession

from helen.pipeline.engine import run_parts
from helen.pipeline.lake.damaged_files import unreadable
from helen.pipeline.lake.day_files import write_days
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import Held, batches, between, held, read
from helen.pipeline.lake.local_days import MICROS, micros_of
from helen.pipeline.lake.log_entries import File
from helen.pipeline.lake.recorded_changes import FLEET_KINDS, TRANSITION, is_confirmed, time_of
from helen.pipeline.lake.schema import CHANGES, STANDING, WRITTEN
from helen.pipeline.rollup.job import bounds_of
from helen.pipeline.rollup.sorting import in_order
from helen.states.downtimes import WindowRefused, read_window, spans

ROWS_PER_PART = 500_000  # of changes: 200 MB in a worker
LITTLE_ROWS = 100_000
SUNDAY, WEEK = 6, timedelta(days=7)
OVER = timedelta(days=2)  # until a week counts as over: most of what is late has come
_EPOCH = date(1970, 1, 1)

Row = dict[str, Any]
Say = Callable[[str], None]


def end_of(day: date) -> int:
    """Return when a UTC day ends, microseconds since 1970."""
    return ((day - _EPOCH).days + 1) * 86_400 * MICROS


def changes_for(lake: Lake, begin: int, until: date) -> list[Held]:
    """Return the files with all changes that matter from `begin` (microseconds) on, up to a UTC day.

    They are those of the newest week that was over then and has seen everything, and the changes since.
    """
    changes = lake.files(CHANGES.name, (date.min, until))
    by_day = _by_day(lake.files(STANDING.name))
    for day in sorted(by_day, reverse=True):
        if end_of(day) <= begin and not _late(lake, day, changes):
            later = [file for file in changes if file.day is None or file.day > day]
            return [*held(lake, STANDING.name, by_day[day]), *held(lake, CHANGES.name, later)]
    return held(lake, CHANGES.name, changes)


def _by_day(files: Iterable[File]) -> dict[date, list[File]]:
    found: dict[date, list[File]] = {}
    for file in files:
        if file.day is not None:
            found.setdefault(file.day, []).append(file)
    return found


def _name(day: date) -> str:
    return f"standing:{day}"


def _late(lake: Lake, day: date, changes: Sequence[File]) -> list[File]:
    """Return the files with changes of before the end of a week that were not there when it was made."""
    done = lake.done(STANDING.name, _name(day))
    return [each for each in changes if each.fresh and (each.day or day) <= day and each.version + 1 > done]


def unseen(lake: Lake, changes: Sequence[File]) -> list[File]:
    """Return the files of changes that came late for the newest week: it must see them before they are compacted."""
    newest = max((file.day for file in lake.files(STANDING.name) if file.day is not None), default=None)
    return [] if newest is None else _late(lake, newest, changes)


def bring_up(spark: SparkSession, lake: Lake, today: date, say: Say = lambda line: None) -> int:
    """Make the weeks that are over and not there yet, and those for which changes came late. Returns how many."""
    with lake.turn:
        changes = lake.files(CHANGES.name)
    first = min((file.day for file in changes if file.day is not None), default=today)
    day, count = first + timedelta(days=(SUNDAY - first.weekday()) % 7), 0
    while day < today - OVER:
        with lake.turn:
            made, late = lake.done(STANDING.name, _name(day)), _late(lake, day, changes)
        if not made or late:
            say(f"{STANDING.name} {day}")
            _make(spark, lake, day, changes)
            count += 1
        day += WEEK
    return count


def _make(spark: SparkSession, lake: Lake, day: date, changes: Sequence[File]) -> None:
    with lake.turn:
        by_day = _by_day(lake.files(STANDING.name))
    before = by_day.get(day - WEEK, [])
    if any(unreadable(lake, STANDING.name, file) is not None for file in before):
        before = []  # made from all changes
    since = day - WEEK if before else date.min
    new = [file for file in changes if since < (file.day or day) <= day]
    sources = [*held(lake, STANDING.name, before), *held(lake, CHANGES.name, new)]
    rows = sum(file.rows for file in sources)
    bounds = bounds_of(CHANGES, sources, -(-rows // ROWS_PER_PART))
    task = StandingTask(sources, bounds, str(day), str(lake.staging(STANDING.name)))
    paths = sorted(Path(row["path"]) for row in run_parts(spark, task, len(bounds), rows, LITTLE_ROWS))
    number = max((file.version for file in changes), default=0) + 1
    with lake.turn:
        lake.publish(STANDING.name, paths, {_name(day): number}, by_day.get(day, []))


@frozen
class StandingTask:
    """Turns numbers of parts into rows that stand at the end of `day`. `bounds`: the series of each part.

    The first part has what is about many checks, too.
    """

    files: Sequence[Held]
    bounds: Sequence[tuple[int, int]]
    day: str
    staged: str

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        paths = [path for batch in numbers for part in batch.column(0).to_pylist() for path in self._part(part)]
        rows = [{"table": STANDING.name, "path": str(path), "helen": 0, "segment": 0, "folder": ""} for path in paths]
        yield pa.RecordBatch.from_pylist(rows, schema=WRITTEN.arrow)

    def _part(self, part: int) -> list[Path]:
        lowest, highest = self.bounds[part]
        paths = [file.path for file in self.files if file.may_hold(lowest, highest)]
        wanted, end = between(lowest, highest) & (pc.field("kind") == TRANSITION), end_of(date.fromisoformat(self.day))
        rows = [row for each in self._last(paths, wanted, end).values() for row in each.rows()]
        if part == 0:
            rows += of_fleet(self._of_fleet(), end)
        table = in_order(STANDING, pa.Table.from_pylist(rows, schema=STANDING.columns))
        table = table.append_column("day", pa.repeat(pa.scalar(date.fromisoformat(self.day)), table.num_rows))
        return write_days(STANDING, table, Path(self.staged) / uuid.uuid4().hex) if rows else []

    def _last(self, paths: Sequence[str], wanted: Any, end: int) -> dict[int, LastTransitions]:
        found: dict[int, LastTransitions] = {}
        for batch in batches(CHANGES, paths, CHANGES.columns.names, wanted):
            for row in batch.to_pylist():
                found.setdefault(row["series"], LastTransitions()).add(row, end)
        return found

    def _of_fleet(self) -> list[Row]:
        paths = [file.path for file in self.files]
        table = read(CHANGES, paths, CHANGES.columns.names, pc.field("kind").isin(FLEET_KINDS))
        rows: list[Row] = table.to_pylist()
        return sorted(rows, key=lambda row: (row["received"], row["at"]))


Place = tuple[int, int]


@frozen
class LastTransitions:
    """Holds of one check the transitions that a later report needs: all from the end on, and four from before it.

    They are the last one, the last confirmed one, the one that came last, and the first one unless any is confirmed.
    """

    best: dict[str, tuple[Place, Row]] = field(factory=dict)
    later: list[Row] = field(factory=list)

    def add(self, row: Row, end: int) -> None:
        """Take one more transition into account, in whatever order they come."""
        document = msgspec.json.decode(row["document"])
        time = time_of(document)
        if time is None:
            return
        place = time, row["at"]
        if time > end:
            self.later.append(row)
            return
        self._offer("last", place, row)
        self._offer("came last", (micros_of(row["received"]), row["at"]), row)
        self._offer("first", (-time, -row["at"]), row)
        if is_confirmed(document.get("now") or {}):
            self._offer("confirmed", place, row)

    def _offer(self, name: str, place: Place, row: Row) -> None:
        if name not in self.best or self.best[name][0] < place:
            self.best[name] = place, row

    def rows(self) -> list[Row]:
        """Return the rows, each once."""
        chosen = [row for name, (_, row) in self.best.items() if name != "first" or "confirmed" not in self.best]
        return [*{(row["helen"], row["at"]): row for row in [*chosen, *self.later]}.values()]


def of_fleet(rows: Iterable[Row], end: int) -> list[Row]:
    """Return of changes in order those that still stand at `end`: each Helen's last one, rules, open downtimes."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        document = msgspec.json.decode(row["document"])
        key: tuple[Any, ...]
        if row["kind"] == "downtime":
            key = "downtime", document.get("id", "")
        elif row["kind"] == "rule":
            key = "rule", document.get("agent"), row["series"]
        else:
            key = "helen", row["helen"]
        found.pop(key, None)
        if row["kind"] != "downtime" or _is_open(document, row, end):
            found[key] = row
    return [*found.values()]


def _is_open(document: Mapping[str, Any], row: Row, end: int) -> bool:
    """Return True if a downtime is on at any time from `end` on."""
    if document.get("action") == "cancel":
        return False
    fields = {name: value for name, value in document.items() if name not in ("action", "agent")}
    try:
        window = read_window({"kind": "downtime", **fields}, micros_of(row["received"]) / MICROS)
    except WindowRefused:  # of a later version: who knows when it ends
        return True
    return next(spans(window, end / MICROS), None) is not None
