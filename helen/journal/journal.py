"""Makes every result durable before its ack, stores it once, and puts it into Parquet segments.

The reactor thread calls `append`, `append_own`, `change` and `forget_below`; none of them blocks. It counts and encodes
each record there, and reads it there once it is durable, a slice at a time: a thread that computed would take the
interpreter from it. A writer thread makes groups durable in a write-ahead log (WAL), a sealing thread turns each closed
WAL into segments. Both talk back only through `call_from_thread`. This package knows nothing of Twisted, of connections
or of states.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from helen.journal.digest import Digest
from helen.journal.disk import Disk
from helen.journal.folder import Folder
from helen.journal.hand_over import SLICE_SECONDS, HandOver
from helen.journal.intake import Intake
from helen.journal.limits import Limits
from helen.journal.marks import MOST_SEQUENCE
from helen.journal.numbering import Numbering
from helen.journal.recovery import recover
from helen.journal.retention import Retention
from helen.journal.sealer import Sealer
from helen.journal.series import Series
from helen.journal.snapshot import Snapshot
from helen.journal.values import (
    CHANGE_KINDS,
    OWN_SPOOL,
    Batch,
    Change,
    Entry,
    Floor,
    JournalError,
    Origin,
    Recovery,
    Sealed,
    Trouble,
)
from helen.journal.writer import Writer

CallFromThread = Callable[..., Any]
NOT_OPEN = "the journal isn't open"


def inner_spool(name: str) -> str:
    """Return the stored name of an agent's spool: `helen` is Helen's own, so `helen` of an agent is `~helen`."""
    return f"~{name}" if name.lstrip("~") == OWN_SPOOL else name


class Journal:
    """Is the journal of one Helen. Every method but `open` and `close` returns at once.

    folder, history   STATE/journal and STATE/history; made if missing
    call_from_thread  reactor.callFromThread: the only way in which the threads talk to the caller
    on_durable        called with a `Batch`. Acks come first, parsed records in a later batch
    on_trouble        called with a `Trouble`; after a fatal one Helen must exit with a non-zero status
    clock             unix time: the `received` of changes comes from it
    settled           unix time by which segments grow old, called in the sealing thread; `clock` if there is no other
    later             calls a function in a further turn of the caller's thread; `call_from_thread` if there is no other
    slice_seconds     returns how long one turn of reading durable records may take
    is_pressed        says that agents flood: durable records then wait for `later` in any case
    """

    def __init__(
        self,
        folder: Path,
        history: Path,
        call_from_thread: CallFromThread,
        on_durable: Callable[[Batch], None],
        on_trouble: Callable[[Trouble], None],
        clock: Callable[[], float] = time.time,
        *,
        limits: Limits | None = None,
        retention: Retention | None = None,
        disk: Disk | None = None,
        settled: Callable[[], float] | None = None,
        later: Callable[[Callable[[], None]], object] | None = None,
        slice_seconds: Callable[[], float] = lambda: SLICE_SECONDS,
        is_pressed: Callable[[], bool] = lambda: False,
    ) -> None:
        self._folder = Folder(Path(folder), Path(history), disk or Disk())
        self._call_from_thread = call_from_thread
        self._on_trouble = on_trouble
        self._clock = clock
        self._settled = settled or clock
        self._later = later
        self._slice_seconds = slice_seconds
        self._is_pressed = is_pressed
        self._limits = limits or Limits()
        self._retention = retention or Retention()
        self._intake = Intake()
        self._on_durable = on_durable
        self._series: Series | None = None
        self._own: dict[str, int] = {}
        self._numbering: Numbering | None = None
        self._writer: Writer | None = None
        self._sealer: Sealer | None = None

    def retain(self, retention: Retention) -> None:
        """Use other settings from the next sealed WAL on."""
        self._retention = retention
        if self._sealer is not None:
            self._sealer.retention = retention

    def open(self) -> Recovery:
        """Recover, then start both threads, and return a report. Blocks (0.3 s per 20,000 results left unsealed).

        Call it once, before the reactor runs but after a daemon's fork: threads don't survive that.
        Raises JournalLocked while another process has the folder open, JournalDamaged if only an operator can help.
        """
        self._folder.lock()
        try:
            state, recovery = recover(self._folder, self._limits)
        except BaseException:
            self._folder.unlock()
            raise
        self._own = state.marks.own_sequences()
        self._series = state.series
        self._sealer = Sealer(self._folder, state, self._limits, self._retention, self._settled, self._trouble)
        self._numbering = Numbering(self._folder, state, self._limits, self._intake, self._trouble)
        self._writer = self._make_writer(self._numbering, self._sealer, state.series)
        self._sealer.start()
        self._writer.start()
        return recovery

    def _make_writer(self, numbering: Numbering, sealer: Sealer, series: Series) -> Writer:
        digest = Digest(
            self._intake,
            series,
            self._limits,
            sealer,
            self._on_durable,
            numbering.close_wal,
            numbering.wal.number,
            self._trouble,
        )
        hand_over = HandOver(
            self._call_from_thread,
            self._on_durable,
            digest.take,
            lambda: self._intake.closing,
            self._later,
            slice_seconds=self._slice_seconds,
            is_pressed=self._is_pressed,
        )
        return Writer(
            self._folder, self._intake, numbering.wal, self._limits, hand_over,
            lambda number: self._call_from_thread(self._close_wal, number), self._trouble,
        )  # fmt: skip

    def _close_wal(self, number: int) -> None:
        if self._numbering is not None and not self._intake.closing:
            self._numbering.close_wal(number)

    def append(self, entry: Entry) -> bool:
        """Queue one result that an agent numbered. Returns False, without taking it, at the hard limit of the backlog.

        Nothing is acked before a `Batch` says so. Refused results come again from the agent's spool: end the session
        with `overloaded`. Well before that `full` turns true: stop reading. Raises JournalError while it isn't open.
        """
        size, intake = len(entry.blob), self._intake  # as `_takes` has it: this is for each result
        numbering = self._numbering
        if numbering is None or intake.closing:
            raise JournalError(NOT_OPEN)
        if intake.bytes_in - intake.bytes_out + size >= self._limits.backlog_most:
            return False
        if entry.spool.lstrip("~") == OWN_SPOOL:
            entry = Entry(
                entry.agent, entry.check_id, entry.check, inner_spool(entry.spool), entry.sequence, entry.origin,
                entry.received, entry.blob, entry.clock_offset_ms,
            )  # fmt: skip
        numbering.entry(entry, size)
        return True

    def append_own(
        self, agent: str, check_id: str, check: str | None, origin: Origin, received: float, blob: bytes,
        clock_offset_ms: int | None = None,
    ) -> int | None:  # fmt: skip
        """Queue one result that Helen numbers (version 1, asked, passive); return its sequence in the spool `helen`.

        Returns None at the hard limit of the backlog. A number that became durable is never given out again, not even
        after a crash. `received` is unix seconds. Raises JournalError while the journal isn't open.
        """
        size, intake, numbering = len(blob), self._intake, self._numbering  # as in `append`: this is for each result
        if numbering is None or intake.closing:
            raise JournalError(NOT_OPEN)
        if intake.bytes_in - intake.bytes_out + size >= self._limits.backlog_most:
            return None
        sequence = self._own[agent] = self._own.get(agent, 0) + 1
        entry = Entry(agent, check_id, check, OWN_SPOOL, sequence, origin, received, blob, clock_offset_ms)
        numbering.entry(entry, size, is_urgent=True)
        return sequence

    def change(
        self, kind: str, document: Mapping[str, Any], agent: str | None = None, check_id: str | None = None
    ) -> Change:
        """Queue one change of the timeline. The same object comes back in a batch once it is durable.

        With an agent and no check_id (a link event, a silence of a host) the agent's name is added to the document.
        Raises ValueError if the kind is unknown or a check has no agent, JournalError while the journal isn't open.
        """
        if kind not in CHANGE_KINDS:
            raise ValueError(f"a change of kind {kind!r}; known kinds: {', '.join(CHANGE_KINDS)}")
        if check_id is not None and agent is None:
            raise ValueError(f"a change of check {check_id!r} needs its agent")
        numbering = self._open_numbering()
        if agent is not None and check_id is None:
            document = {"agent": agent, **document}
        change = Change(kind, self._clock(), agent, check_id, msgspec.json.encode(document))
        numbering.change(change)
        return change

    def forget_below(self, agent: str, spool: str, first: int) -> None:
        """Count everything below `first` as acked: `loaded` says that the spool begins there. Safe to repeat."""
        if first > 1 and self._numbering is not None and not self._intake.closing:
            self._numbering.floor(Floor(agent, inner_spool(spool), min(first, MOST_SEQUENCE)))

    @property
    def backlog_bytes(self) -> int:
        """Return the bytes that the journal has queued or is writing."""
        return self._intake.backlog_bytes

    @property
    def has_undelivered(self) -> bool:
        """Return True while an appended record has not come back by `on_durable`. Ask in the caller's thread."""
        return self._intake.backlog_bytes != 0

    @property
    def position(self) -> int:
        """Return the place behind the last record that was queued, for `has_delivered`."""
        return self._intake.bytes_in

    def has_delivered(self, position: int) -> bool:
        """Return True if all records before a position have come back by `on_durable`. Ask in the caller's thread.

        Others may be queued behind it all the while: on a busy Helen there is never a moment without any.
        """
        return self._intake.bytes_out >= position

    @property
    def full(self) -> bool:
        """Return whether Helen must stop reading from agents; look again after each batch, and once a second."""
        return self._intake.bytes_in - self._intake.bytes_out >= self._limits.backlog_full

    @property
    def is_behind(self) -> bool:
        """Return whether Helen may read only a fair share from each agent, so that others are not delayed."""
        intake, limits = self._intake, self._limits
        is_great = intake.bytes_in - intake.bytes_out >= limits.backlog_behind
        return is_great or intake.count_in - intake.count_out >= limits.records_behind

    @property
    def refused(self) -> int:
        """Return how many results were dropped for a sequence that can't be counted: below 1, or a hole too many."""
        return self._numbering.refused if self._numbering else 0

    @property
    def without_series(self) -> dict[str, int]:
        """Return, by agent, how many results have no series of their own, since this start: {"web1": 12}."""
        return dict(self._series.left_out) if self._series else {}

    @property
    def segment(self) -> int:
        """Return the number of the newest segment."""
        return self._sealer.snapshot.segment if self._sealer else 0

    @property
    def sealed_at(self) -> int:
        """Return the number up to which every record is in a segment, unless it was dropped."""
        return self._sealer.snapshot.at if self._sealer else 0

    @property
    def sealed(self) -> Sealed:
        """Return how far segments go: three numbers of the same moment."""
        snapshot = Snapshot() if self._sealer is None else self._sealer.snapshot
        return Sealed(snapshot.at, snapshot.segment, snapshot.change)

    def close(self) -> None:
        """Write all queued records, stop both threads, release the lock. Takes less than 2 s.

        A WAL that isn't full stays as it is: the next `open` seals it.
        """
        deadline = time.monotonic() + self._limits.close_seconds
        self._intake.close()
        ended = True
        for thread in (self._writer, self._sealer):
            if thread is not None:
                thread.stop()
                ended &= thread.join(max(0.05, deadline - time.monotonic()))
        if ended:  # else the disk hangs: the lock must outlive what may still be written
            self._folder.unlock()

    def _open_numbering(self) -> Numbering:
        if self._numbering is None or self._intake.closing:
            raise JournalError(NOT_OPEN)
        return self._numbering

    def _trouble(self, trouble: Trouble) -> None:
        self._call_from_thread(self._on_trouble, trouble)
