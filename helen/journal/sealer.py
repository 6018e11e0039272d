"""Runs the sealing thread: closed WALs become segments, one after the other; then retention deletes old segments.

Without space or a free descriptor it waits and tries again: the WALs are durable, and only a few keep their rows in
memory meanwhile.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from attrs import define, evolve

from helen.journal.disk import PASSING, report_passing
from helen.journal.folder import Folder
from helen.journal.limits import Limits
from helen.journal.recovery import State
from helen.journal.retention import Retention, SegmentFile, deletable
from helen.journal.sealing import ClosedWal, read_rows, seal
from helen.journal.values import SEALING, JournalError, Trouble


class Sealer:
    """Seals the WALs that the writer hands to `put`; `snapshot` says how far it is."""

    def __init__(
        self,
        folder: Folder,
        state: State,
        limits: Limits,
        retention: Retention,
        settled: Callable[[], float],
        trouble: Callable[[Trouble], None],
    ) -> None:
        self.snapshot = state.snapshot
        self._folder = folder
        self._series = state.series.fixed()
        self._limits = limits
        self.retention = retention
        self._settled = settled
        self._trouble = trouble
        self._closed: deque[ClosedWal] = deque(state.unsealed)
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._lists: list[_SegmentList] = []
        self._thread = threading.Thread(target=self._run, name="journal-sealer", daemon=True)
        if self._closed:
            self._wake.set()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def put(self, closed: ClosedWal) -> None:
        """Take one more WAL; the caller's thread gives it. While sealing is behind, its rows are read back later."""
        if len(self._closed) >= self._limits.sealed_in_memory:
            closed = evolve(closed, rows=None)
        self._closed.append(closed)
        self._wake.set()

    def stop(self) -> None:
        """Finish the WAL at hand and leave the others to the next start."""
        self._stopping.set()
        self._wake.set()

    def join(self, seconds: float) -> bool:
        """Wait so many seconds for the end of the thread. Returns False if it is still there."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._until_possible(self._list_segments)
            while not self._stopping.is_set():
                self._wake.wait()
                self._wake.clear()
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

    def _list_segments(self) -> None:
        folder = self._folder
        self._lists = [
            _SegmentList.of(folder.segment_numbers(), folder.segment, "committed"),
            _SegmentList.of(folder.change_numbers(), folder.changes, "committed-changes"),
        ]

    def _seal_one(self) -> None:
        closed = self._closed[0]
        if not self._until_possible(lambda: self._seal(closed)):
            return
        self._closed.popleft()
        for each, newest in zip(self._lists, (self.snapshot.segment, self.snapshot.change), strict=True):
            each.look(newest)
            self._expire(each)

    def _seal(self, closed: ClosedWal) -> None:
        rows = closed.rows or read_rows(self._folder, closed.number, self._series)
        self.snapshot = seal(self._folder, self.snapshot, closed, rows)

    def _until_possible(self, act: Callable[[], None]) -> bool:
        """Do it, again and again while the error may pass. Returns False if the thread was stopped meanwhile."""
        reported = False
        while True:
            try:
                act()
            except OSError as error:
                if error.errno not in PASSING:
                    raise
                if not reported:
                    reported = True
                    what = f"a segment in {self._folder.segments}"
                    meanwhile = f"results that were acknowledged are safe in {self._folder.journal}"
                    self._trouble(Trouble(report_passing(error, what, meanwhile), part=SEALING))
                if self._stopping.wait(self._limits.retry_seconds):
                    return False
            else:
                if reported:
                    self._trouble(Trouble("Segments can be written again.", over=True, part=SEALING))
                return True

    def _expire(self, each: _SegmentList) -> None:
        expired = deletable(each.files, self._folder.committed(each.committed), self._settled(), self.retention)
        for number in expired:
            self._folder.disk.remove(each.path(number))
        del each.files[: len(expired)]


@define
class _SegmentList:
    """Keeps the segments of one kind in memory: a week has 60,000 of them, too many to look at every 10 s."""

    path: Callable[[int], Path]
    committed: str
    files: list[SegmentFile]

    @classmethod
    def of(cls, numbers: list[int], path: Callable[[int], Path], committed: str) -> _SegmentList:
        """Return the list of all that are there now."""
        found = cls(path, committed, [])
        for number in numbers:
            found._add(number)
        return found

    def look(self, newest: int) -> None:
        """Add the segment that was sealed now, if one of this kind was; of the first one no other tells the number."""
        if not self.files:
            self._add(newest)
        while self.files and self._add(self.files[-1].number + 1):
            pass

    def _add(self, number: int) -> bool:
        try:
            status = self.path(number).stat()
        except FileNotFoundError:  # the next one isn't made yet, or an operator deleted an old one
            return False
        self.files.append(SegmentFile(number, status.st_size, status.st_mtime))
        return True
