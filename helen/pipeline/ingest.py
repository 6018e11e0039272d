"""One micro-batch into the lake, exactly once: what `foreachBatch` calls.

    names of new series -> (tasks write files) -> m5 -> results -> changes

Each table is published with the numbers of the segments that its entry holds, per Helen. What a table has already is
left out, table by table, so it doesn't matter where a run ended, nor whether Spark's checkpoint is still there. Files
that a task wrote count only if it was its answer that Spark took: attempts that failed leave files nobody names.

The results come last of what is made of results: until then no row of this very batch can be taken for an older one
when spools that two Helens have seen are looked through for doubles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from attrs import frozen

from helen.pipeline import histories
from helen.pipeline.doubles import Doubles
from helen.pipeline.errors import NoSuchSeries
from helen.pipeline.histories import History
from helen.pipeline.lake import Lake
from helen.pipeline.naming import Names
from helen.pipeline.schema import CHANGES, SEGMENTS, WRITTEN
from helen.pipeline.task import Place, Task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHANGES_AT_ONCE = 500  # segments of changes per entry: a transition is 300 bytes, so this is some 100 MB at worst
# What may wait and be digested in this process: at the pace of 1,000 agents that saves half of the CPU time.
LITTLE_SEGMENTS, LITTLE_BYTES = 2, 16 << 20
POINTS = ("begun", "named", "written", "m5-published", "results-published", "changes-published")


@frozen
class Ingested:
    """What one micro-batch brought."""

    results: int = 0
    changes: int = 0


class Sink:
    """Publishes micro-batches of these histories. `reached` is told each of POINTS: tests end the process there."""

    def __init__(
        self,
        lake: Lake,
        names: Names,
        numbered: Mapping[int, History],
        reached: Callable[[str], None] = lambda point: None,
    ) -> None:
        self._lake = lake
        self._names = names
        self.histories = numbered
        self._ids = {helen: history.identity() for helen, history in numbered.items()}
        self._reached = reached
        self._doubles = Doubles(lake, names)
        self._numbers: tuple[pa.Table, dict[int, Any]] | None = None  # of this mapping

    def done(self, table: str, kind: str = histories.RESULTS) -> dict[int, int]:
        """The last segment of each Helen that this table has."""
        return {helen: self._lake.done(table, f"{kind}:{name}") for helen, name in self._ids.items()}

    def start(self) -> dict[str, dict[str, int]]:
        """Where a stream without a checkpoint begins: behind what every table has."""
        results, sums, changes = self.done("results"), self.done("m5"), self.done("changes", histories.CHANGES)
        return {
            str(helen): {histories.RESULTS: min(results[helen], sums[helen]), histories.CHANGES: changes[helen]}
            for helen in self.histories
        }

    def commit(self) -> None:
        """Tell each Helen what is published."""
        for helen, numbers in self.start().items():
            for kind, number in numbers.items():
                self.histories[int(helen)].commit(kind, number)

    def take(self, batch: DataFrame) -> Ingested:
        """Publish one micro-batch, and what has come since it began. May be called again with the same one."""
        self._reached("begun")
        done = {table: self.done(table) for table in ("m5", "results")}  # in the order in which they are published
        little = self._little(done)
        mapping = self._names.map(self.histories)  # after the look: Helen names a series before a segment has it
        self._reached("named")
        return Ingested(self._take_results(batch, done, little, mapping), self._take_changes())

    def _take_results(
        self, batch: DataFrame, done: Mapping[str, dict[int, int]], little: pa.Table | None, mapping: pa.Table
    ) -> int:
        staged = {table: self._lake.staging(table) for table in done}
        dropped = {}
        if len(self.histories) > 1:
            places = _new(batch.toArrow() if little is None else little, done)
            dropped = self._doubles.find(places, self.histories, mapping)
        task = Task({t: str(path) for t, path in staged.items()}, done, self._numbers_of(mapping), dropped)
        if little is None:
            written = batch.mapInArrow(task, WRITTEN.ddl).toArrow().to_pylist()
        else:
            written = [row for made in task(little.to_batches()) for row in made.to_pylist()]
        self._reached("written")
        ends: dict[int, int] = {}
        for row in written:
            if row["path"] is None:
                ends[row["helen"]] = max(ends.get(row["helen"], 0), row["segment"])
        count = 0
        for table, before in done.items():
            if any(end > before[helen] for helen, end in ends.items()):
                files = [Path(row["path"]) for row in written if row["table"] == table]
                transactions = self._transactions(ends, before, histories.RESULTS)
                count = self._lake.publish(table, files, transactions)
                self._reached(f"{table}-published")
            self._lake.discard(staged[table])
        return count

    def _little(self, done: Mapping[str, Mapping[int, int]]) -> pa.Table | None:
        """All segments that wait, where a fleet sends so much in a few seconds; None where there is more.

        The batch is among them, because a segment is there before the batch that has it begins. So Spark needn't run
        anything: each job of hers costs several times what is done with 20,000 results.
        """
        named, size = [], 0
        for helen, history in self.histories.items():
            first = min(each[helen] for each in done.values())
            reach = history.next_after(histories.RESULTS, first, LITTLE_SEGMENTS + 1)
            for number in range(reach[0], reach[1] + 1) if reach is not None else ():
                named.append({"helen": helen, "segment": number, "folder": str(history.folder)})
                size += history.size(histories.RESULTS, number)
        if len(named) > LITTLE_SEGMENTS or size > LITTLE_BYTES:
            return None
        return pa.Table.from_pylist(named, schema=SEGMENTS.arrow)

    def _numbers_of(self, mapping: pa.Table) -> dict[int, Any]:
        if self._numbers is None or self._numbers[0] is not mapping:
            self._numbers = mapping, numbers_of(mapping, self.histories)
        return self._numbers[1]

    def _take_changes(self) -> int:
        count = 0
        while True:
            found, ends, before = [], {}, self.done("changes", histories.CHANGES)
            for helen, done in before.items():
                reach = self.histories[helen].next_after(histories.CHANGES, done, CHANGES_AT_ONCE)
                if reach is not None:
                    ends[helen] = reach[1]
                    found += [(helen, number) for number in range(reach[0], reach[1] + 1)]
            if not ends:
                return count
            mapping = self._names.map(self.histories)  # after the look, again
            tables = [read_changes(self.histories[helen], helen, number, mapping) for helen, number in found]
            files = self._lake.stage_rows("changes", pa.concat_tables(tables))
            count += self._lake.publish("changes", files, self._transactions(ends, before, histories.CHANGES))
            self._reached("changes-published")

    def _transactions(self, ends: Mapping[int, int], before: Mapping[int, int], kind: str) -> dict[str, int]:
        """Never less than there was: a table may be ahead of the batch that is done again."""
        return {f"{kind}:{self._ids[helen]}": max(end, before[helen]) for helen, end in ends.items()}


def _new(named: pa.Table, done: Mapping[str, Mapping[int, int]]) -> list[Place]:
    """Segments whose results aren't there yet; first those that m5 has, where a run ended between the two entries.

    Of a result that two Helens have got it is the one in m5 that must become the one in `results`.
    """
    places = [(row["helen"], row["segment"]) for row in named.to_pylist()]
    new = [place for place in places if place[1] > done["results"][place[0]]]
    return sorted(new, key=lambda place: (place[1] > done["m5"][place[0]], place))


def numbers_of(mapping: pa.Table, helens: Iterable[int]) -> dict[int, Any]:
    """For each Helen an array: series_id -> series."""
    found = {}
    for helen in helens:
        ours = mapping.filter(pc.equal(mapping["helen"], helen))
        ids, series = ours["series_id"].to_numpy(), ours["series"].to_numpy()
        numbers = np.full(int(ids.max()) + 1 if len(ids) else 0, -1, np.int32)
        numbers[ids] = series
        found[helen] = numbers
    return found


def read_changes(history: History, helen: int, number: int, mapping: pa.Table) -> pa.Table:
    """One segment of changes as rows of the lake."""
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
