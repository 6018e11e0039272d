"""What Helen must not forget, in SQLite: one database, one thread that touches it, one transaction for all that waits.

    store = Store(state_folder, reactor.callFromThread)
    loaded = store.open(now)              # blocking; what goes wrong is a StateError with a sentence
    d = store.call(records.audit, entry)  # any function(db, *args) of records, credentials, publications or your own
    d = store.close()

A Deferred fires in the reactor thread, in the order of the calls, once its transaction is on the disk. It does not
know what the rows mean; results of checks are not kept here but in the journal.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Concatenate, ParamSpec, TypeVar

import attrs
from twisted.internet.defer import Deferred, fail
from twisted.python.failure import Failure

from helen import schema
from helen.credentials import live_certificates
from helen.known_keys import KnownCertificate
from helen.publications import Revision, Rollout, SignedManifest, manifests, newest_revision, rollouts
from helen.records import Agent, agents, everything
from helen.statedir import Lock
from helen.telemetry import QUICK, Histogram
from helen.web_tokens import WebToken, tokens

P = ParamSpec("P")
T = TypeVar("T")

BATCH = 256  # calls in one transaction: at some 20 us each they hold the last one up by 5 ms, about one fsync
MAX_WAITING = 10_000  # calls not yet on disk: 40 full batches, some seconds on a slow disk; more is a dead disk


class StoreFailed(Exception):
    """The transaction did not reach the disk; nothing of it is kept. The next call may work again."""


class StoreOverloaded(StoreFailed):
    """Too much waits for the disk already."""


class StoreClosed(StoreFailed):
    """The store is closed or was never opened."""


@attrs.frozen
class Loaded:
    """Everything that the server needs in memory at start."""

    agents: tuple[Agent, ...]
    certificates: tuple[KnownCertificate, ...]  # unexpired, revoked ones included
    assignments: Revision | None
    manifests: tuple[SignedManifest, ...]
    rollouts: tuple[Rollout, ...]
    kv: dict[str, str]
    web_tokens: tuple[WebToken, ...] = ()


@attrs.frozen(eq=False)
class _Call:
    work: Callable[[sqlite3.Connection], Any]
    done: Deferred[Any]


class Store:
    """STATE/helen.db. Every method is for the reactor thread; `call_from_thread` brings answers back there."""

    def __init__(self, state: Path, call_from_thread: Callable[..., Any]) -> None:
        self.trouble: str | None = None  # why the last transaction failed; None once one has worked again
        self.write_seconds = Histogram(QUICK)
        self._state = state
        self._call_from_thread = call_from_thread
        self._queue: SimpleQueue[_Call | None] = SimpleQueue()
        self._waiting = 0
        self._closed: Deferred[None] | None = None
        self.is_open = False

    def open(self, now: float) -> Loaded:
        """Locks, migrates, reads, starts the thread. Blocking: before the reactor serves anybody, after daemonising."""
        self._lock = Lock(self._state)
        try:
            self._db = schema.connect(self._state / "helen.db")
            loaded = _load(self._db, now)
        except BaseException:
            self._lock.release()
            raise
        self.is_open = True
        threading.Thread(target=self._run, name="helen.store", daemon=True).start()
        return loaded

    def call(self, work: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kw: P.kwargs) -> Deferred[T]:
        """Run `work(db, *args)` in the store's thread. What it raises undoes its own writes only, and fails this."""
        if not self.is_open:
            return fail(StoreClosed("The store is closed."))
        if self._waiting >= MAX_WAITING:
            return fail(StoreOverloaded(f"{self._waiting} calls wait for the disk already."))
        self._waiting += 1
        call = _Call(lambda db: work(db, *args, **kw), Deferred())
        self._queue.put(call)
        return call.done

    def close(self) -> Deferred[None]:
        """Fires when all that was asked before is on disk and the lock is free. No call is taken any more."""
        if not self.is_open:
            return fail(StoreClosed("The store is closed."))
        self.is_open = False
        self._closed = Deferred()
        self._queue.put(None)
        return self._closed

    # ------------------------------------------------------------------------------------- in the reactor thread

    def _fire(self, batch: Sequence[_Call], outcomes: Sequence[Any], trouble: str | None) -> None:
        self._waiting -= len(batch)
        self.trouble = trouble
        for call, outcome in zip(batch, outcomes, strict=True):
            call.done.callback(outcome)  # a Failure goes the way of errors

    def _fire_closed(self) -> None:
        assert self._closed is not None
        self._closed.callback(None)

    # ------------------------------------------------------------------------------------- in the store's thread

    def _run(self) -> None:
        last = False
        while not last:
            batch, last = self._next_batch()
            if batch:
                self._call_from_thread(self._fire, batch, *self._transact(batch))
        self._db.close()
        self._lock.release()
        self._call_from_thread(self._fire_closed)

    def _next_batch(self) -> tuple[list[_Call], bool]:
        """What waits, at least one call; and whether that was the end."""
        batch: list[_Call] = []
        call = self._queue.get()
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
        """What became of each call, and what is wrong with the disk."""
        began = time.monotonic()
        try:
            self._db.execute("BEGIN IMMEDIATE")
            outcomes = [self._one(call) for call in batch]
            self._db.execute("COMMIT")
            self.write_seconds.observe(time.monotonic() - began)
        except Exception as error:  # whatever it is, this thread must live
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            reason = f"{self._state / 'helen.db'}: {error}"
            return [Failure(StoreFailed(reason)) for _ in batch], reason
        return outcomes, None

    def _one(self, call: _Call) -> Any:
        """A call's value or Failure; raises when the whole transaction is over, as it is with a full disk."""
        self._db.execute("SAVEPOINT call")
        try:
            outcome = call.work(self._db)
        except Exception:
            if not self._db.in_transaction:
                raise
            outcome = Failure()
            outcome.cleanFailure()  # frames hold on to tokens and keys
            self._db.execute("ROLLBACK TO call")
        self._db.execute("RELEASE call")
        return outcome


def _load(db: sqlite3.Connection, now: float) -> Loaded:
    return Loaded(
        agents=agents(db),
        certificates=live_certificates(db, now),
        assignments=newest_revision(db),
        manifests=manifests(db),
        rollouts=rollouts(db),
        kv=everything(db),
        web_tokens=tokens(db),
    )
