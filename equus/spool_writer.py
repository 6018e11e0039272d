"""The one thread that touches the spool's files, so that the reactor never waits for a disk.

Whatever has been asked while the disk was busy is done together and synced once. Answers come back through
`call_from_thread`. A disk that fails (not: is full) ends the thread, and `failed` says so once: after a failed fsync
nobody can know what is on it, so the agent stops and a fresh start reads the truth.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from attrs import frozen

from equus.spool import Spool
from equus.spool_segment import Record

MAX_WAITING = 16 * 1024 * 1024  # bytes of results that may wait for a slow disk; beyond it runs are not started
PER_RECORD = 256  # bytes that a queued result takes beside its blob, about
MAX_BATCH = 256  # commands between two syncs, so that the first of them isn't kept waiting by the last


@frozen
class Standing:
    """Where the spool stands after a batch: what `loaded`, the sender and the self-report need."""

    id: str
    first: int
    last: int  # durable
    depth: int
    size: int


def standing_of(spool: Spool) -> Standing:
    return Standing(spool.id, spool.first, spool.last, spool.depth, spool.size)


class SpoolWriter:
    """`standing` is what the reactor thread knows; it changes before each call of `on_change`."""

    def __init__(
        self,
        spool: Spool,
        call_from_thread: Callable[..., None],
        on_change: Callable[[], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._spool = spool
        self._call_from_thread = call_from_thread
        self._on_change = on_change
        self._failed = failed
        self._commands: queue.SimpleQueue[tuple[Callable[..., Any], tuple[Any, ...]] | None] = queue.SimpleQueue()
        self._waiting = 0
        self.standing = standing_of(spool)
        self._thread = threading.Thread(target=self._work, name="spool", daemon=True)

    @property
    def is_behind(self) -> bool:
        """Whether so much waits for the disk that no further run should be started."""
        return self._waiting > MAX_WAITING

    def start(self) -> None:
        self._thread.start()

    def append(self, check: str, blob: bytes) -> None:
        """Take a result; `on_change` tells when it is durable."""
        self._waiting += len(blob) + PER_RECORD
        self._commands.put((self._append, (check, blob)))

    def acknowledge(self, spool_id: str, sequence: int) -> None:
        """Of a spool that is gone: nothing to do."""
        self._commands.put((self._acknowledge, (spool_id, sequence)))

    def read(self, spool_id: str, after: int, limit: int, done: Callable[[list[Record]], None]) -> None:
        """`done` gets what follows, in the reactor thread; nothing if the spool has changed its name meanwhile."""
        self._commands.put((self._read, (spool_id, after, limit, done)))

    def stop(self, within: float) -> bool:
        """Do all that was asked, close, and return; False if the disk took longer than that."""
        self._commands.put(None)
        self._thread.join(within)
        return not self._thread.is_alive()

    # ------------------------------------------------------------------------------------------------ in the thread

    def _work(self) -> None:
        try:
            while self._batch():
                pass
            self._spool.close()
        except BaseException as failure:  # it must reach the reactor whatever it is: else reports stop in silence
            self._call_from_thread(self._failed, failure)

    def _batch(self) -> bool:
        """Do what waits, sync once, then let the answers out; False when it is time to stop."""
        commands = [self._commands.get()]
        while len(commands) < MAX_BATCH and commands[-1] is not None and not self._commands.empty():
            commands.append(self._commands.get())
        answers: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        wrote = sum(command[0](answers, *command[1]) for command in commands if command is not None)
        if wrote:
            self._spool.sync()
        self._call_from_thread(self._tell, standing_of(self._spool), wrote, answers)
        return commands[-1] is not None

    def _append(self, _answers: list[Any], check: str, blob: bytes) -> int:
        self._spool.append(check, blob)
        return len(blob) + PER_RECORD

    def _acknowledge(self, _answers: list[Any], spool_id: str, sequence: int) -> int:
        if spool_id == self._spool.id:
            self._spool.acknowledge(sequence)
        return 0

    def _read(self, answers: list[Any], spool_id: str, after: int, limit: int, done: Callable[..., None]) -> int:
        records = self._spool.read(after, limit) if spool_id == self._spool.id else []
        answers.append((done, (records,)))
        return 0

    # ------------------------------------------------------------------------------------------------ in the reactor

    def _tell(self, standing: Standing, wrote: int, answers: list[Any]) -> None:
        self._waiting -= wrote
        self.standing = standing
        for done, arguments in answers:
            done(*arguments)
        self._on_change()
