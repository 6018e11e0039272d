"""Reads and writes the lake: a folder of Delta tables that one process at a time writes, by atomic entries in a log.

    LAKE/lock                                     held by the writer
    LAKE/TABLE/_delta_log/                        the log: which files count
    LAKE/TABLE/_staging/                          files of a job that runs; swept when a writer starts, and hourly
    LAKE/TABLE/day=2026-11-27/a0000000042-....parquet

Spark writes plain Parquet into the staging folder. `publish` makes the files durable, moves them to their day, and
names them in one log entry together with the transactions that the entry stands for: (name, number) pairs such as (a
history, its last segment). Call `done` before publishing, because delta-rs doesn't refuse a repeated transaction. A
crash before the entry leaves files that no entry names; `sweep` deletes them later. places.py says what is done instead
in an object store.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.transaction import AddAction, create_table_with_add_actions

from groundwork.atomic_write import sync_file
from groundwork.file_lock import FileLock, LockHeld
from helen.pipeline.lake import delta_log
from helen.pipeline.lake.day_files import write_days
from helen.pipeline.lake.errors import LakeBusy, LakeDamaged
from helen.pipeline.lake.lease import SECONDS, Lease
from helen.pipeline.lake.levels import LEVELS, Levels
from helen.pipeline.lake.log_entries import ADDED, COMPACTED, FRESH, File, Kept, add, now_ms, removes, statistics
from helen.pipeline.lake.places import make_folder, metadata_of, move, remove_tree, size_of, sync
from helen.pipeline.lake.schema import Table, tables_of
from helen.pipeline.lake.stored_frames import frame_of, write_frame
from helen.pipeline.lake.stores import is_stored, options_of, url_of

if TYPE_CHECKING:  # a process that only reads needs no Spark
    from pyspark.sql import DataFrame, SparkSession

STAGING = "_staging"
CONFIGURATION: dict[str, str | None] = {
    "delta.checkpointInterval": "100",  # a reader opens one checkpoint and at most 100 small files: 20 ms
    "delta.logRetentionDuration": "interval 1 hours",  # older versions' files are swept; each look lists all entries
    "delta.deletedFileRetentionDuration": "interval 1 days",
}


class Lake:
    """Holds all tables of one folder. It reads without a lock, and writes only between `lock` and `unlock`."""

    lease_seconds = SECONDS  # of the lock in an object store

    def __init__(self, folder: Path, levels: Levels = LEVELS) -> None:
        self.folder = folder if is_stored(folder) else folder.resolve()
        self.levels = levels
        self.tables = tables_of(levels)
        self.is_stored = is_stored(folder)
        self._lock: FileLock | Lease | None = None
        # Of the threads of a writer: held while one takes a batch in, and while upkeep looks or publishes. What upkeep
        # does in between takes minutes, and holds no batch back: it reads files that only itself replaces.
        self.turn = threading.RLock()
        # Kept by the writer: to follow an open log costs a tenth of reading it, and no other process publishes.
        self._opened: dict[str, DeltaTable] = {}
        self._done: dict[tuple[str, str], int] = {}
        # Of the writer: files that batches do without, although they may be sound; and sentences on those that couldn't
        # be read, by path.
        self.given_up: set[str] = set()
        self.unread: dict[str, str] = {}

    # ------------------------------------------------------------------------------------------- one writer

    def lock(self) -> None:
        """Become the writer. Raises LakeBusy if another process is; the lock of a process that dies is released.

        Tables of an older version get the columns that this one has. Raises LakeDamaged.
        """
        make_folder(self.folder)
        try:
            self._lock = (
                Lease(self.folder, self.lease_seconds) if self.is_stored else FileLock(self.folder / "lock", 0o640)
            )
        except LockHeld as error:
            raise LakeBusy(
                f"{error.holder.capitalize()} is writing to {self.folder}. `helen pipeline run` compacts and reports by"
                " itself: stop it first if this must be done by hand."
            ) from None
        try:
            for name, table in self.tables.items():
                remove_tree(self.path(name) / STAGING)
                delta_log.bring_up(self.path(name), table)
        except BaseException:
            self.unlock()
            raise

    def unlock(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._lock is not None:
            self._opened.clear()
            self._done.clear()
            self._lock.release()
            self._lock = None

    # ------------------------------------------------------------------------------------------- reading

    def path(self, table: str) -> Path:
        """Return the folder of a table."""
        return self.folder / table

    def open(self, table: str) -> DeltaTable | None:
        """Return the newest version of a table; None while nothing has been published. Raises LakeDamaged."""
        held = self._opened.get(table)
        if held is not None:
            delta_log.follow(self.path(table), held)
            return held
        opened = delta_log.open_table(self.path(table))
        if self._lock is not None and opened is not None:
            self._opened[table] = opened
        return opened

    def done(self, table: str, transaction: str) -> int:
        """Return the highest number that was published under the name of a transaction; 0: none."""
        if (table, transaction) in self._done:
            return self._done[table, transaction]
        opened = self.open(table)
        number = 0 if opened is None else opened.transaction_version(transaction) or 0
        if self._lock is not None:
            self._done[table, transaction] = number
        return number

    def files(self, table: str, days: tuple[date, date] | None = None) -> list[File]:
        """Return the files that count, of all days or from the first to the second, both included."""
        opened = self.open(table)
        if opened is None:
            return []
        actions = pa.table(opened.get_add_actions()).to_pylist()
        origins = self._origins(table, [action["path"] for action in actions])
        found = [self._file(table, action, origins[action["path"]]) for action in actions]
        if days is not None:
            found = [file for file in found if file.day is None or days[0] <= file.day <= days[1]]
        return sorted(found, key=lambda file: file.path)

    def _file(self, table: str, action: dict[str, Any], origin: delta_log.Origin) -> File:
        day, path, rows = (action.get("partition") or {}).get("day"), action["path"], action["num_records"]
        if rows is None:  # another program may leave statistics out
            rows = metadata_of(self.path(table) / path).num_rows
        return File(
            path, action["size_bytes"], rows, day, origin.version, origin.fresh, action.get("min") or {},
            action.get("max") or {}, origin.adds,
        )  # fmt: skip

    def _origins(self, table: str, paths: Sequence[str]) -> dict[str, delta_log.Origin]:
        """Return where these files come from: by their names, or by the log where another program named them."""
        named = {path: delta_log.of_name(path.rsplit("/", 1)[-1]) for path in paths}
        if None in named.values():
            logged, earlier = delta_log.of_log(self.path(table)), delta_log.before_log(self.path(table))
            return {path: of_name or logged.get(path, earlier) for path, of_name in named.items()}
        return {path: of_name for path, of_name in named.items() if of_name is not None}

    def frame(self, spark: SparkSession, table: str, files: Iterable[File] | None = None) -> DataFrame:
        """Return these files, by default all that count now, as a frame. It doesn't change while others publish."""
        chosen, base = self.files(table) if files is None else list(files), self.path(table)
        return frame_of(spark, self.tables[table], base, [base / file.path for file in chosen])

    def is_live(self, table: str) -> bool:
        """Return True if each row of a table counts: in a rollup of an older format replaced rows lay beside theirs.

        It is always so in a level that is made from results.
        """
        level = self.tables[table].level
        if level is None or level.source is None:
            return True
        opened = self.open(table)
        return opened is None or delta_log.format_of(opened) >= delta_log.LIVE

    def rows(self, table: str, days: Collection[date] | None = None) -> list[dict[str, Any]]:
        """Return the rows of a small table, or those of some days of a table by days, as {column: value}; no Spark."""
        found: list[dict[str, Any]] = self.table(table, days).to_pylist()
        return found

    def table(self, table: str, days: Collection[date] | None = None) -> pa.Table:
        """Return the same rows as Arrow's table, which takes a tenth of the memory."""
        opened = self.open(table)
        if opened is None:
            return self.tables[table].arrow.empty_table()
        chosen = None if days is None else pc.field("day").isin(pa.array([*days], pa.date32()))
        return opened.to_pyarrow_table(filters=chosen)

    # ------------------------------------------------------------------------------------------- publishing

    def staging(self, table: str) -> Path:
        """Return a new name of a folder for the files of one attempt."""
        folder = self.path(table) / STAGING
        make_folder(folder)
        return folder / uuid.uuid4().hex

    def stage(self, table: str, frame: DataFrame) -> list[Path]:
        """Have Spark write a frame into the staging folder, and return the files."""
        return write_frame(frame, self.tables[table], self.staging(table))

    def stage_rows(self, table: str, rows: pa.Table) -> list[Path]:
        """Stage a few rows without Spark, and return the files."""
        return write_days(self.tables[table], rows, self.staging(table))

    def discard(self, staged: Path) -> None:
        """Delete the files of an attempt."""
        remove_tree(staged)

    def publish(
        self, table: str, staged: Sequence[Path], transactions: Mapping[str, int], replaced: Sequence[File] = (),
        fresh: bool = True, kept: Sequence[Kept] = (), adding: Collection[Path] = (),
    ) -> int:  # fmt: skip
        """Make staged files count, and `replaced` ones count no more, in one step. Returns the rows of the staged ones.

        `fresh` says that these rows were not in the table before; `kept` ones are what stays of those replaced. Staged
        files that are `adding` take the place of no row of their buckets. Raises OSError or DeltaError; then it is
        unknown whether the entry was written, and `done` tells. Raises LakeDamaged if the lake was deleted meanwhile.
        """
        if self._lock is not None and not self._lock.is_in_place():
            taken = ", or another process has taken its lock" if self.is_stored else ""
            raise LakeDamaged(
                f"{url_of(self.folder)} was deleted or replaced{taken} while this process wrote to it: start it again."
            )
        described, opened = self.tables[table], self.open(table)
        if self.is_stored and opened is not None:
            self._check_alone(table, opened, transactions, replaced)
        for name in transactions:
            self._done.pop((table, name), None)  # until it is known how this ends
        version = 0 if opened is None else opened.version() + 1
        adds, count = self._move(described, staged, kept, version, fresh, adding)
        properties = CommitProperties(
            app_transactions=[Transaction(name, number, now_ms()) for name, number in transactions.items()],
            # In a store no lock is certain: an entry is written if nobody has written one since, or this fails.
            max_commit_retries=0 if self.is_stored else None,
        )
        schema = Schema.from_arrow(described.arrow)
        if opened is None:
            create_table_with_add_actions(
                url_of(self.path(table)), schema, adds, partition_by=described.partitions, configuration=CONFIGURATION,
                description=delta_log.describe(), commit_properties=properties,
                storage_options=options_of(self.folder),
            )  # fmt: skip
        else:
            opened.create_write_transaction(
                [*adds, *removes(replaced, fresh)], "append", schema, described.partitions, commit_properties=properties
            )
        log, newest = self.path(table) / delta_log.LOG, version
        if opened is not None:
            opened.update_incremental()
            newest = opened.version()  # another program may have written an entry in between
        if not self.is_stored:
            for each in range(version, newest + 1):
                sync_file(log / f"{each:020}.json")
        for folder in (log,) if opened is not None else (log, self.path(table), self.folder):
            sync(folder)
        if self._lock is not None:
            self._done |= {(table, name): number for name, number in transactions.items()}
        paths = [*staged, *(each.path for each in kept)]
        for attempt in {path.relative_to(self.path(table) / STAGING).parts[0] for path in paths}:
            self.discard(self.path(table) / STAGING / attempt)
        return count

    def _check_alone(
        self, table: str, opened: DeltaTable, transactions: Mapping[str, int], replaced: Sequence[File]
    ) -> None:
        """Raise LakeBusy if another process has published what this one is about to, or replaced the same files."""
        known = {name: self._done[table, name] for name in transactions if (table, name) in self._done}
        changed = any((opened.transaction_version(name) or 0) != number for name, number in known.items())
        if replaced:
            live = {*pa.table(opened.get_add_actions())["path"].to_pylist()}
            changed = changed or any(file.path not in live for file in replaced)
        if changed:
            raise LakeBusy(
                f"Another process has written to {url_of(self.path(table))}, so this one has published nothing more:"
                " end one of them."
            )

    def _move(
        self, table: Table, staged: Sequence[Path], kept: Sequence[Kept], version: int, fresh: bool,
        adding: Collection[Path],
    ) -> tuple[list[AddAction], int]:  # fmt: skip
        """Move files into the table, durably. Returns the action of each for the log, and the rows of `staged`."""
        base = self.path(table.name)
        make_folder(base)
        adds, folders, count = [], {base}, 0
        given = [*((path, fresh, fresh) for path in staged), *((each.path, each.fresh, False) for each in kept)]
        adding = {*adding, *(each.path for each in kept if each.adds)}
        for number, (path, named_fresh, is_new) in enumerate(given):
            metadata = metadata_of(path)
            if not metadata.num_rows:
                continue
            letter = ADDED if path in adding else FRESH if named_fresh else COMPACTED
            name = f"{letter}{version:010}-{number:04}-{uuid.uuid4().hex[:8]}.parquet"
            target = base / path.parent.name / name if table.by_day else base / name
            if target.parent not in folders:
                make_folder(target.parent)
                folders.add(target.parent)
            move(path, target)
            day = date.fromisoformat(path.parent.name.removeprefix("day=")) if table.by_day else None
            said = statistics(metadata, table.statistics)
            adds.append(add(str(target.relative_to(base)), size_of(target), day, is_new, said))
            count += metadata.num_rows if number < len(staged) else 0
        for folder in folders:
            sync(folder)
        return adds, count

    def sweep(self, table: str, hours: int | None = None) -> int:
        """Delete files that don't count any more, and the staged ones. Returns how many.

        They are older than these hours, by default than the table's own property says: other readers rely on that.

        Only the writer may call it. The vacuum is a full one: its lite form leaves files that a crash left.
        """
        self.discard(self.path(table) / STAGING)
        opened = self.open(table)
        if opened is None:
            return 0
        return len(opened.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True))
