"""The durable store: one thread that writes with group commit, one that reads, and nothing of either in the reactor.

A job is a function of (Ledger, now). Writing jobs run in order, up to BATCH_JOBS or BATCH_SECONDS to a transaction, and
are answered only after its commit. A transaction in which any job is `durable` is synced to disk (synchronous=FULL);
one of claims alone is written but not synced, since a claim that a power cut undoes is merely claimed again.

When the disk is full or fails, every job of the transaction gets STORING_FAILED, the transaction is rolled back, and
`on_trouble` hears of it; reading goes on. A probe every PROBE_EVERY seconds finds out when writing works again.
The store knows no sockets and no methods.
"""

from __future__ import annotations

import contextlib
import fcntl
import queue
import random
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from attrs import frozen
from msgspec import Struct
from twisted.logger import Logger

from zerotask import errors
from zerotask.errors import RpcError
from zerotask.jsonrpc import encode
from zerotask.ledger import Ledger, Notice
from zerotask.shelf import SqlShelf, StoreError, connect, prepare

BATCH_JOBS = 256  # to one transaction: a sync is shared by all that are in flight
BATCH_SECONDS = 0.005  # and no longer than this, so that the first of them does not wait for the last
READ_JOBS = 16  # of the reader at once: results may have 8 MiB each
# Batches of a thread that the reactor has not taken note of: what a slow one has not asked for stays on disk.
READ_AHEAD, WRITE_AHEAD = 2, 8
UNHEARD_WAIT = 10.0  # seconds; a reactor that takes no call for so long is in greater trouble
PROBE_EVERY = 2.0  # seconds between attempts to write while the disk is in trouble
CHECKPOINT_ROWS = 8_000  # changed rows between checkpoints, some 8 MiB of log
CHECKPOINT_IDLE = 1.0  # seconds without work after which the log is brought in as well

Job = Callable[[Ledger, float], Any]
Done = Callable[[Any, RpcError | None], None]
Deliver = Callable[[Callable[[], None]], Any]


_log = Logger()


def _nothing() -> None:
    """Nobody waits to hear."""


class Pending(Struct):
    """A job on its way, and what came of it."""

    job: Job
    done: Done
    durable: bool
    value: Any = None
    error: RpcError | None = None


@frozen
class Recovery:
    """What was found at the start."""

    leases: list[tuple[int, str]]
    policies: dict[str, bytes]


class _Line:
    """Jobs on their way to one of the threads."""

    def __init__(self, most: int, ahead: int) -> None:
        self.outbox: list[Pending] = []  # not handed over yet
        self._most = most  # jobs to one batch
        self._ahead = threading.Semaphore(ahead)
        self.queue: queue.SimpleQueue[list[Pending]] = queue.SimpleQueue()  # an empty list is the end
        self._rest: deque[Pending] = deque()
        self._ended = False

    def take(self, timeout: float | None) -> list[Pending] | None:
        """The next jobs, up to the most; none when there are none in time; None at the end."""
        try:
            while len(self._rest) < self._most and not self._ended:
                more = self.queue.get_nowait() if self._rest else self.queue.get(timeout=timeout)
                self._rest.extend(more)
                self._ended = not more
        except queue.Empty:
            pass
        batch = [self._rest.popleft() for _ in range(min(len(self._rest), self._most))]
        return None if not batch and self._ended else batch

    def wait_for_room(self) -> Callable[[], None]:
        """Until the reactor has taken note of enough earlier batches; to be called when it has of the next."""
        return self._ahead.release if self._ahead.acquire(timeout=UNHEARD_WAIT) else _nothing


class Store:
    """A folder with `tasks.db`, held by this process alone.

    `deliver` runs a function in the thread that owns the callbacks (reactor.callFromThread), `soon` runs one there at
    the end of the current turn (reactor.callLater(0, ...)).
    """

    def __init__(self, folder: Path, deliver: Deliver, soon: Deliver, clock: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self.path = folder / "tasks.db"
        self.on_notices: Callable[[list[Notice], float], None] = lambda notices, wall: None
        self.on_trouble: Callable[[str | None], None] = lambda text: None  # None: writing works again
        self.pending = 0  # jobs not answered yet; counted in the thread of the callbacks
        self._deliver, self._soon, self._clock = deliver, soon, clock
        self._writing, self._reading = _Line(BATCH_JOBS, WRITE_AHEAD), _Line(READ_JOBS, READ_AHEAD)
        self._threads: list[threading.Thread] = []
        self._lock: IO[str] | None = None
        self._trouble: str | None = None

    # -------------------------------------------------------------------------------------- start and end

    def open(self) -> Recovery:
        """Take the folder and start both threads. StoreError says what stands in the way."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = (self.folder / "lock").open("a")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._unlock()
            raise StoreError(f"{self.folder} is in use by another broker; stop it or choose another --state") from None
        except OSError as error:
            raise StoreError(f"{self.folder} cannot be used: {error.strerror}; choose another --state") from error
        try:
            prepare(self.path)
            found = self._recover()
        except StoreError:
            self._unlock()
            raise
        for name, loop in (("zerotask-writer", self._write_all), ("zerotask-reader", self._read_all)):
            thread = threading.Thread(target=loop, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
        return found

    def _recover(self) -> Recovery:
        connection = connect(self.path)
        try:
            shelf = SqlShelf(connection)
            return Recovery(shelf.leases(), shelf.policies())
        except sqlite3.Error as error:
            raise StoreError(f"{self.path} cannot be read: {error}; restore it from a backup") from error
        finally:
            connection.close()

    def end(self) -> None:
        """No more jobs: both threads stop when they have done what they were given. Does not wait."""
        for line in (self._writing, self._reading):
            self._flush(line)
            line.queue.put([])

    def join(self) -> None:
        """Wait for both threads; what they still delivered is in the hands of `deliver`."""
        for thread in self._threads:
            thread.join()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    # ------------------------------------------------------------------------------------------ jobs come

    def write(self, job: Job, done: Done, durable: bool = True) -> None:
        self._post(self._writing, Pending(job, done, durable))

    def read(self, job: Job, done: Done) -> None:
        self._post(self._reading, Pending(job, done, durable=False))

    def _post(self, line: _Line, pending: Pending) -> None:
        """What comes in one turn of the reactor wakes the other thread once."""
        self.pending += 1
        if not line.outbox:
            self._soon(lambda: self._flush(line))
        line.outbox.append(pending)

    def _flush(self, line: _Line) -> None:
        if line.outbox:
            outbox, line.outbox = line.outbox, []
            line.queue.put(outbox)

    # ------------------------------------------------------------------------------------------ they are done

    def _write_all(self) -> None:
        """The writer's life. It survives what the disk does to it."""
        desk = _WriteDesk(self.path, self._clock)
        while (batch := self._writing.take(PROBE_EVERY if self._trouble else CHECKPOINT_IDLE)) is not None:
            if not batch:
                desk.idle()
                self._probe(desk)
            while batch:
                heard = self._writing.wait_for_room()
                done, text = desk.transact(batch)
                self._answer(done, desk.take_notices(), self._changed(text), desk.now, heard)
                batch = batch[len(done) :]
            desk.checkpoint_when_due()
        desk.close()

    def _probe(self, desk: _WriteDesk) -> None:
        if self._trouble is not None:
            self._answer([], [], self._changed(desk.transact([_probing()])[1]), desk.now)

    def _changed(self, text: str | None) -> bool:
        """Note how writing goes; whether that is news."""
        news = (text is None) != (self._trouble is None)
        self._trouble = text
        return news

    def _answer(
        self, batch: list[Pending], notices: list[Notice], news: bool, wall: float, heard: Callable[[], None] = _nothing
    ) -> None:
        text = self._trouble

        def deliver() -> None:
            heard()
            self.pending -= len(batch)
            if news:
                _guarded(self.on_trouble, text)
            if notices:
                _guarded(self.on_notices, notices, wall)
            for pending in batch:
                _guarded(pending.done, pending.value, pending.error)

        if batch or notices or news:
            self._deliver(deliver)

    def _read_all(self) -> None:
        connection: sqlite3.Connection | None = None
        while (batch := self._reading.take(None)) is not None:
            heard = self._reading.wait_for_room()
            for pending in batch:
                try:
                    connection = connection or connect(self.path)
                    _perform(pending, Ledger(SqlShelf(connection, cached=0), random.random, encode), self._clock())
                except sqlite3.Error as error:
                    pending.error = RpcError(errors.STORING_FAILED, f"reading the store failed: {error}")
                    connection = _closed(connection)
                except Exception:
                    _log.failure("A reading job failed")
                    pending.error = _internal()
            self._answer(batch, [], news=False, wall=0.0, heard=heard)
        _closed(connection)


class _WriteDesk:
    """The writer's connection and its transactions. Lives in the writer's thread."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path, self._clock = path, clock
        self._ledger: Ledger | None = None
        self._connection: sqlite3.Connection | None = None
        self._synced = True  # what PRAGMA synchronous says now
        self._rows = 0  # total_changes at the last checkpoint
        self.now = 0.0  # of the last transaction

    def _open(self) -> tuple[Ledger, sqlite3.Connection]:
        if self._ledger is None or self._connection is None:
            self._connection = connect(self._path)
            self._ledger, self._synced, self._rows = Ledger(SqlShelf(self._connection), random.random, encode), True, 0
        return self._ledger, self._connection

    def transact(self, batch: list[Pending]) -> tuple[list[Pending], str | None]:
        """Run jobs from the head of the batch and commit: which were done with, and the trouble that the disk made."""
        try:
            return self._run(batch), None
        except sqlite3.Error as error:
            self._undo()
            _log.error("Storing failed: {error}", error=error)
            said = (
                f"storing failed: {error}; nothing of this call was kept, make room on the broker's disk and repeat it"
            )
            for pending in batch:
                pending.value, pending.error = None, RpcError(errors.STORING_FAILED, said)
            return batch, str(error)
        except _Failed as failed:
            # A bug in one job must not cost the others theirs: what came before runs again, then it alone is refused.
            self._undo()
            before = batch[: batch.index(failed.pending)]
            if before:
                return self.transact(before)
            failed.pending.value, failed.pending.error = None, _internal()
            return batch[:1], None

    def _run(self, batch: list[Pending]) -> list[Pending]:
        """One transaction; at least one job, then more until BATCH_SECONDS are over."""
        ledger, connection = self._open()
        self._sync(connection, any(pending.durable for pending in batch))
        connection.execute("BEGIN IMMEDIATE")
        self.now, deadline, done = self._clock(), time.monotonic() + BATCH_SECONDS, 0
        while done < len(batch) and (not done or time.monotonic() < deadline):
            self._perform(batch[done], ledger, self.now)
            done += 1
        connection.execute("COMMIT")
        return batch[:done]

    def _perform(self, pending: Pending, ledger: Ledger, now: float) -> None:
        try:
            _perform(pending, ledger, now)
        except sqlite3.Error:
            raise
        except Exception as error:
            _log.failure("A writing job failed")
            raise _Failed(pending) from error

    def _sync(self, connection: sqlite3.Connection, wanted: bool) -> None:
        if wanted is not self._synced:
            connection.execute(f"PRAGMA synchronous = {'FULL' if wanted else 'NORMAL'}")
            self._synced = wanted

    def _undo(self) -> None:
        """Back to what is on disk, by a fresh connection: the old one's pages are not to be trusted after an error."""
        self._ledger, self._connection = None, _closed(self._connection)

    def take_notices(self) -> list[Notice]:
        if self._ledger is None:
            return []
        notices, self._ledger.notices = self._ledger.notices, []
        return notices

    def checkpoint_when_due(self) -> None:
        if self._connection is not None and self._connection.total_changes - self._rows >= CHECKPOINT_ROWS:
            self.idle()

    def idle(self) -> None:
        """Bring the log into the database. A failure costs nothing: the log stays, and the next commit says so."""
        if self._connection is None or self._connection.total_changes == self._rows:
            return
        self._rows = self._connection.total_changes
        try:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.Error as error:
            _log.warn("Bringing in the log failed: {error}", error=error)

    def close(self) -> None:
        self.idle()
        _closed(self._connection)


class _Failed(Exception):
    """A job that raised what no job should."""

    def __init__(self, pending: Pending) -> None:
        super().__init__(pending)
        self.pending = pending


def _perform(pending: Pending, ledger: Ledger, now: float) -> None:
    pending.value = pending.error = None
    try:
        pending.value = pending.job(ledger, now)
    except RpcError as error:
        pending.error = error


def _probing() -> Pending:
    def job(ledger: Ledger, now: float) -> None:
        shelf = ledger.shelf
        assert isinstance(shelf, SqlShelf)
        shelf.probe(now)

    return Pending(job, lambda value, error: None, durable=True)


def _internal() -> RpcError:
    return RpcError(errors.INTERNAL, "the broker failed; its log says how")


def _closed(connection: sqlite3.Connection | None) -> None:
    if connection is not None:
        with contextlib.suppress(sqlite3.Error):
            connection.close()
    return None


def _guarded(call: Callable[..., None], *values: Any) -> None:
    """One callback's fault is not the next one's."""
    try:
        call(*values)
    except Exception:
        _log.failure("A callback of the store failed")
