"""Runs the writer thread: a group of encoded records becomes durable by one write and one fdatasync, then is handed on.

The thread computes next to nothing, so that it seldom takes the interpreter from the reactor; of great documents alone
it makes the sum and reads the content here. A group that the disk has no space for, or that no file can be opened for,
is tried again each second, unchanged; a failed fdatasync ends the thread, because the kernel may have dropped the pages
and a second call would lie.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection

from helen.journal.disk import NO_DESCRIPTOR, PASSING, report_passing
from helen.journal.folder import Folder
from helen.journal.hand_over import HandOver
from helen.journal.intake import Intake, Queued
from helen.journal.limits import Limits
from helen.journal.record import encode_frame
from helen.journal.sealing import ClosingWal
from helen.journal.stored import stored_result
from helen.journal.values import OWN_SPOOL, Ack, Entry, Floor, Trouble
from helen.journal.wal import OpenWal

NEVER: frozenset[int] = frozenset()  # passes an error of fdatasync: a second call would lie
WRITE_FAILED = "Writing {path} failed ({error}). Check the disk."
SYNC_FAILED = (
    "fsync of {path} failed ({error}): what the disk holds is unknown, so nothing more is acknowledged. Check the disk,"
    " then start Helen again; agents send again what was not acknowledged."
)


class _Broken(Exception):
    """Says that the disk failed for good; the text is for the operator."""


class Writer:
    """Writes the records of an intake, from `start` until the intake is `closing`.

    `is_old(number)` is called, in this thread, once a WAL has been open for `segment_seconds`.
    """

    def __init__(
        self,
        folder: Folder,
        intake: Intake,
        wal: OpenWal,
        limits: Limits,
        hand_over: HandOver,
        is_old: Callable[[int], object],
        trouble: Callable[[Trouble], None],
    ) -> None:
        self._folder = folder
        self._intake = intake
        self._wal = wal
        self._limits = limits
        self._hand_over = hand_over
        self._is_old = is_old
        self._trouble = trouble
        self._first_at: float | None = None  # monotonic seconds: the first group of the open WAL, until its time is up
        self._last_commit = 0.0
        self._in_trouble = False  # a passing error was told, and not yet that it is over
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="journal-writer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Give up waiting for space; what is queued and fits is still written."""
        self._stopping.set()

    def join(self, seconds: float) -> bool:
        """Wait so many seconds for the end of the thread. Returns False if it is still there."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    # ------------------------------------------------------------------------------------------- the loop

    def _run(self) -> None:
        try:
            while self._turn():
                pass
        except _Broken as error:
            self._trouble(Trouble(str(error), fatal=True))
        except Exception as error:  # a thread that dies in silence would look like a slow disk
            sentence = f"The journal's writer failed: {error!r}. Nothing is acknowledged any more."
            self._trouble(Trouble(sentence, fatal=True))
            raise
        finally:
            self._wal.close()

    def _turn(self) -> bool:
        """Write one group, or wait for one. Returns False at the end."""
        if self._intake.wait(self._seconds_left()):
            self._let_a_group_grow()
            if not self._commit(self._intake.take(self._limits.group_bytes, self._limits.group_records)):
                return False
        elif self._intake.closing:
            return False
        if self._seconds_left() == 0:
            self._first_at = None  # asked once
            self._is_old(self._wal.number)
        return True

    def _seconds_left(self) -> float | None:
        if self._first_at is None:
            return None
        return max(0.0, self._first_at + self._limits.segment_seconds - time.monotonic())

    def _let_a_group_grow(self) -> None:
        """Wait a moment for more records: an idle journal writes at once, a busy one every `group_seconds`.

        A calm one waits until `calm_seconds` after the last group, or until a record comes that somebody waits for.
        """
        intake, limits = self._intake, self._limits
        wait = self._last_commit + limits.group_seconds - time.monotonic()
        if wait > 0 and not intake.closing and intake.queued_bytes < limits.group_bytes:
            self._stopping.wait(wait)
        is_calm = limits.calm_least <= len(intake) < limits.calm_records and intake.queued_bytes < limits.calm_bytes
        if is_calm and not intake.is_urgent:
            until = self._last_commit + limits.calm_seconds
            intake.wait_for_urgent(until - time.monotonic(), limits.calm_bytes)
        self._last_commit = time.monotonic()

    # ------------------------------------------------------------------------------------------- one group

    def _commit(self, group: list[Queued]) -> bool:
        """Make a group durable, then hand on its acks and its records.

        Returns False if the journal closes and there is no space.
        """
        data = b"".join(_parts(group))
        if data:
            if not self._make_durable(data):
                return False
            for queued in group:
                queued.data = b""  # it isn't needed any more
            if self._first_at is None:
                self._first_at = time.monotonic()
        self._hand_over.acks(_acks(group))
        self._read_great_documents(group)
        self._hand_over.records(group)
        if group and isinstance(closing := group[-1].record, ClosingWal):
            self._wal.close()
            self._wal, self._first_at = closing.following, None
        return True

    def _read_great_documents(self, group: list[Queued]) -> None:
        """Read here what takes milliseconds: this thread may be interrupted, and no ack waits for it."""
        for queued in group:
            if queued.size > self._limits.great_bytes and queued.at and isinstance(queued.record, Entry):
                queued.stored = stored_result(queued.at, queued.record)

    # ------------------------------------------------------------------------------------------- the disk

    def _make_durable(self, data: bytes) -> bool:
        """Write it and sync it. Returns False if the journal closes while a passing error lasts."""
        if not self._until_possible(lambda: self._wal.append(data), PASSING, WRITE_FAILED):
            return False
        self._folder.disk.reached("wal-written")
        self._until_possible(self._wal.sync_content, NEVER, SYNC_FAILED)
        if not self._until_possible(self._wal.sync_name, NO_DESCRIPTOR, SYNC_FAILED):
            return False
        self._folder.disk.reached("wal-synced")
        if self._in_trouble:
            self._in_trouble = False
            self._trouble(Trouble("The disk takes results again: they are durable and acknowledged.", over=True))
        return True

    def _until_possible(self, act: Callable[[], None], passing: Collection[int], failed: str) -> bool:
        """Do it, again and again while its error is a passing one. Returns False if the journal closes meanwhile.

        Raises _Broken after any other error, with the sentence `failed`.
        """
        while True:
            try:
                act()
                return True
            except OSError as error:
                if error.errno not in passing:
                    raise _Broken(failed.format(path=self._wal.path, error=error)) from error
                if not self._in_trouble:
                    self._in_trouble = True
                    meanwhile = "results are taken but not acknowledged; agents keep them"
                    self._trouble(Trouble(report_passing(error, str(self._wal.path), meanwhile)))
            if self._stopping.wait(self._limits.retry_seconds):
                return False


def _parts(group: list[Queued]) -> list[bytes]:
    """Return the bytes of a group in the order they are written; those of a result are its head, then its blob.

    The sum over a great blob is made here: `crc32` lets the reactor's thread have the interpreter meanwhile.
    """
    parts: list[bytes] = []
    for queued in group:
        if queued.data:
            record = queued.record
            if queued.salt is not None and type(record) is Entry:
                parts.append(encode_frame(queued.data, record.blob, queued.salt))
            parts.append(queued.data)
            if type(record) is Entry:
                parts.append(record.blob)
    return parts


def _acks(group: list[Queued]) -> list[Ack]:
    """Return the acks of a durable group, with spools by their agents' names. Helen's own spool gets no ack."""
    highs: dict[tuple[str, str], int] = {}
    for queued in group:
        record = queued.record
        if queued.high and isinstance(record, Entry | Floor) and record.spool != OWN_SPOOL:
            highs[record.agent, record.spool] = queued.high
    return [
        Ack(agent, spool[1:] if spool.lstrip("~") == OWN_SPOOL else spool, high)
        for (agent, spool), high in highs.items()
    ]
