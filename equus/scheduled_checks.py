"""Run the checks of Helen's schedule, and put their results into the spool."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from equus.agent_parts import Parts
from equus.schedule import received_schedule
from equus.schedule.received_schedule import ReceivedSchedule
from equus.schedule.runner import ScheduleRunner, scheduled_job
from equus.schedule.schedule import Entry


class ScheduledChecks:
    """Joins Helen's schedule, `received`, and the `runner` of its entries. `write` replaces a file of `state`."""

    def __init__(self, parts: Parts, state: Path, write: Callable[[Path, bytes], None]) -> None:
        self._parts = parts
        self.runner = ScheduleRunner(
            parts.reactor, parts.wall, parts.runner, self._job_of, self._why_not_now, self._report
        )
        self.received = ReceivedSchedule(state / received_schedule.FILE, self.runner, write)
        if parts.newest is not None:
            parts.newest.entries = lambda: self.runner.entries

    def _job_of(self, entry: Entry) -> Any:
        return scheduled_job(self._parts.updater.checks, entry)

    def _report(self, entry_id: str, blob: bytes) -> None:
        self._parts.writer.append(entry_id, blob)
        if self._parts.newest is not None:
            self._parts.newest.take(entry_id, blob)

    def _why_not_now(self, entry: Entry) -> str | None:
        updater = self._parts.updater
        if self._parts.writer.is_behind:
            return "the spool's disk is too slow to take more results"
        is_awaited = updater.is_busy or not (updater.is_local or updater.manifest)
        if is_awaited and updater.checks.check(entry.check) is None:
            return "its code is still on the way"
        return None
