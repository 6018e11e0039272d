"""Counts the files, rows and entries of one table of a simulated lake. Pure."""

from __future__ import annotations

from collections import deque

from attrs import Factory, define


@define
class Store:
    """Counts what one table has: today's new files, today's others, and days that are over as (files, bytes)."""

    new: list[float] = Factory(list)  # rows of each
    runs: list[float] = Factory(list)  # rows of each time that new ones were put together
    run_files: int = 0
    past: deque[tuple[int, float]] = Factory(deque)
    past_files: int = 0
    removed: deque[int] = Factory(lambda: deque([0], maxlen=2))  # files of a day that count no more
    entries: int = 0  # of this day
    added: int = 0  # files that entries of this day have named

    @property
    def today(self) -> int:
        """Return the number of today's files."""
        return len(self.new) + self.run_files

    @property
    def files(self) -> int:
        return self.today + self.past_files

    @property
    def rows(self) -> float:
        """Return the number of today's rows."""
        return sum(self.new) + sum(self.runs)

    def begin(self) -> None:
        self.entries, self.added = 0, 0
        self.removed.append(0)

    def add(self, entries: int, files: int, rows: float) -> None:
        """Note entries that add so many new files each, with so many rows in all."""
        self.new += [rows / files] * (entries * files)
        self._note(entries, entries * files)

    def replace(self, files: int, rows: float, gone: int) -> None:
        """Note an entry that adds new files and takes as many of the newest ones out."""
        self.new = self.new[: len(self.new) - gone] + [rows / files] * files
        self._note(1, files, gone)

    def put_together(self, files: int, rows: float) -> None:
        """Replace the new files of today by so many."""
        gone, self.new = len(self.new), []
        self.runs.append(rows)
        self.run_files += files
        self._note(1, files, gone)

    def close(self, files: int, size: float) -> None:
        """End the day; it has so many files and bytes from now on."""
        if files != self.today:
            self._note(1, files, self.today)
        self.past.append((files, size))
        self.past_files += files
        self.new, self.runs, self.run_files = [], [], 0

    def expire(self, days: int | None) -> None:
        """Take out what is older than so many days."""
        while days is not None and len(self.past) > days:
            files, _ = self.past.popleft()
            self.past_files -= files
            self._note(1, 0, files)

    def change(self, days: int, entries: int, files: int, gone: int, size: float) -> None:
        """Note entries that add files to a day that was over so many days ago, and take as many out of it."""
        there, before = self.past[-days]
        self.past[-days] = there + files - gone, before + size
        self.past_files += files - gone
        self._note(entries, files, gone)

    def _note(self, entries: int, files: int, gone: int = 0) -> None:
        self.entries += entries
        self.added += files
        self.removed[-1] += gone
