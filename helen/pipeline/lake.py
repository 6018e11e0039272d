"""The lake: a folder of Delta tables that one process at a time writes; to publish is one atomic entry in a log.

    LAKE/lock                                     held by whoever writes
    LAKE/TABLE/_delta_log/                        the log: which files count
    LAKE/TABLE/_staging/                          files of a job that runs; swept when a writer starts, and hourly
    LAKE/TABLE/day=2026-11-27/b0000000042-....parquet

Spark writes plain Parquet into the staging folder. `publish` makes the files durable, moves them to their day, and
names them in one log entry together with the transactions that the entry stands for: (name, number) pairs such as (a
history, its last segment). Whoever would publish asks `done` first, because delta-rs doesn't refuse a repeated
transaction. A crash before the entry leaves files that nobody names; `sweep` deletes them later.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from attrs import frozen
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from helen.pipeline.disk import sync
from helen.pipeline.errors import LakeBusy
from helen.pipeline.parquet import write_days
from helen.pipeline.schema import TABLES, Table

if TYPE_CHECKING:  # who only reads needs no Spark
    from pyspark.sql import DataFrame, SparkSession

STAGING = "_staging"
CONFIGURATION: dict[str, str | None] = {
    "delta.checkpointInterval": "100",  # a reader opens one checkpoint and at most 100 small files: 20 ms
    "delta.logRetentionDuration": "interval 1 hours",  # older versions' files are swept; each look lists all entries
    "delta.deletedFileRetentionDuration": "interval 1 days",
}
FRESH, COMPACTED = "b", "c"  # first letter of a file's name: new rows, or rows that were there before


@frozen
class File:
    """A file that counts. `version` is that of the entry which named it first."""

    path: str
    size: int
    rows: int
    day: date | None
    version: int
    fresh: bool
    lowest: dict[str, Any]
    highest: dict[str, Any]


class Lake:
    """All tables of one folder. Reads without a lock; writes only between `lock` and `unlock`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._lock: int | None = None
        # What the writer knows: to follow an open log costs a tenth of reading it, and nobody else publishes anything.
        self._opened: dict[str, DeltaTable] = {}
        self._done: dict[tuple[str, str], int] = {}

    # ------------------------------------------------------------------------------------------- one writer

    def lock(self) -> None:
        """Become the writer. Raises LakeBusy if somebody is; the kernel lets go when a process dies."""
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise LakeBusy(
                f"Process {holder} is writing to {self.folder}. `helen pipeline run` compacts and reports by itself:"
                " stop it first if this must be done by hand."
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        self._lock = descriptor
        for table in TABLES:
            shutil.rmtree(self.path(table) / STAGING, ignore_errors=True)

    def unlock(self) -> None:
        if self._lock is not None:
            self._opened.clear()
            self._done.clear()
            os.close(self._lock)
            self._lock = None

    # ------------------------------------------------------------------------------------------- reading

    def path(self, table: str) -> Path:
        return self.folder / table

    def open(self, table: str) -> DeltaTable | None:
        """The newest version; None while nothing has been published."""
        held = self._opened.get(table)
        if held is not None:
            held.update_incremental()
            return held
        path = str(self.path(table))
        opened = DeltaTable(path) if DeltaTable.is_deltatable(path) else None
        if self._lock is not None and opened is not None:
            self._opened[table] = opened
        return opened

    def version(self, table: str) -> int:
        """-1 while nothing has been published."""
        opened = self.open(table)
        return -1 if opened is None else opened.version()

    def done(self, table: str, transaction: str) -> int:
        """The highest number that was published under this name; 0: none."""
        if (table, transaction) in self._done:
            return self._done[table, transaction]
        opened = self.open(table)
        number = 0 if opened is None else opened.transaction_version(transaction) or 0
        if self._lock is not None:
            self._done[table, transaction] = number
        return number

    def files(self, table: str, days: tuple[date, date] | None = None) -> list[File]:
        """The files that count, of all days or of those from the first to the second, both included."""
        opened = self.open(table)
        if opened is None:
            return []
        actions = pa.table(opened.get_add_actions()).to_pylist()
        found = [_file(action) for action in actions]
        if days is not None:
            found = [file for file in found if file.day is None or days[0] <= file.day <= days[1]]
        return sorted(found, key=lambda file: file.path)

    def frame(self, spark: SparkSession, table: str, files: Iterable[File] | None = None) -> DataFrame:
        """These files as a frame; by default all that count now. A frame never changes while others publish."""
        chosen = self.files(table) if files is None else list(files)
        schema = TABLES[table].ddl
        if not chosen:
            return spark.createDataFrame([], schema)
        base = self.path(table)
        return spark.read.schema(schema).option("basePath", str(base)).parquet(*(str(base / f.path) for f in chosen))

    def rows(self, table: str) -> list[dict[str, Any]]:
        """A small table, without Spark."""
        opened = self.open(table)
        if opened is None:
            return []
        found: list[dict[str, Any]] = opened.to_pyarrow_table().to_pylist()
        return found

    # ------------------------------------------------------------------------------------------- publishing

    def staging(self, table: str) -> Path:
        """A new folder for the files of one attempt."""
        folder = self.path(table) / STAGING
        folder.mkdir(parents=True, exist_ok=True)
        return folder / uuid.uuid4().hex

    def stage(self, table: str, frame: DataFrame, files: int | None = None) -> list[Path]:
        """Have Spark write a frame into the staging folder; the files."""
        target = self.staging(table)
        shaped = frame.select(*TABLES[table].arrow.names)
        if files is not None:
            shaped = shaped.coalesce(files)
        writer = shaped.write.partitionBy(*TABLES[table].partitions) if TABLES[table].by_day else shaped.write
        writer.parquet(str(target))
        return sorted(target.rglob("*.parquet"))

    def stage_rows(self, table: str, rows: pa.Table) -> list[Path]:
        """Stage a few rows without Spark."""
        return write_days(table, rows, self.staging(table))

    def discard(self, staged: Path) -> None:
        """What is left of an attempt."""
        shutil.rmtree(staged, ignore_errors=True)

    def publish(
        self,
        table: str,
        staged: Sequence[Path],
        transactions: Mapping[str, int],
        replaced: Sequence[File] = (),
        fresh: bool = True,
    ) -> int:
        """Make staged files count, and `replaced` ones count no more, in one step. Returns the rows published.

        `fresh` is whether these are rows that were not in the table before.
        """
        for name in transactions:
            self._done.pop((table, name), None)  # until it is known how this ends
        described, opened = TABLES[table], self.open(table)
        version = 0 if opened is None else opened.version() + 1
        adds = self._move(described, staged, version, fresh)
        removes = [RemoveAction(f.path, fresh, _now_ms(), f.size, _partition(f.day)) for f in replaced]
        properties = CommitProperties(
            app_transactions=[Transaction(name, number, _now_ms()) for name, number in transactions.items()]
        )
        schema = Schema.from_arrow(described.arrow)
        if opened is None:
            create_table_with_add_actions(
                str(self.path(table)), schema, adds, partition_by=described.partitions, configuration=CONFIGURATION,
                commit_properties=properties,
            )  # fmt: skip
        else:
            opened.create_write_transaction(
                [*adds, *removes], "append", schema, described.partitions, commit_properties=properties
            )
        log = self.path(table) / "_delta_log"
        sync(log / f"{version:020}.json")
        sync(log)
        if opened is None:
            sync(self.path(table))
            sync(self.folder)
        if self._lock is not None:
            self._done |= {(table, name): number for name, number in transactions.items()}
        for attempt in {path.relative_to(self.path(table) / STAGING).parts[0] for path in staged}:
            self.discard(self.path(table) / STAGING / attempt)
        return sum(json.loads(add.stats)["numRecords"] for add in adds)

    def _move(self, table: Table, staged: Sequence[Path], version: int, fresh: bool) -> list[AddAction]:
        """Staged files to where they belong, durable; and what the log says of each."""
        base = self.path(table.name)
        adds, folders = [], {base}
        for number, path in enumerate(staged):
            metadata = pq.read_metadata(path)
            if not metadata.num_rows:
                continue
            letter = FRESH if fresh else COMPACTED
            name = f"{letter}{version:010}-{number:04}-{uuid.uuid4().hex[:8]}.parquet"
            target = base / path.parent.name / name if table.by_day else base / name
            if target.parent not in folders:
                target.parent.mkdir(exist_ok=True)
                folders.add(target.parent)
            sync(path)
            path.rename(target)
            day = date.fromisoformat(path.parent.name.removeprefix("day=")) if table.by_day else None
            adds.append(
                AddAction(
                    str(target.relative_to(base)), target.stat().st_size, _partition(day), _now_ms(), fresh,
                    json.dumps(statistics(metadata, table.statistics)),
                )
            )  # fmt: skip
        for folder in folders:
            sync(folder)
        return adds

    def sweep(self, table: str, hours: int) -> int:
        """Delete files that don't count and are older than this, and what attempts that failed have staged.

        Nobody else may be at it. Full: the lite form leaves what a crash left.
        """
        self.discard(self.path(table) / STAGING)
        opened = self.open(table)
        if opened is None:
            return 0
        return len(opened.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True))


def statistics(metadata: pq.FileMetaData, columns: Sequence[str]) -> dict[str, Any]:
    """What the log says of a file: its rows, and the range of some columns."""
    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    places = {metadata.schema.column(at).path: at for at in range(metadata.num_columns)}
    for name in columns:
        groups = [metadata.row_group(g).column(places[name]).statistics for g in range(metadata.num_row_groups)]
        ranges = [(group.min, group.max) for group in groups if group is not None and group.has_min_max]
        if len(ranges) == metadata.num_row_groups:
            lowest[name] = _json(min(low for low, _ in ranges))
            highest[name] = _json(max(high for _, high in ranges))
    return {"numRecords": metadata.num_rows, "minValues": lowest, "maxValues": highest}


def _json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return value


def _file(action: dict[str, Any]) -> File:
    day = (action.get("partition") or {}).get("day")
    name = action["path"].rsplit("/", 1)[-1]
    return File(
        action["path"], action["size_bytes"], action["num_records"], day, int(name[1:11]), name[0] == FRESH,
        action.get("min") or {}, action.get("max") or {},
    )  # fmt: skip


def _partition(day: date | None) -> dict[str, str | None]:
    return {} if day is None else {"day": day.isoformat()}


def _now_ms() -> int:
    return int(time.time() * 1000)
