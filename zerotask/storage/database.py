"""Keeps tasks durably: one thread writes with group commit, one reads, and neither runs in the reactor.

A job is a function of (Ledger, now). Writing jobs run in order, up to BATCH_JOBS to a transaction, and are answered
only after its commit. A read sees every write that came before it: it is handed to the reader once those are answered.
A transaction with a `durable` job in it is synced to disk (synchronous=FULL). One of claims alone is written but not
synced, since a claim that a power cut undoes is simply made again.

When the disk is full or fails, every job of the transaction gets STORING_FAILED, the transaction is rolled back, and
`on_trouble` is called; reading goes on. A probe every PROBE_EVERY seconds finds out when writing works again. A damaged
database is made anew from the rows that can be read (storage/repair.py), `on_damage` is called, and the jobs that met
the damage run again. The store knows no sockets and no methods.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import evolve, frozen
from twisted.logger import Logger

from groundwork.event import Event
from groundwork.file_lock import FileLock, LockHeld
from groundwork.sqlite_errors import is_damage
from zerotask.storage.faults import lost_before, sentence
from zerotask.storage.jobs import Done, Job, JobQueue, PendingJob, do_nothing
from zerotask.storage.reader import Reader
from zerotask.storage.repair import mend_log, repair
from zerotask.storage.schema import StoreError, connect, prepare
from zerotask.storage.task_clock import TaskClock
from zerotask.storage.task_table import SqlTaskTable
from zerotask.storage.writer import Writer, close_quietly
from zerotask.tasks.task import Notice

BATCH_JOBS = 256  # in one transaction: a sync is shared by all that are on their way
READ_JOBS = 16  # of the reader at once: results may have 8 MiB each
# Batches with answers that the reactor has not taken yet; further results stay on disk.
READ_AHEAD, WRITE_AHEAD = 2, 8
PROBE_EVERY = 2.0  # seconds between attempts to write while the disk is in trouble
REPAIR_EVERY = 60.0  # seconds between attempts to repair a damaged database: each reads all of it
CHECKPOINT_IDLE = 1.0  # seconds without work after which a checkpoint is made as well

Deliver = Callable[[Callable[[], None]], Any]

_log = Logger()


@frozen
class Recovery:
    """Lists what a broker finds in the database when it starts.

    `leases`: (lease, node) pairs. `damage`: a sentence about tasks that were lost; None if none is on record.
    """

    leases: list[tuple[int, str]]
    policies: dict[str, bytes]
    damage: str | None = None
    lost: int = 0  # tasks that are on record as lost


class Store:
    """Runs jobs on the database of a folder, `tasks.db`, which it locks against other processes.

    `deliver` runs a function in the thread that owns the callbacks (reactor.callFromThread); `soon` runs one there at
    the end of the current turn (reactor.callLater(0, ...)). `clock` returns task-clock seconds, from `open` on.
    """

    def __init__(self, folder: Path, deliver: Deliver, soon: Deliver) -> None:
        self.folder = folder
        self.path = folder / "tasks.db"
        self.on_notices: Event[[list[Notice], float]] = Event()  # after a commit, with its time in task-clock seconds
        self.on_trouble: Event[[str | None]] = Event()  # the disk's error; None: writing works again
        self.on_damage: Event[[str, tuple[str, ...]]] = Event()  # a sentence, and the ids of the tasks that are lost
        self.pending = 0  # jobs not answered yet; counted in the thread of the callbacks
        self.clock: Callable[[], float] = time.time
        self._deliver, self._soon = deliver, soon
        self._writing, self._reading = JobQueue(BATCH_JOBS, WRITE_AHEAD), JobQueue(READ_JOBS, READ_AHEAD)
        self._written = self._answered = 0  # writing jobs that have come in, and those that are answered
        self._held: deque[tuple[int, PendingJob]] = deque()  # reads, behind the number of the last write before them
        self._threads: list[threading.Thread] = []
        self._lock: FileLock | None = None
        self._trouble: str | None = None
        self._reader = Reader(self.path, lambda: self.clock())
        self._repair_from = 0.0  # monotonic seconds of the next attempt

    # -------------------------------------------------------------------------------------- start and end

    def open(self) -> Recovery:
        """Lock the folder, make it if it is missing, start both threads; return what the database has.

        Raises StoreError if another broker has the folder, or if it or the database cannot be used.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = FileLock(self.folder / "lock")
        except LockHeld as held:
            raise StoreError(
                f"{self.folder} is in use by another broker ({held.holder}); stop it or choose another --state"
            ) from None
        except OSError as error:
            raise StoreError(f"{self.folder} cannot be used: {error.strerror}; choose another --state") from error
        try:
            found = self._prepare()
        except StoreError:
            self._unlock()
            raise
        for name, loop in (("zerotask-writer", self._write_all), ("zerotask-reader", self._read_all)):
            thread = threading.Thread(target=loop, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
        return found

    def _prepare(self) -> Recovery:
        """Make the database ready; repair it if it is damaged. Raises StoreError."""
        damage = mend_log(self.path, time.time())
        try:
            prepare(self.path)
            found = self._recover()
        except StoreError as error:
            if not is_damage(error.__cause__):
                raise
            damage = repair(self.path, time.time())
            prepare(self.path)
            found = self._recover()
        if damage is not None:
            _log.error("{path}: {damage}", path=str(self.path), damage=str(damage))
            return evolve(found, damage=str(damage))
        return found

    def _recover(self) -> Recovery:
        connection: sqlite3.Connection | None = None
        try:
            connection = connect(self.path)
            table = SqlTaskTable(connection)
            self.clock = clock = TaskClock(table.clock())
            if clock.skipped:
                table.move_delays(clock.skipped)
            lost = table.count_lost()
            return Recovery(table.leases(), table.policies(), lost_before(lost), lost)
        except sqlite3.Error as error:
            raise StoreError(f"{self.path} cannot be read: {sentence(error)}") from error
        finally:
            close_quietly(connection)

    def end(self) -> None:
        """Stop both threads after the jobs that they have. Take no job after this; does not wait, `join` does.

        Reads that still wait for writes are run behind them, by the writer: the reader may be done by then.
        """
        while self._held:
            self._writing.put(self._held.popleft()[1])
        for jobs in (self._writing, self._reading):
            jobs.end()

    def join(self) -> None:
        """Wait for both threads and unlock the folder. `deliver` may still hold their last answers."""
        for thread in self._threads:
            thread.join()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # ---------------------------------------------------------------------------------------- jobs come in

    def write(self, job: Job, done: Done, durable: bool = True) -> None:
        """Run a job in the writer's next transaction; call `done(value, error)` after the commit."""
        self.pending += 1
        self._written += 1
        self._post(self._writing, PendingJob(job, done, durable, number=self._written))

    def read(self, job: Job, done: Done, current: bool = True) -> None:
        """Run a job that only reads in the reader's thread; call `done(value, error)` with what it returned.

        It sees all writes that came before it. With `current` false it doesn't wait for those that are on their way.
        """
        self.pending += 1
        pending = PendingJob(job, done, durable=False)
        if current and self._answered < self._written:
            self._held.append((self._written, pending))
        else:
            self._post(self._reading, pending)

    def _post(self, jobs: JobQueue, pending: PendingJob) -> None:
        if jobs.put(pending):
            self._soon(jobs.flush)

    # -------------------------------------------------------------------------------------- and are answered

    def _write_all(self) -> None:
        """Run the writer's thread. It goes on after errors of the disk."""
        writer = Writer(self.path, self.clock, self._repair)
        while (batch := self._writing.take(PROBE_EVERY if self._trouble else CHECKPOINT_IDLE)) is not None:
            if not batch:
                writer.checkpoint()
                self._probe(writer)
            while batch:
                taken = self._writing.wait_for_room()
                done, trouble = writer.transact(batch)
                self._answer(done, writer.take_notices(), self._changed(trouble), writer.now, taken)
                batch = batch[len(done) :]
            writer.checkpoint_when_due()
        writer.close()

    def _probe(self, writer: Writer) -> None:
        if self._trouble is not None:
            self._answer([], [], self._changed(writer.probe()), writer.now)

    def _changed(self, trouble: str | None) -> bool:
        """Note the disk's error, or None; return True if writing has begun to fail, or works again."""
        changed = (trouble is None) != (self._trouble is None)
        self._trouble = trouble
        return changed

    def _answer(
        self,
        batch: list[PendingJob],
        notices: list[Notice],
        changed: bool,
        wall: float,
        taken: Callable[[], None] = do_nothing,
    ) -> None:
        trouble = self._trouble

        def deliver() -> None:
            taken()
            self.pending -= len(batch)
            if changed:
                _guarded(self.on_trouble, trouble)
            if notices:
                _guarded(self.on_notices, notices, wall)
            for pending in batch:
                self._answered = max(self._answered, pending.number)
                _guarded(pending.done, pending.value, pending.error)
            while self._held and self._held[0][0] <= self._answered:
                self._post(self._reading, self._held.popleft()[1])

        if batch or notices or changed:
            self._deliver(deliver)
        else:
            taken()

    def _read_all(self) -> None:
        """Run the reader's thread. A read that meets damage is left to the writer, which repairs it."""
        while (batch := self._reading.take(None)) is not None:
            taken = self._reading.wait_for_room()
            done = [pending for pending in batch if self._reader.run(pending)]
            for pending in batch:
                if pending not in done:
                    self._writing.pass_on(pending)
            self._answer(done, [], changed=False, wall=0.0, taken=taken)
        self._reader.close()

    # -------------------------------------------------------------------------------------- damage

    def _repair(self) -> bool:
        """Make a damaged database anew; return False if that fails. Runs in the writer's thread."""
        if time.monotonic() < self._repair_from:
            return False
        with self._reader.closed:
            self._reader.close()
            try:
                damage = repair(self.path, time.time())
            except StoreError as error:
                self._repair_from = time.monotonic() + REPAIR_EVERY
                self._tell_damage(str(error), ())
                return False
        self._tell_damage(str(damage), damage.lost)
        return True

    def _tell_damage(self, text: str, lost: tuple[str, ...]) -> None:
        self._deliver(lambda: _guarded(self.on_damage, text, lost))


def _guarded(call: Callable[..., None], *values: Any) -> None:
    """Call a callback and log its exception, so that the next callbacks run."""
    try:
        call(*values)
    except Exception:
        _log.failure("A callback of the store failed")
