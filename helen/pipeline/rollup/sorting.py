"""Puts the files of one day of a table together, sorted, in tasks as ingestion has. Arrow, no Spark frames.

Rows with blobs cost Spark several times as much: it reads them one by one, sorts them as rows of the JVM and encodes
them again. Memory is bounded: what doesn't fit into RUN_ROWS is sorted piece by piece into runs on the disk, and these
are merged by ranges of the first sort column. Each row is decoded once and encoded once, however many there are.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field, frozen
from pyspark.sql import SparkSession

from helen.pipeline.engine import run_parts
from helen.pipeline.lake.day_files import open_writer
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import MOST, Held, batches, between, held
from helen.pipeline.lake.log_entries import File
from helen.pipeline.lake.places import make_folder
from helen.pipeline.lake.schema import AVAILABILITY, WRITTEN, Table
from helen.pipeline.lake.stores import is_stored
from helen.pipeline.rollup.job import bounds_of

RUN_ROWS, RUN_BYTES = 500_000, 256 << 20  # that are sorted at once: a quarter of a worker's memory
PIECE_ROWS = 16_384  # of a run: what is read of it for a range, at least
LITTLE_ROWS = 150_000  # that are put together in the driver: 100 MB with their blobs
VERSIONED = ("series", "date", "zone", "profile")  # key of a row of availability_daily: its newest version counts

Array = Any  # of numpy


@frozen
class SortTask:
    """Turns numbers of parts into sorted files. `bounds`: the lowest and the highest series of each part."""

    table: Table
    day: str
    files: Sequence[Held]
    bounds: Sequence[tuple[int, int]]
    staged: str
    run_rows: int = RUN_ROWS

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        paths = [path for batch in numbers for part in batch.column(0).to_pylist() for path in self._part(part)]
        rows = [{"table": self.table.name, "path": str(path), "helen": 0, "segment": 0, "folder": ""} for path in paths]
        yield pa.RecordBatch.from_pylist(rows, schema=WRITTEN.arrow)

    def _part(self, part: int) -> list[Path]:
        folder = Path(self.staged) / uuid.uuid4().hex
        target = folder / self.day / "part.parquet"
        if is_stored(folder):
            with tempfile.TemporaryDirectory(prefix="helen-runs-") as scratch:
                return self._sort(part, target, Runs(self.table, Path(scratch)))
        return self._sort(part, target, Runs(self.table, folder / "runs"))

    def _sort(self, part: int, target: Path, runs: Runs) -> list[Path]:
        make_folder(target.parent)
        held_rows: list[pa.RecordBatch] = []
        for batch in self._read(part):
            held_rows.append(batch)
            if sum(each.num_rows for each in held_rows) >= self.run_rows or _bytes(held_rows) >= RUN_BYTES:
                runs.add(self._sorted(held_rows))
                held_rows = []
        last = self._sorted(held_rows)
        if not runs.paths and not last.num_rows:
            return []
        with open_writer(self.table, target) as writer:
            if not runs.paths:
                writer.write_table(last, row_group_size=self.table.rows_per_group)
                return [target]
            runs.add(last)
            del last, held_rows
            for lowest, highest in runs.ranges(self.run_rows):
                rows = runs.read(lowest, highest)
                writer.write_table(in_order(self.table, rows), row_group_size=self.table.rows_per_group)
        shutil.rmtree(runs.folder)
        return [target]

    def _read(self, part: int) -> Iterator[pa.RecordBatch]:
        lowest, highest = self.bounds[part]
        wanted, files = None, list(self.files)
        if len(self.bounds) > 1:
            wanted = between(lowest, highest)
            if part == 0:
                wanted |= pc.field("series").is_null()  # of changes that are about no check
            else:
                files = [file for file in files if file.may_hold(lowest, highest)]
        yield from batches(self.table, [file.path for file in files], self.table.columns.names, wanted)

    def _sorted(self, held_rows: Sequence[pa.RecordBatch]) -> pa.Table:
        return in_order(self.table, pa.Table.from_batches(held_rows, self.table.columns))


@define
class Runs:
    """Holds sorted pieces of a table on the disk, and knows the values of the first sort column in each."""

    table: Table
    folder: Path
    paths: list[Path] = field(factory=list)
    keys: list[Array] = field(factory=list)

    def add(self, rows: pa.Table) -> None:
        """Write sorted rows as one more run."""
        if not rows.num_rows:
            return
        self.folder.mkdir(exist_ok=True)
        self.paths.append(self.folder / f"{len(self.paths)}.arrow")
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_file(self.paths[-1], rows.schema, options=options) as writer:
            for batch in rows.combine_chunks().to_batches(max_chunksize=PIECE_ROWS):
                writer.write_batch(batch)
        self.keys.append(_keys(self.table, rows))

    def ranges(self, most: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of the first sort column, both ends included, with about `most` rows each.

        A single value with more rows than that is a range of its own.
        """
        values, counts = np.unique(np.concatenate(self.keys), return_counts=True)
        begin, rows = 0, 0
        for place, count in enumerate(counts.tolist()):
            if rows and rows + count > most:
                yield int(values[begin]), int(values[place - 1])
                begin, rows = place, 0
            rows += count
        yield int(values[begin]), int(values[-1])

    def read(self, lowest: int, highest: int) -> pa.Table:
        """Return the rows of a range, run by run."""
        found = []
        for path, keys in zip(self.paths, self.keys, strict=True):
            begin, end = np.searchsorted(keys, [lowest, highest + 1])
            if begin == end:
                continue
            with pa.ipc.open_file(pa.memory_map(str(path))) as reader:
                pieces = [reader.get_batch(at) for at in range(begin // PIECE_ROWS, (end - 1) // PIECE_ROWS + 1)]
            whole = pa.Table.from_batches(pieces)
            found.append(whole.slice(begin - begin // PIECE_ROWS * PIECE_ROWS, end - begin))
        return pa.concat_tables(found)


def _keys(table: Table, rows: pa.Table) -> Array:
    return rows[table.sort[0]].fill_null(-1).to_numpy()


def _bytes(held_rows: Sequence[pa.RecordBatch]) -> int:
    return sum(each.nbytes for each in held_rows)


def in_order(table: Table, rows: pa.Table) -> pa.Table:
    """Return the rows that count, in the order of a table's sort columns, nulls first; equal rows stay as they lie."""
    if table.name == AVAILABILITY.name:
        rows = newest_version(rows)
    numbers = {name: rows[name] for name in table.sort}
    numbers[table.sort[0]] = numbers[table.sort[0]].fill_null(-1)  # of changes that are about no check
    order = pc.sort_indices(pa.table(numbers), sort_keys=[(name, "ascending") for name in table.sort])
    return rows.take(order).combine_chunks()


def newest_version(rows: pa.Table) -> pa.Table:
    """Return the rows of availability_daily that count: those with the highest `version` of their key."""
    newest = rows.group_by(list(VERSIONED)).aggregate([("version", "max")])
    keys = [*VERSIONED, "version"]
    newest = newest.rename_columns([name.removesuffix("_max") for name in newest.schema.names]).select(keys)
    place = rows.append_column("_place", pa.array(np.arange(rows.num_rows)))
    kept = place.select([*keys, "_place"]).join(newest, keys, join_type="inner")["_place"]
    return rows.take(kept.take(pc.sort_indices(kept)))


def stage_sorted(
    spark: SparkSession, lake: Lake, table: Table, files: Sequence[File], rows_per_file: int
) -> list[Path]:
    """Put these files of one day together, and return the staged ones: as many as their rows need."""
    rows, sources = sum(file.rows for file in files), held(lake, table.name, files)
    bounds = bounds_of(table, sources, -(-rows // rows_per_file)) if "series" in table.sort else [(0, MOST)]
    day = "" if files[0].day is None else f"day={files[0].day}"
    task = SortTask(table, day, sources, bounds, str(lake.staging(table.name)))
    return sorted(Path(row["path"]) for row in run_parts(spark, task, len(bounds), rows, LITTLE_ROWS))
