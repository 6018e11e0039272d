"""Makes every result durable before its ack, stores it once, and puts it into Parquet segments.

The reactor thread calls `append`, `append_own`, `change` and `forget_below`; none of them blocks. A writer thread makes
groups durable in a write-ahead log (WAL), a sealing thread turns each closed WAL into segments. Both talk back only
through `call_from_thread`. This package knows nothing of Twisted, of connections or of states.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from helen.journal.disk import Disk
from helen.journal.folder import Folder
from helen.journal.hand_over import HandOver
from helen.journal.intake import Intake
from helen.journal.limits import Limits
from helen.journal.marks import MOST_SEQUENCE
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
    Position,
    Recovery,
    Sealed,
    Trouble,
)
from helen.journal.writer import Writer

CallFromThread = Callable[..., Any]


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
    ) -> None:
        self._folder = Folder(Path(folder), Path(history), disk or Disk())
        self._call_from_thread = call_from_thread
        self._on_trouble = on_trouble
        self._clock = clock
        self._settled = settled or clock
        self._limits = limits or Limits()
        self._retention = retention or Retention()
        self._intake = Intake()
        self._hand_over = HandOver(call_from_thread, on_durable, lambda: self._intake.closing)
        self._series: Series | None = None
        self._own: dict[str, int] = {}
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
        self._writer = Writer(
            self._folder, self._intake, state, self._limits, self._sealer, self._hand_over.send, self._trouble
        )
        self._sealer.start()
        self._writer.start()
        return recovery

    def append(self, entry: Entry) -> bool:
        """Queue one result that an agent numbered. Returns False, without taking it, at the hard limit of the backlog.

        Nothing is acked before a `Batch` says so. Refused results come again from the agent's spool: end the session
        with `overloaded`. Well before that `full` turns true: stop reading. Raises JournalError while it isn't open.
        """
        size, intake = len(entry.blob), self._intake  # as `_takes` has it: this is for each result
        if self._writer is None or intake.closing:
            self._check_open()
        if intake.bytes_in - intake.bytes_out + size >= self._limits.backlog_most:
            return False
        if entry.spool.lstrip("~") == OWN_SPOOL:
            entry = Entry(
                entry.agent, entry.check_id, entry.check, inner_spool(entry.spool), entry.sequence, entry.origin,
                entry.received, entry.blob, entry.clock_offset_ms,
            )  # fmt: skip
        intake.push(entry, size)
        return True

    def append_own(
        self, agent: str, check_id: str, check: str | None, origin: Origin, received: float, blob: bytes,
        clock_offset_ms: int | None = None,
    ) -> int | None:  # fmt: skip
        """Queue one result that Helen numbers (version 1, asked, passive); return its sequence in the spool `helen`.

        Returns None at the hard limit of the backlog. A number that became durable is never given out again, not even
        after a crash. `received` is unix seconds. Raises JournalError while the journal isn't open.
        """
        if not self._takes(len(blob)):
            return None
        sequence = self._own[agent] = self._own.get(agent, 0) + 1
        entry = Entry(agent, check_id, check, OWN_SPOOL, sequence, origin, received, blob, clock_offset_ms)
        self._intake.push_urgent(entry, len(blob))
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
        self._check_open()
        if agent is not None and check_id is None:
            document = {"agent": agent, **document}
        encoded = msgspec.json.encode(document)
        change = Change(kind, self._clock(), agent, check_id, encoded)
        self._intake.push_urgent(change, len(encoded))
        return change

    def forget_below(self, agent: str, spool: str, first: int) -> None:
        """Count everything below `first` as acked: `loaded` says that the spool begins there. Safe to repeat."""
        if first > 1:
            self._intake.push(Floor(agent, inner_spool(spool), min(first, MOST_SEQUENCE)), 0)

    @property
    def backlog_bytes(self) -> int:
        """The bytes that are queued or being written."""
        return self._intake.backlog_bytes

    @property
    def has_undelivered(self) -> bool:
        """Return True while a record that was appended has not come back by `on_durable`. Ask in the caller's thread.

        The backlog alone ends a moment sooner: when the last batch is on its way between the threads.
        """
        return self._intake.backlog_bytes != 0 or self._hand_over.has_some

    @property
    def position(self) -> Position:
        """Return the place behind the last record that was queued, for `has_delivered`."""
        return Position(self._intake.bytes_in)

    def has_delivered(self, position: Position) -> bool:
        """Return True if all records before a position have come back by `on_durable`. Ask in the caller's thread.

        Others may be queued behind it all the while: on a busy Helen there is never a moment without any.
        """
        if position.batches is None and self._intake.bytes_out >= position.size:
            position.batches = self._hand_over.sent
        return position.batches is not None and self._hand_over.handed_over >= position.batches

    @property
    def full(self) -> bool:
        """True: stop reading from agents. Look again after each batch, and at least once a second."""
        return self._intake.bytes_in - self._intake.bytes_out >= self._limits.backlog_full

    @property
    def is_behind(self) -> bool:
        """True: read no more than a fair share from each agent, so that results of others are durable soon."""
        intake, limits = self._intake, self._limits
        is_great = intake.bytes_in - intake.bytes_out >= limits.backlog_behind
        return is_great or len(intake.records) >= limits.records_behind

    @property
    def refused(self) -> int:
        """How many results were dropped because their sequence can't be counted (below 1, or one hole too many)."""
        return self._writer.refused if self._writer else 0

    @property
    def without_series(self) -> dict[str, int]:
        """Return, by agent, how many results have no series of their own, since this start: {"web1": 12}."""
        return dict(self._series.left_out) if self._series else {}

    @property
    def segment(self) -> int:
        """The number of the newest segment."""
        return self._sealer.snapshot.segment if self._sealer else 0

    @property
    def sealed_at(self) -> int:
        """Every record up to this number is in a segment, unless it was dropped."""
        return self._sealer.snapshot.at if self._sealer else 0

    @property
    def sealed(self) -> Sealed:
        """How far segments go: three numbers of the same moment."""
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

    def _check_open(self) -> None:
        if self._writer is None or self._intake.closing:
            raise JournalError("the journal isn't open")

    def _takes(self, size: int) -> bool:
        self._check_open()
        return self._intake.backlog_bytes + size < self._limits.backlog_most

    def _trouble(self, trouble: Trouble) -> None:
        self._call_from_thread(self._on_trouble, trouble)
