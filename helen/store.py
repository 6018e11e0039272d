"""What Helen must not forget, in SQLite (interface).

    store = Store(state_folder, reactor.callFromThread)
    loaded = store.open()                 # blocking; StateLocked, StoreTooNew, StoreUnreadable are sentences
    d = store.call(records.audit, entry)  # any function(db, *args): runs in the store's thread, fires when durable
    store.close()
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import attrs
from twisted.internet.defer import Deferred

P = ParamSpec("P")
T = TypeVar("T")


class StoreError(Exception):
    """Base of what the store refuses; each is one sentence for the operator."""


class StateLocked(StoreError):
    """Another Helen has the state directory."""


@attrs.frozen
class Loaded:
    """Everything that the server needs in memory at start."""

    agents: tuple[Any, ...]
    certificates: tuple[Any, ...]
    rollouts: tuple[Any, ...]
    assignments: Any | None
    kv: dict[str, str]


class Store:
    """One SQLite database, one thread, one transaction for all that waits."""

    def __init__(self, state: Path, call_from_thread: Callable[..., Any]) -> None: ...

    def open(self) -> Loaded:
        """Locks, migrates, reads, starts the thread. Blocking: call it before the reactor serves anybody."""

    def call(self, work: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kw: P.kwargs) -> Deferred[T]:
        """Runs `work(db, *args)` in the store's thread; fires in the reactor thread once the transaction is on disk."""

    def close(self) -> None:
        """Finishes what was queued (blocking, bounded), then lets go of the lock."""
