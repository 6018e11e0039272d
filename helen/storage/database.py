"""Runs functions on the SQLite database STATE/helen.db in one thread, and answers when their writes are on disk.

    store = Store(state_folder, reactor.callFromThread)
    loaded = store.open(now)                 # blocking; raises StateError with a sentence
    d = store.call(agent_rows.audit, entry)  # any function(db, *args)
    d = store.close()

All calls that wait make one transaction. A Deferred fires in the reactor thread, in the order of the calls, once its
transaction is on the disk. The rows have modules of their own; results of checks are in the journal, not here.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Concatenate, ParamSpec, TypeVar

import attrs
from twisted.internet.defer import Deferred, fail
from twisted.python.failure import Failure

from groundwork.sqlite_errors import is_damage
from helen.files.state_dir import Lock
from helen.storage import agent_rows, schema
from helen.storage.agent_rows import Agent, agents, everything
from helen.storage.credential_rows import live_certificates
from helen.storage.enrolled_keys import EnrolledCertificate
from helen.storage.publication_rows import Revision, Rollout, SignedManifest, manifests, newest_revision, rollouts
from helen.storage.web_session_rows import WebSession, sessions
from helen.storage.web_token_rows import WebToken, tokens
from helen.telemetry import QUICK, Histogram

P = ParamSpec("P")
T = TypeVar("T")

BATCH = 256  # calls in one transaction: at some 20 us each they hold the last one up by 5 ms, about one fsync
MAX_WAITING = 10_000  # calls not yet on disk: 40 full batches, some seconds on a slow disk; more is a dead disk
PROBE_SECONDS = 1.0  # between two tries while the disk is in trouble, for nothing else may be written for long
SLICE_SECONDS = 0.0005  # of answers in one turn of the reactor: what follows from one may take longer than that
PROBE, PROBE_BYTES = "probe", 8_192  # more than one page of 4 KiB


class StoreFailed(Exception):
    """Says that a transaction did not reach the disk, and that nothing of it is kept. The next call may work again."""


class StoreOverloaded(StoreFailed):
    """Says that MAX_WAITING calls wait for the disk already."""


class StoreClosed(StoreFailed):
    """Says that the store is closed or was never opened."""


@attrs.frozen
class Loaded:
    """Holds the rows that the server needs in memory at start."""

    agents: tuple[Agent, ...]
    certificates: tuple[EnrolledCertificate, ...]  # unexpired, revoked ones included
    assignments: Revision | None
    manifests: tuple[SignedManifest, ...]
    rollouts: tuple[Rollout, ...]
    kv: dict[str, str]
    web_tokens: tuple[WebToken, ...] = ()
    web_sessions: tuple[WebSession, ...] = ()


@attrs.frozen(eq=False)
class _Call:
    work: Callable[[sqlite3.Connection], Any]
    done: Deferred[Any]


class Store:
    """Runs transactions on helen.db in a thread. Every method is for the reactor thread, where `call_from_thread`
    brings answers.
    """

    def __init__(self, state: Path, call_from_thread: Callable[..., Any]) -> None:
        # Why the last transaction failed, None once one has worked again; or that the database is damaged, for good.
        self.trouble: str | None = None
        self.write_seconds = Histogram(QUICK)
        self._state = state
        self._call_from_thread = call_from_thread
        self._queue: SimpleQueue[_Call | None] = SimpleQueue()
        self._waiting = 0
        self._fired: deque[tuple[_Call, Any]] = deque()  # with their outcomes; the reactor has had no turn for them yet
        self._thread_trouble: str | None = None  # the same as `trouble`, as the store's thread knows it
        self._damage: str | None = None  # met by a call; the store's thread alone sets it
        self._closed: Deferred[None] | None = None
        self.is_open = False

    def open(self, now: float) -> Loaded:
        """Lock the state directory, migrate and read the database, and start the thread. `now`: unix seconds.

        It blocks: call it before the reactor runs, and after the process has become a daemon. Raises StateError.
        """
        self._lock = Lock(self._state)
        try:
            self._db = schema.connect(self._state / "helen.db")
            loaded = self._load(now)
        except BaseException:
            self._lock.release()
            raise
        self.is_open = True
        threading.Thread(target=self._run, name="helen.storage.database", daemon=True).start()
        return loaded

    def _load(self, now: float) -> Loaded:
        try:
            return _load(self._db, now)
        except sqlite3.Error as error:
            self._db.close()
            raise schema.StoreUnreadable(self._sentence(error)) from error

    def _sentence(self, error: BaseException) -> str:
        path = self._state / "helen.db"
        if not is_damage(error):
            return f"{path}: {error}"
        return f"{path} is damaged ({error}): put a backup back with `helen restore`, and look at the disk"

    def call(self, work: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kw: P.kwargs) -> Deferred[T]:
        """Run `work(db, *args)` in the store's thread; fires with its value once the transaction is on disk.

        An exception of `work` undoes its own writes only, and fails this Deferred; that of a damaged part of the
        database with StoreFailed. It is not made anew from what can be read: a revocation might be what is missing.
        """
        if not self.is_open:
            return fail(StoreClosed("The store is closed."))
        if self._waiting >= MAX_WAITING:
            return fail(StoreOverloaded(f"{self._waiting} calls wait for the disk already."))
        self._waiting += 1
        call = _Call(lambda db: work(db, *args, **kw), Deferred())
        self._queue.put(call)
        return call.done

    def close(self) -> Deferred[None]:
        """Take no call any more; fires when all calls before are on disk and the state directory is unlocked."""
        if not self.is_open:
            return fail(StoreClosed("The store is closed."))
        self.is_open = False
        self._closed = Deferred()
        self._queue.put(None)
        return self._closed

    # ------------------------------------------------------------------------------------- in the reactor thread

    def _fire(self, batch: Sequence[_Call], outcomes: Sequence[Any], trouble: str | None) -> None:
        """Tell what became of some calls, in order and in slices: a hundred agents that come at once are one batch."""
        self.trouble = trouble
        is_firing = bool(self._fired)
        self._fired.extend(zip(batch, outcomes, strict=True))
        if not is_firing:
            self._fire_some()

    def _fire_some(self) -> None:
        until = time.monotonic() + SLICE_SECONDS
        while self._fired:
            self._fire_next()
            if self._fired and time.monotonic() >= until:
                self._call_from_thread(self._fire_some)
                return

    def _fire_next(self) -> None:
        call, outcome = self._fired.popleft()
        self._waiting -= 1
        call.done.callback(outcome)  # a Failure goes the way of errors

    def _fire_closed(self) -> None:
        assert self._closed is not None
        while self._fired:
            self._fire_next()
        self._closed.callback(None)

    # ------------------------------------------------------------------------------------- in the store's thread

    def _run(self) -> None:
        last = False
        while not last:
            batch, last = self._next_batch()
            if batch:
                outcomes, self._thread_trouble = self._transact(batch)
                self._call_from_thread(self._fire, batch, outcomes, self._thread_trouble or self._damage)
            elif not last:
                _, self._thread_trouble = self._transact([_Call(_probe, Deferred())])
                self._call_from_thread(self._fire, [], [], self._thread_trouble or self._damage)
        self._db.close()
        self._lock.release()
        self._call_from_thread(self._fire_closed)

    def _next_batch(self) -> tuple[list[_Call], bool]:
        """Wait for a call; return all that wait, up to BATCH, and True if the store is to be closed after them.

        While the disk is in trouble none is returned after PROBE_SECONDS.
        """
        batch: list[_Call] = []
        try:
            call = self._queue.get(timeout=None if self._thread_trouble is None else PROBE_SECONDS)
        except Empty:
            return batch, False
        while call is not None:
            batch.append(call)
            if len(batch) == BATCH:
                return batch, False
            try:
                call = self._queue.get_nowait()
            except Empty:
                return batch, False
        return batch, True

    def _transact(self, batch: Sequence[_Call]) -> tuple[list[Any], str | None]:
        """Run calls in one transaction; return the value or Failure of each, and the trouble with the disk, if any.

        SQLite commits nothing of a transaction in which it met damage, so the other calls run again without that one.
        """
        began = time.monotonic()
        outcomes: dict[_Call, Any] = {}
        while True:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                done = {call: self._one(call) for call in batch if call not in outcomes}
                self._db.execute("COMMIT")
                self.write_seconds.observe(time.monotonic() - began)
            except _MetDamage as met:
                self._roll_back()
                outcomes[met.call] = self._note_damage(met.error)
            except Exception as error:  # whatever it is, this thread must live
                self._roll_back()
                reason = self._sentence(error)
                if is_damage(error):
                    self._damage = reason
                return [Failure(StoreFailed(reason)) for _ in batch], reason
            else:
                outcomes |= done
                return [outcomes[call] for call in batch], None

    def _note_damage(self, error: Exception) -> Failure:
        self._damage = self._sentence(error)
        return Failure(StoreFailed(self._damage))

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            with contextlib.suppress(sqlite3.Error):  # the next BEGIN fails then, and is told
                self._db.execute("ROLLBACK")

    def _one(self, call: _Call) -> Any:
        """Return a call's value or Failure; raises if the whole transaction is over, as it is with a full disk."""
        self._db.execute("SAVEPOINT call")
        try:
            outcome = call.work(self._db)
        except Exception as error:
            if is_damage(error):
                raise _MetDamage(call, error) from error
            if not self._db.in_transaction:
                raise
            outcome = Failure()
            outcome.cleanFailure()  # frames hold on to tokens and keys
            self._db.execute("ROLLBACK TO call")
        self._db.execute("RELEASE call")
        return outcome


class _MetDamage(Exception):
    """Carries a call that met a damaged part of the database."""

    def __init__(self, call: _Call, error: Exception) -> None:
        super().__init__(call, error)
        self.call, self.error = call, error


def _probe(db: sqlite3.Connection) -> None:
    """Write something that takes new pages, and take it back."""
    agent_rows.put(db, PROBE, "x" * PROBE_BYTES)
    agent_rows.drop(db, PROBE)


def _load(db: sqlite3.Connection, now: float) -> Loaded:
    return Loaded(
        agents=agents(db),
        certificates=live_certificates(db, now),
        assignments=newest_revision(db),
        manifests=manifests(db),
        rollouts=rollouts(db),
        kv=everything(db),
        web_tokens=tokens(db),
        web_sessions=sessions(db),
    )
