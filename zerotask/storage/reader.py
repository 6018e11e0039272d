"""Runs the reading jobs of the store, for the reader's thread."""

from __future__ import annotations

import random
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

from twisted.logger import Logger

from groundwork.sqlite_errors import is_damage
from zerotask import errors
from zerotask.errors import RpcError
from zerotask.storage.faults import sentence
from zerotask.storage.jobs import PendingJob, internal_error
from zerotask.storage.schema import connect
from zerotask.storage.task_table import SqlTaskTable
from zerotask.storage.writer import close_quietly
from zerotask.tasks.ledger import Ledger
from zerotask.wire.jsonrpc import encode

_log = Logger()


class Reader:
    """Holds the reading connection. After an error of the disk the next job opens a fresh one.

    Belongs to the reader's thread but for `closed`, by which the writer's keeps it away from the database.
    """

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path, self._clock = path, clock
        self._connection: sqlite3.Connection | None = None
        self.closed = threading.RLock()  # while it is held, no connection is opened

    def run(self, pending: PendingJob) -> bool:
        """Run a job; return False if it cannot be answered because the database is damaged."""
        with self.closed:
            try:
                self._connection = self._connection or connect(self._path)
                table = SqlTaskTable(self._connection, cached=0)
                pending.run(Ledger(table, random.random, encode), self._clock())
            except sqlite3.Error as error:
                self.close()
                pending.fail(RpcError(errors.STORING_FAILED, f"reading the store failed: {sentence(error)}"))
                return not is_damage(error)
            except Exception:
                _log.failure("A reading job failed")
                pending.fail(internal_error())
            return True

    def close(self) -> None:
        """Close the connection if there is one."""
        with self.closed:
            close_quietly(self._connection)
            self._connection = None
