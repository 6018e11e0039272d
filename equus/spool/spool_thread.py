"""Run the spool in a thread of its own, so that the reactor never waits for a disk.

Commands that arrive while the disk is busy are done together and synced once. Answers come back through
`call_from_thread`. If the disk fails, a spool in memory takes the place of the one on disk: a host must not fall silent
because its disk dies. Without a descriptor for a file the thread waits until there is one. Any other failure ends the
thread, and `failed` is called once.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from attrs import frozen
from twisted.logger import Logger

from equus.spool.memory_spool import MemorySpool, in_place_of
from equus.spool.recent_reports import RecentReports
from equus.spool.segment import Record
from equus.spool.spool import Spool
from groundwork.disk_faults import DISK_FAULTS, NO_DESCRIPTOR
from groundwork.event import Event

T = TypeVar("T")

MAX_WAITING = 16 * 1024 * 1024  # bytes of results that may wait for a slow disk; beyond it runs are not started
PER_RECORD = 256  # bytes that a queued result takes beside its blob, about
RETRY_SECONDS = 0.2  # between two tries to open a file while no descriptor is left
MAX_BATCH = 256  # commands between two syncs, so that the first of them isn't kept waiting by the last


@frozen
class SpoolState:
    """Holds the spool's id and figures after a batch, for `loaded`, the ReportSender and the self-report."""

    id: str
    first: int
    last: int  # durable
    depth: int  # reports
    size: int  # bytes
    whole_from: int  # the sequence from which on no report is lost
    fault: str | None = None  # the reason why it is in memory; None: it is on disk


def state_of(spool: Spool | MemorySpool) -> SpoolState:
    """Return the state of the spool as it is now."""
    return SpoolState(spool.id, spool.first, spool.last, spool.depth, spool.size, spool.whole_from, spool.fault)


class SpoolThread:
    """Holds the spool as the reactor's thread sees it. `state` changes before each event `changed`.

    `failed` gets the exception that ends the thread; with `falls_back` a failing disk does not. All methods are for the
    reactor's thread.
    """

    log = Logger()

    def __init__(
        self,
        spool: Spool | MemorySpool,
        call_from_thread: Callable[..., None],
        failed: Callable[[BaseException], None],
        falls_back: bool = False,
    ) -> None:
        self._spool = spool
        self._synced = spool.last
        self._unsynced: list[tuple[str, bytes]] = []  # ids and blobs of the reports after it
        self._falls_back = falls_back
        self._call_from_thread = call_from_thread
        self.changed: Event[[]] = Event()
        self._failed = failed
        self._commands: queue.SimpleQueue[tuple[Callable[..., Any], tuple[Any, ...]] | None] = queue.SimpleQueue()
        self._waiting = 0
        self._is_waiting = False  # for a descriptor
        self.state = state_of(spool)
        self._recent = RecentReports()
        self._written: list[tuple[str, Record]] = []  # spool and report of each append since the last sync
        self._thread = threading.Thread(target=self._work, name="spool", daemon=True)

    @property
    def is_behind(self) -> bool:
        """Return True if so much waits for the disk that no further run should be started."""
        return self._waiting > MAX_WAITING

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def append(self, check: str, blob: bytes) -> None:
        """Append a result; the event `changed` follows when it is durable."""
        self._waiting += len(blob) + PER_RECORD
        self._commands.put((self._append, (check, blob)))

    def acknowledge(self, spool_id: str, sequence: int) -> None:
        """Forget reports up to a sequence; do nothing if the spool has another id by now."""
        self._recent.forget(spool_id, sequence)
        self._commands.put((self._acknowledge, (spool_id, sequence)))

    def recent(self, spool_id: str, after: int, limit: int) -> list[Record]:
        """Return durable records after a sequence from memory, at most `limit` bytes.

        The list is empty if the next one is on the disk only, or the spool has another id by now.
        """
        return self._recent.after(spool_id, after, limit)

    def read(self, spool_id: str, after: int, limit: int, done: Callable[[list[Record]], None]) -> None:
        """Call `done` in the reactor's thread with the records after a sequence, at most `limit` bytes of blobs.

        The list is empty if the spool has another id by now.
        """
        self._commands.put((self._read, (spool_id, after, limit, done)))

    def stop(self, within: float) -> bool:
        """Do all that was asked and close; return False if the disk took longer than `within` seconds."""
        self._commands.put(None)
        self._thread.join(within)
        return not self._thread.is_alive()

    # ------------------------------------------------------------------------------------------------ in the thread

    def _work(self) -> None:
        try:
            while self._batch():
                pass
            self._spool.close()
        except BaseException as failure:  # whatever it is, it must reach the reactor: else reports stop in silence
            self._call_from_thread(self._failed, failure)

    def _batch(self) -> bool:
        """Do the commands that wait, sync once, then send the answers; return False when it is time to stop."""
        commands = [self._commands.get()]
        while len(commands) < MAX_BATCH and commands[-1] is not None and not self._commands.empty():
            commands.append(self._commands.get())
        answers: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        wrote = sum(command[0](answers, *command[1]) for command in commands if command is not None)
        if wrote:
            self._try(self._spool.sync)
            self._unsynced.clear()
            self._synced = self._spool.last
        durable = [record for spool, record in self._written if spool == self._spool.id]
        self._written.clear()
        self._call_from_thread(self._tell, state_of(self._spool), wrote, durable, answers)
        return commands[-1] is not None

    def _append(self, _answers: list[Any], check: str, blob: bytes) -> int:
        self._unsynced.append((check, blob))
        sequence = self._try(lambda: self._spool.append(check, blob))
        if sequence is not None:
            self._written.append((self._spool.id, Record(sequence, check, blob)))
        return len(blob) + PER_RECORD

    def _acknowledge(self, _answers: list[Any], spool_id: str, sequence: int) -> int:
        if spool_id == self._spool.id:
            self._try(lambda: self._spool.acknowledge(sequence))
            if self._spool.id != spool_id:  # all that waited is in a new spool, and on the disk
                self._unsynced.clear()
                self._synced = self._spool.last
        return 0

    def _read(self, answers: list[Any], spool_id: str, after: int, limit: int, done: Callable[..., None]) -> int:
        records = self._try(lambda: self._spool.read(after, limit)) if spool_id == self._spool.id else None
        answers.append((done, (records or [],)))
        return 0

    def _try(self, act: Callable[[], T]) -> T | None:
        """Call `act`, which uses the spool. If the disk fails, go on in memory with all that waits, and return None.

        While no descriptor is left, wait and call it again. Raises OSError if nothing of that is to be done.
        """
        while True:
            try:
                result = act()
            except OSError as error:
                if error.errno in NO_DESCRIPTOR:
                    self._wait_for_descriptor(error)
                    continue
                self._replace(error)
                return None
            self._is_waiting = False
            return result

    def _wait_for_descriptor(self, error: OSError) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            text = (
                "the spool waits: {path} can't be opened ({why}). Results are kept in memory meanwhile, up to 16 MiB."
                " Raise LimitNOFILE of the agent's unit (ulimit -n), or look which program holds so many files"
            )
            self._call_from_thread(partial(self.log.warn, text, path=error.filename, why=error.strerror))
        time.sleep(RETRY_SECONDS)

    def _replace(self, error: OSError) -> None:
        """Go on with a spool in memory in place of one whose disk fails. Raises `error` if that is not to be done."""
        broken = self._spool
        if not self._falls_back or error.errno not in DISK_FAULTS or isinstance(broken, MemorySpool):
            raise error
        self._spool = in_place_of(broken, self._synced, self._unsynced, error)
        self._unsynced.clear()
        self._synced = self._spool.last
        with suppress(OSError):
            broken.close()

    # ------------------------------------------------------------------------------------------------ in the reactor

    def _tell(self, state: SpoolState, wrote: int, durable: list[Record], answers: list[Any]) -> None:
        self._waiting -= wrote
        self.state = state
        self._recent.add(state.id, durable, max(state.whole_from, state.first))
        for done, arguments in answers:
            done(*arguments)
        self.changed()
