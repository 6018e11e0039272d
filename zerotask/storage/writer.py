"""Runs the writing jobs of the store in transactions, for the writer's thread."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from twisted.logger import Logger

from groundwork.sqlite_errors import is_damage
from zerotask import errors
from zerotask.errors import RpcError
from zerotask.storage.faults import is_of_one_call, sentence
from zerotask.storage.jobs import PendingJob, internal_error
from zerotask.storage.schema import connect
from zerotask.storage.task_table import SqlTaskTable, sql_table
from zerotask.tasks.ledger import Ledger
from zerotask.tasks.task import Notice
from zerotask.wire.jsonrpc import encode

BATCH_SECONDS = 0.005  # of one transaction, so that its first job does not wait for the last
CHECKPOINT_ROWS = 8_000  # changed rows between checkpoints, some 8 MiB of WAL

Repair = Callable[[], bool]

_log = Logger()


class Writer:
    """Holds the writing connection, and commits jobs in groups. Belongs to the writer's thread.

    `repair` makes a damaged database anew while no connection is open, and returns False if it cannot.
    """

    def __init__(self, path: Path, clock: Callable[[], float], repair: Repair) -> None:
        self._path, self._clock, self._repair = path, clock, repair
        self._ledger: Ledger | None = None
        self._connection: sqlite3.Connection | None = None
        self._synced = True  # the present PRAGMA synchronous: FULL, or else NORMAL
        self._rows = 0  # total_changes at the last checkpoint
        self.now = 0.0  # task-clock seconds of the last transaction

    def _open(self) -> tuple[Ledger, sqlite3.Connection]:
        if self._ledger is None or self._connection is None:
            self._connection = connect(self._path)
            self._ledger = Ledger(SqlTaskTable(self._connection), random.random, encode)
            self._synced, self._rows = True, 0
        return self._ledger, self._connection

    def transact(self, batch: list[PendingJob]) -> tuple[list[PendingJob], str | None]:
        """Run jobs from the head of a batch in one transaction; return those that are done, and the disk's error.

        After an error of the disk all jobs of the batch are done: each has failed, and nothing of them is stored. A
        damaged database is repaired, once, and the jobs run again; where that fails, the job that met the damage does.
        """
        return self._transact(batch, self._repair)

    def _transact(self, batch: list[PendingJob], repair: Repair | None) -> tuple[list[PendingJob], str | None]:
        try:
            return self._run(batch), None
        except sqlite3.Error as error:
            self._undo()
            if is_damage(error) and repair is not None and repair():
                return self._transact(batch, None)
            return self._fail_all(batch, error), sentence(error)
        except _JobFailed as failed:
            self._undo()
            cause = failed.error
            if is_damage(cause) and repair is not None and repair():
                return self._transact(batch, None)
            # One job must not cost the others theirs: the jobs before it run again, then it fails alone.
            before = batch[: batch.index(failed.pending)]
            if before:
                return self._transact(before, None)
            failed.pending.fail(_refusal(cause) if isinstance(cause, sqlite3.Error) else internal_error())
            return batch[:1], None

    def _fail_all(self, batch: list[PendingJob], error: sqlite3.Error) -> list[PendingJob]:
        _log.error("Storing failed: {error}", error=error)
        for pending in batch:
            pending.fail(_refusal(error))
        return batch

    def _run(self, batch: list[PendingJob]) -> list[PendingJob]:
        """Commit at least one job, then more until BATCH_SECONDS are over; return them."""
        ledger, connection = self._open()
        self._sync(connection, any(pending.durable for pending in batch))
        connection.execute("BEGIN IMMEDIATE")
        self.now, deadline, done = self._clock(), time.monotonic() + BATCH_SECONDS, 0
        ledger.unix_ahead = time.time() - self.now
        while done < len(batch) and (not done or time.monotonic() < deadline):
            self._run_one(batch[done], ledger)
            done += 1
        connection.execute("COMMIT")
        return batch[:done]

    def _run_one(self, pending: PendingJob, ledger: Ledger) -> None:
        try:
            pending.run(ledger, self.now)
        except sqlite3.Error as error:
            if is_damage(error) or is_of_one_call(error):
                raise _JobFailed(pending, error) from error
            raise
        except Exception as error:
            _log.failure("A writing job failed")
            raise _JobFailed(pending, error) from error

    def _sync(self, connection: sqlite3.Connection, wanted: bool) -> None:
        if wanted is not self._synced:
            connection.execute(f"PRAGMA synchronous = {'FULL' if wanted else 'NORMAL'}")
            self._synced = wanted

    def _undo(self) -> None:
        """Go back to the state on disk, by a fresh connection: the old one may have wrong pages after an error."""
        close_quietly(self._connection)
        self._ledger = self._connection = None

    def probe(self) -> str | None:
        """Write a page; return the disk's error, None if writing works."""
        _, trouble = self.transact([PendingJob(_write_page, lambda value, error: None, durable=True)])
        return trouble

    def take_notices(self) -> list[Notice]:
        """Return the notices of the last transaction, once."""
        if self._ledger is None:
            return []
        notices, self._ledger.notices = self._ledger.notices, []
        return notices

    def checkpoint_when_due(self) -> None:
        """Make a checkpoint after CHECKPOINT_ROWS changed rows."""
        if self._connection is not None and self._connection.total_changes - self._rows >= CHECKPOINT_ROWS:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Copy the WAL into the database, if a row has changed since the last time.

        A failure costs nothing: the WAL stays, and the next commit reports the error.
        """
        if self._connection is None or self._connection.total_changes == self._rows:
            return
        self._rows = self._connection.total_changes
        try:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.Error as error:
            _log.warn("The checkpoint failed: {error}", error=error)

    def close(self) -> None:
        """Make a last checkpoint and close the connection."""
        self.checkpoint()
        close_quietly(self._connection)


class _JobFailed(Exception):
    """Carries a job that raised what no job should raise, or that met a part of the database that is damaged."""

    def __init__(self, pending: PendingJob, error: Exception) -> None:
        super().__init__(pending, error)
        self.pending, self.error = pending, error


def _refusal(error: sqlite3.Error) -> RpcError:
    message = f"storing failed: {sentence(error)}; nothing of this call was kept: repeat it"
    return RpcError(errors.STORING_FAILED, message)


def _write_page(ledger: Ledger, now: float) -> None:
    sql_table(ledger).probe(now)


def close_quietly(connection: sqlite3.Connection | None) -> None:
    """Close a connection if there is one; after an error of the disk closing may fail, too."""
    if connection is not None:
        with contextlib.suppress(sqlite3.Error):
            connection.close()
