"""Puts one micro-batch into the lake, exactly once; `foreachBatch` calls it.

    (tasks write files) -> names of new series -> m5 -> segments -> results -> changes

Each table is published with the numbers of the segments that its entry holds, per Helen. Segments that a table has
already are left out, table by table, so it doesn't matter where a run ended, nor whether Spark's checkpoint is still
there. Files of a task count only if Spark took its answer: attempts that failed leave files that no entry names.

The table `results` is published after the sums: until then no row of this very batch can be taken for an older one
when the lake is searched for results that two Helens have got.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from attrs import frozen

from helen.pipeline.ingest import histories, missing
from helen.pipeline.ingest.claims import check_claim
from helen.pipeline.ingest.dedup import Deduplicator
from helen.pipeline.ingest.earlier_segments import list_earlier
from helen.pipeline.ingest.histories import History
from helen.pipeline.ingest.series_names import SeriesNames
from helen.pipeline.ingest.taken import READMITTED, as_rows, taken_of
from helen.pipeline.ingest.task import BAD, LACK, Place, Task
from helen.pipeline.lake.day_files import write_days
from helen.pipeline.lake.errors import BadSegment, NoSuchSeries, OutOfResources
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.places import read_columns
from helen.pipeline.lake.read_errors import READ_ERRORS, segment_error
from helen.pipeline.lake.schema import CHANGES, RESULTS, SEGMENTS, SOURCE, SUMS, TAKEN, WRITTEN
from helen.pipeline.rollup.counters import Counters
from helen.pipeline.rollup.overlaps import OF_RESULTS, OF_SUMS
from helen.pipeline.rollup.segment_rows import micros, rows_of, sums_of
from helen.pipeline.rollup.steps import COLUMNS
from helen.pipeline.worker_memory import GivingBack

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHANGES_AT_ONCE = 500  # segments of changes per entry: a transition is 300 bytes, so this is some 100 MB at worst
# Most that is read in this process instead of by Spark: at the pace of 1,000 agents that saves half of the CPU time.
LITTLE_SEGMENTS, LITTLE_BYTES = 2, 16 << 20
# The sums first: see above. The list of segments says what comes into `results`, so it is there before.
IN_ORDER = (SUMS.name, TAKEN.name, RESULTS.name)
_OF_COUNTERS = [*dict.fromkeys((*COLUMNS, *OF_SUMS))]
POINTS = ("begun", "written", "named", *(f"{table}-published" for table in (*IN_ORDER, CHANGES.name)))


@frozen
class BatchCounts:
    """Counts the rows of one micro-batch."""

    results: int = 0
    changes: int = 0


class Sink:
    """Publishes micro-batches of these histories. `reached` is called at each of POINTS: tests kill it there.

    `here` says that a little may be read in this process.
    """

    def __init__(
        self,
        lake: Lake,
        names: SeriesNames,
        numbered: Mapping[int, History],
        reached: Callable[[str], None] = lambda point: None,
        here: bool = True,
    ) -> None:
        self._lake = lake
        self._names = names
        self._here = here
        self.histories = numbered
        self.caps: dict[tuple[int, str], int] = {}  # the last segment to read, by Helen and kind
        self._ids = {helen: history.identity() for helen, history in numbered.items()}
        self._reached = reached
        self._deduplicator = Deduplicator(lake, names)
        self._counters = Counters(lake)
        self._numbers: tuple[pa.Table, dict[int, Any]] | None = None  # of this mapping
        list_earlier(lake, self._ids)

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the tables that results go into, in the order in which they are published."""
        return IN_ORDER

    def transaction(self, helen: int, kind: str) -> str:
        """Return the name under which a table notes how far it is in the segments of a Helen."""
        return f"{kind}:{self._ids[helen]}"

    def done(self, table: str, kind: str = histories.RESULTS) -> dict[int, int]:
        """Return the last segment of each Helen that this table has: {HELEN: NUMBER}."""
        return {helen: self._lake.done(table, f"{kind}:{name}") for helen, name in self._ids.items()}

    def start(self) -> dict[str, dict[str, int]]:
        """Return where a stream without a checkpoint begins, behind all tables: {"HELEN": {"seg": n, "chg": m}}."""
        done = [self.done(table) for table in IN_ORDER]
        changes = self.done(CHANGES.name, histories.CHANGES)
        return {
            str(helen): {histories.RESULTS: min(each[helen] for each in done), histories.CHANGES: changes[helen]}
            for helen in self.histories
        }

    def check(self) -> None:
        """Raise MissingSegments if a history lacks what the lake needs next, and Helen can't have deleted it."""
        changes = self.done(CHANGES.name, histories.CHANGES)
        results = {table: self.done(table) for table in IN_ORDER}
        for helen, history in self.histories.items():
            missing.check(history, {table: done[helen] for table, done in results.items()}, changes[helen])

    def commit(self) -> None:
        """Tell each Helen how far the tables are, so that it may delete its segments."""
        for helen, numbers in self.start().items():
            check_claim(self.histories[int(helen)], self._lake.folder)
            for kind, number in numbers.items():
                self.histories[int(helen)].commit(kind, number)

    def take(self, batch: DataFrame) -> BatchCounts:
        """Publish one micro-batch, and all segments since it began. May be called again with the same one."""
        self._reached("begun")
        self.check()
        done = {table: self.done(table) for table in IN_ORDER}
        little = self._little(done)
        mapping = self._names.map(self.histories)  # after the look: Helen names a series before a segment has it
        return BatchCounts(self._take_results(batch, done, little, mapping), self._take_changes())

    def _take_results(
        self, batch: DataFrame, done: Mapping[str, dict[int, int]], little: pa.Table | None, mapping: pa.Table
    ) -> int:
        staged = {table: self._lake.staging(table) for table in done}
        dropped = {}
        if len(self.histories) > 1:
            places = _new(batch.toArrow() if little is None else little, done)
            dropped = self._deduplicator.duplicates(places, self.histories, mapping)
        carry = None if little is None else self._counters.carried
        task = Task({t: str(path) for t, path in staged.items()}, done, self._numbers_of(mapping), dropped, carry)
        if little is None:
            written = batch.mapInArrow(GivingBack(task), WRITTEN.ddl).toArrow().to_pylist()
        else:
            written = [row for made in task(little.to_batches()) for row in made.to_pylist()]
        for row in written:
            if row["table"] == LACK:
                raise OutOfResources(row["path"])
            if row["table"] == BAD:
                raise self._bad(row["helen"], histories.RESULTS, row["segment"], row["path"])
        self._reached("written")
        self._names.name(_series_in(row["path"] for row in written if row["table"] == RESULTS.name))
        self._reached("named")
        ends: dict[int, int] = {}
        for row in written:
            if row["path"] is None:
                ends[row["helen"]] = max(ends.get(row["helen"], 0), row["segment"])
        count = 0
        for table, before in done.items():
            if any(end > before[helen] for helen, end in ends.items()):
                files = [Path(row["path"]) for row in written if row["table"] == table]
                transactions = self._transactions(ends, before, histories.RESULTS)
                if table == SUMS.name:
                    raw = [row["path"] for row in written if row["table"] == RESULTS.name]
                    count = self._publish_sums(files, transactions, raw if carry is None else None)
                else:
                    count = self._lake.publish(table, files, transactions)
                self._reached(f"{table}-published")
            self._lake.discard(staged[table])
        return count

    def _publish_sums(
        self, files: Sequence[Path], transactions: Mapping[str, int], results: Sequence[str] | None
    ) -> int:
        """Publish rows of m5 with the steps of counters between them, and remember the last values.

        `results` are the files of raw rows that the lake doesn't have yet; None where the steps are among the rows.
        """
        try:
            steps = SUMS.arrow.empty_table()
            if results is not None:
                sums = [read_columns(path, _OF_COUNTERS) for path in files]
                steps = self._counters.carried(sums, lambda: [read_columns(path, OF_RESULTS) for path in results])
            more = self._lake.stage_rows(SUMS.name, steps) if steps.num_rows else []
            new = [*files, *more]
            count = self._lake.publish(SUMS.name, new, transactions, adding={*new})
        except BaseException:
            self._counters.forget()
            raise
        self._counters.settle()
        return count

    def _little(self, done: Mapping[str, Mapping[int, int]]) -> pa.Table | None:
        """Return all segments that wait, if they are few and small enough to be read in this process; else None.

        They include the batch, because a segment is there before the batch that has it begins. A Spark job costs
        several times as much as the work on 20,000 results does here.
        """
        if not self._here:
            return None
        named, size = [], 0
        for helen, history in self.histories.items():
            first = min(each[helen] for each in done.values())
            reach = self._reach(helen, histories.RESULTS, first, LITTLE_SEGMENTS + 1)
            for number in range(reach[0], reach[1] + 1) if reach is not None else ():
                named.append({"helen": helen, "segment": number, "folder": str(history.folder)})
                size += history.size(histories.RESULTS, number)
        if len(named) > LITTLE_SEGMENTS or size > LITTLE_BYTES:
            return None
        return pa.Table.from_pylist(named, schema=SEGMENTS.arrow)

    def _reach(self, helen: int, kind: str, number: int, most: int) -> tuple[int, int] | None:
        """Return the first and the last segment to read next: none from a bad one on, while others are taken."""
        reach, cap = self.histories[helen].next_after(kind, number, most), self.caps.get((helen, kind))
        if reach is None or cap is None:
            return reach
        return (reach[0], min(reach[1], cap)) if reach[0] <= cap else None

    def _bad(self, helen: int, kind: str, number: int, reason: object) -> BadSegment:
        return BadSegment(helen, kind, number, self.histories[helen].path(kind, number), reason)

    def _numbers_of(self, mapping: pa.Table) -> dict[int, Any]:
        if self._numbers is None or self._numbers[0] is not mapping:
            self._numbers = mapping, numbers_of(mapping, self.histories)
        return self._numbers[1]

    def _take_changes(self) -> int:
        count = 0
        while True:
            found, ends, before = [], {}, self.done("changes", histories.CHANGES)
            for helen, done in before.items():
                reach = self._reach(helen, histories.CHANGES, done, CHANGES_AT_ONCE)
                if reach is not None:
                    ends[helen] = reach[1]
                    found += [(helen, number) for number in range(reach[0], reach[1] + 1)]
            if not ends:
                return count
            mapping = self._names.map(self.histories)  # after the look, again
            tables = [self._read_changes(helen, number, mapping) for helen, number in found]
            self._names.name(table["series"] for table in tables)
            files = self._lake.stage_rows("changes", pa.concat_tables(tables))
            count += self._lake.publish("changes", files, self._transactions(ends, before, histories.CHANGES))
            self._reached("changes-published")

    def _read_changes(self, helen: int, number: int, mapping: pa.Table) -> pa.Table:
        try:
            return read_changes(self.histories[helen], helen, number, mapping)
        except READ_ERRORS as error:
            path = self.histories[helen].path(histories.CHANGES, number)
            raise segment_error(helen, histories.CHANGES, number, path, error) from error

    def take_again(self, place: History, helen: int, kind: str, number: int) -> None:
        """Publish one segment that was set aside, from this place. Raises BadSegment, OSError."""
        mapping, path = self._names.map(self.histories), place.path(kind, number)
        path.stat()
        name = f"again:{kind}:{number}:{self._ids[helen]}"
        tables = IN_ORDER if kind == histories.RESULTS else (TAKEN.name, CHANGES.name)
        staged = {table: self._lake.staging(table) for table in tables if not self._lake.done(table, name)}
        rows = self._rows_again(place, helen, kind, number, mapping)
        self._names.name(table["series"] for table in rows.values() if "series" in table.schema.names)
        made = {}
        for table, folder in staged.items():
            made[table] = write_days(self._lake.tables[table], rows[table], folder)
        for table, files in made.items():
            if table == SUMS.name:
                self._publish_sums(files, {name: 1}, [*map(str, made[RESULTS.name])])
            else:
                self._lake.publish(table, files, {name: 1})

    def _rows_again(self, place: History, helen: int, kind: str, number: int, mapping: pa.Table) -> dict[str, pa.Table]:
        """Return the rows of a segment for each table."""
        try:
            if kind == histories.CHANGES:
                rows = read_changes(place, helen, number, mapping)
                heard = micros(rows["received"])
                note = {
                    "rows": rows.num_rows,
                    "begin": int(heard.min()),
                    "end": int(heard.max()),
                    "first": 0,
                    "last": -1,
                }
                noted = as_rows([{"helen": helen, "kind": kind, "segment": number, "dropped": 0, "digest": 0,
                                  "state": READMITTED, "why": None, **note}])  # fmt: skip
                return {CHANGES.name: rows, TAKEN.name: noted}
            stored = pq.read_table(place.path(kind, number), schema=SOURCE.stored)
        except READ_ERRORS as error:
            raise segment_error(helen, kind, number, place.path(kind, number), error) from error
        dropped = {}
        if len(self.histories) > 1:
            dropped = self._deduplicator.duplicates([(helen, number)], {helen: place}, mapping)
        numbers = self._numbers_of(mapping)[helen]
        rows = rows_of(stored, helen, number, numbers, dropped.get((helen, number), frozenset()))
        noted = taken_of(stored, rows, helen, number, READMITTED)
        return {SUMS.name: sums_of(rows), TAKEN.name: noted, RESULTS.name: rows}

    def _transactions(self, ends: Mapping[int, int], before: Mapping[int, int], kind: str) -> dict[str, int]:
        """Return the transactions, never less than there was: a table may be ahead of a batch that is done again."""
        return {f"{kind}:{self._ids[helen]}": max(end, before[helen]) for helen, end in ends.items()}


def _series_in(paths: Iterable[str]) -> Iterator[pa.ChunkedArray]:
    return (read_columns(path, ["series"])["series"] for path in paths)


def _new(named: pa.Table, done: Mapping[str, Mapping[int, int]]) -> list[Place]:
    """Return the segments that `results` lacks; first those that the sums have, where a run ended between the entries.

    If a result exists at two Helens, the copy that is already counted in the sums must become the one in `results`.
    """
    places = [(row["helen"], row["segment"]) for row in named.to_pylist()]
    new = [place for place in places if place[1] > done[RESULTS.name][place[0]]]
    return sorted(new, key=lambda place: (place[1] > done[SUMS.name][place[0]], place))


def numbers_of(mapping: pa.Table, helens: Iterable[int]) -> dict[int, Any]:
    """Return for each Helen an array: {HELEN: series_id -> series}."""
    found = {}
    for helen in helens:
        ours = mapping.filter(pc.equal(mapping["helen"], helen))
        ids, series = ours["series_id"].to_numpy(), ours["series"].to_numpy()
        numbers = np.full(int(ids.max()) + 1 if len(ids) else 0, -1, np.int32)
        numbers[ids] = series
        found[helen] = numbers
    return found


def read_changes(history: History, helen: int, number: int, mapping: pa.Table) -> pa.Table:
    """Return one segment of changes as rows of the lake. Raises NoSuchSeries."""
    stored = pq.read_table(history.path(histories.CHANGES, number))
    ours = mapping.filter(pc.equal(mapping["helen"], helen))
    numbers = dict(zip(ours["series_id"].to_pylist(), ours["series"].to_pylist(), strict=True)) | {None: None}
    if unknown := sorted(set(stored["series_id"].to_pylist()) - numbers.keys()):
        raise NoSuchSeries(history.path(histories.CHANGES, number), unknown)
    columns = {
        "helen": pa.repeat(pa.scalar(helen, pa.int32()), stored.num_rows),
        "segment": pa.repeat(pa.scalar(number, pa.int64()), stored.num_rows),
        "at": stored["at"],
        "received": stored["received"],
        "series": pa.array([numbers[each] for each in stored["series_id"].to_pylist()], pa.int32()),
        "kind": stored["kind"],
        "document": stored["document"],
        "day": pc.cast(stored["received"], pa.date32(), safe=False),
    }
    return pa.table([columns[name] for name in CHANGES.arrow.names], schema=CHANGES.arrow)
