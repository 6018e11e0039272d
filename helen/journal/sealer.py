"""The sealing thread: closed WALs -> segments, one after the other, then retention. Never in a hurry, never in the way.

Without space it waits and tries again: the WALs are durable, and only a few keep their rows in memory meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from attrs import evolve

from helen.journal.columns import Rows
from helen.journal.disk import NO_SPACE
from helen.journal.folder import Folder
from helen.journal.limits import Limits
from helen.journal.recovery import State
from helen.journal.retention import Retention, SegmentFile, SteadyClock, deletable
from helen.journal.sealing import ClosedWal, read_rows, seal
from helen.journal.values import JournalError, Trouble


class Sealer:
    """Fed by the writer's `put`; `snapshot` says how far it is."""

    def __init__(
        self,
        folder: Folder,
        state: State,
        limits: Limits,
        retention: Retention,
        clock: Callable[[], float],
        trouble: Callable[[Trouble], None],
    ) -> None:
        self.snapshot = state.snapshot
        self._folder = folder
        self._series = state.series.fixed()
        self._limits = limits
        self._retention = retention
        self._clock = clock
        self._steady = SteadyClock(clock(), time.monotonic())
        self._trouble = trouble
        self._closed: deque[ClosedWal] = deque(state.unsealed)
        self._bell = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="journal-sealer", daemon=True)
        if self._closed:
            self._bell.set()

    def start(self) -> None:
        """Begin to seal."""
        self._thread.start()

    def put(self, closed: ClosedWal) -> None:
        """Writer thread: one more. While this thread is behind, its rows are read back from the WAL later."""
        if len(self._closed) >= self._limits.sealed_in_memory:
            closed = evolve(closed, rows=None)
        self._closed.append(closed)
        self._bell.set()

    def stop(self) -> None:
        """Finish the WAL at hand and leave the others to the next start."""
        self._stopping.set()
        self._bell.set()

    def join(self, seconds: float) -> None:
        """Wait for the end of the thread."""
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._bell.wait()
                self._bell.clear()
                while self._closed and not self._stopping.is_set():
                    self._seal_one()
        except (OSError, JournalError) as error:
            self._trouble(Trouble(
                f"Writing the history failed ({error}). Nothing acknowledged is lost: it is in {self._folder.journal}."
                " Check the disk, then start Helen again.", fatal=True,
            ))  # fmt: skip
        except Exception as error:
            self._trouble(Trouble(f"The journal's sealing thread failed: {error!r}.", fatal=True))
            raise

    def _seal_one(self) -> None:
        closed = self._closed[0]
        rows = closed.rows or read_rows(self._folder, closed.number, self._series)
        if not self._until_space(lambda: self._seal(closed, rows)):
            return
        self._closed.popleft()
        self._expire(self._folder.segment_numbers(), self._folder.segment, "committed")
        self._expire(self._folder.change_numbers(), self._folder.changes, "committed-changes")

    def _seal(self, closed: ClosedWal, rows: Rows) -> None:
        self.snapshot = seal(self._folder, self.snapshot, closed, rows)

    def _until_space(self, act: Callable[[], None]) -> bool:
        """Do it, again and again while there is no space. False: stopped meanwhile."""
        told = False
        while True:
            try:
                act()
            except OSError as error:
                if error.errno not in NO_SPACE:
                    raise
                if not told:
                    told = True
                    self._trouble(Trouble(
                        f"No space for a segment in {self._folder.segments}: results stay in {self._folder.journal},"
                        " durable and acknowledged. Free some space; it is tried again each second."
                    ))  # fmt: skip
                if self._stopping.wait(self._limits.retry_seconds):
                    return False
            else:
                if told:
                    self._trouble(Trouble("There is space for segments again.", over=True))
                return True

    def _expire(self, numbers: list[int], path: Callable[[int], Path], committed: str) -> None:
        files = []
        for number in numbers:
            status = path(number).stat()
            files.append(SegmentFile(number, status.st_size, status.st_mtime))
        now = self._steady.now(self._clock(), time.monotonic())
        for number in deletable(files, self._folder.committed(committed), now, self._retention):
            self._folder.disk.remove(path(number))
