"""Apply the schedules that Helen sends, and keep the last good one on disk for a start without Helen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from twisted.logger import Logger

from equus.schedule import document
from equus.schedule.runner import ScheduleRunner

FILE = "schedule.json"


class ReceivedSchedule:
    """Holds the schedule of Helen, in force in a ScheduleRunner and stored in `path`.

    `refused` holds a sentence for each part of the last document that was refused. `write` replaces a file.
    """

    log = Logger()

    def __init__(self, path: Path, runner: ScheduleRunner, write: Callable[[Path, bytes], None]) -> None:
        self.refused: tuple[str, ...] = ()
        self._path = path
        self._runner = runner
        self._write = write
        self._blob = b""
        self._new: set[str] = set()  # ids of entries that have never run here and have no code yet

    @property
    def is_known(self) -> bool:
        """Return True if a Helen has sent a schedule, now or before the last start."""
        return bool(self._blob)

    def restore(self) -> None:
        """Apply the stored schedule, if there is one; one that can't be read is logged. Blocking."""
        try:
            blob = self._path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            self.log.error("{path} can't be read ({why}): checks run when a Helen sends it", path=self._path,
                           why=error.strerror)  # fmt: skip
            return
        self._apply(blob)

    def take(self, blob: bytes) -> None:
        """Apply and store a schedule of Helen, and give new entries an early run."""
        if blob == self._blob:
            return
        known = {entry.id for entry in self._runner.entries}
        if self._apply(blob):
            self._write(self._path, blob)
            self._new = self._runner.run_early(self._new | {entry.id for entry in self._runner.entries} - known)

    def code_changed(self) -> None:
        """Give new entries an early run if their code has come."""
        self._new = self._runner.run_early(self._new)

    def _apply(self, blob: bytes) -> bool:
        try:
            parsed = document.parse(blob)
        except document.ScheduleRefused as error:
            self.refused = (str(error),)
            self.log.error("the schedule stays as it was: {error}", error=error)
            return False
        self.refused, self._blob = parsed.refused, blob
        for sentence in parsed.refused:
            self.log.error("the schedule's {sentence}", sentence=sentence)
        self._runner.replace(parsed.entries)
        return True
