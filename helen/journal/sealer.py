"""The sealing thread: closed WALs -> segments, one after the other, then retention. Never in a hurry, never in the way.

Without space it waits and tries again: the WALs are durable, and only a few keep their rows in memory meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from attrs import define, evolve

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
        self.retention = retention
        self._clock = clock
        self._steady = SteadyClock(clock(), time.monotonic())
        self._trouble = trouble
        self._closed: deque[ClosedWal] = deque(state.unsealed)
        self._bell = threading.Event()
        self._stopping = threading.Event()
        self._shelves: list[_Shelf] = []
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

    def join(self, seconds: float) -> bool:
        """Wait for the end of the thread; False: it is still there."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._shelves = self._look_around()
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

    def _look_around(self) -> list[_Shelf]:
        folder = self._folder
        return [
            _Shelf.of(folder.segment_numbers(), folder.segment, "committed"),
            _Shelf.of(folder.change_numbers(), folder.changes, "committed-changes"),
        ]

    def _seal_one(self) -> None:
        closed = self._closed[0]
        rows = closed.rows or read_rows(self._folder, closed.number, self._series)
        if not self._until_space(lambda: self._seal(closed, rows)):
            return
        self._closed.popleft()
        for shelf in self._shelves:
            shelf.look()
            self._expire(shelf)

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

    def _expire(self, shelf: _Shelf) -> None:
        now = self._steady.now(self._clock(), time.monotonic())
        doomed = deletable(shelf.files, self._folder.committed(shelf.committed), now, self.retention)
        for number in doomed:
            self._folder.disk.remove(shelf.path(number))
        del shelf.files[: len(doomed)]


@define
class _Shelf:
    """The segments of one kind, kept in memory: a week has 60,000 of them, too many to look at every 10 s."""

    path: Callable[[int], Path]
    committed: str
    files: list[SegmentFile]

    @classmethod
    def of(cls, numbers: list[int], path: Callable[[int], Path], committed: str) -> _Shelf:
        """All that are there now."""
        shelf = cls(path, committed, [])
        for number in numbers:
            shelf._add(number)
        return shelf

    def look(self) -> None:
        """Take in the one that was sealed now, if one of this kind was."""
        while self.files and self._add(self.files[-1].number + 1):
            pass

    def _add(self, number: int) -> bool:
        try:
            status = self.path(number).stat()
        except FileNotFoundError:  # the next one isn't made yet, or an operator deleted an old one
            return False
        self.files.append(SegmentFile(number, status.st_size, status.st_mtime))
        return True
