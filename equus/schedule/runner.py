"""Run the entries of the schedule, with or without a Helen in reach, and pass each result to the spool.

There is one timer for the whole schedule. A run that was due and did not happen is counted, and logged once per entry
until that entry runs again; Helen gets the counts with the self-report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from twisted.logger import Logger

from equus.code.library import CheckSet
from equus.sandbox.job import Job
from equus.sandbox.runner import Run
from equus.schedule.jobs import job_for, unknown_check
from equus.schedule.schedule import Action, Counters, Due, Entry, Schedule
from equus.schedule.secret_runner import RefusedRun, SecretRunner
from groundwork.counts import count

TOTALS = ("runs", "late", "skipped", "missed", "killed")


class ScheduleRunner:
    """Runs entries when they are due.

    `job_of` returns the Job of an entry, or None for an unknown check. `why_not` returns a sentence if an entry can't
    run now, else None. `report` gets the id of an entry and a result document.
    """

    log = Logger()

    def __init__(
        self,
        clock: Any,
        wall: Callable[[], float],
        runner: SecretRunner,
        job_of: Callable[[Entry], Job | None],
        why_not: Callable[[Entry], str | None],
        report: Callable[[str, bytes], None],
    ) -> None:
        self._clock = clock
        self._wall = wall
        self._runner = runner
        self._job_of = job_of
        self._why_not = why_not
        self._report = report
        self._schedule = Schedule()
        self._running: dict[str, Run | RefusedRun | None] = {}
        self._logged: set[str] = set()  # ids of entries with a line in the log since they ran last
        self._removed = Counters()  # of entries that the schedule no longer has: totals must not fall
        self._timer: Any = None
        self._stopped = False

    def replace(self, entries: tuple[Entry, ...]) -> None:
        """Replace the schedule. Entries with the same timing keep their phase and their counters."""
        before = self._schedule.counters()
        self._schedule.replace(entries, self._clock.seconds(), self._wall())
        after = self._schedule.counters()
        for name, counters in before.items():
            if after.get(name) is not counters:
                _add(self._removed, counters)
        self._set_timer()

    def run_early(self, new: Iterable[str]) -> set[str]:
        """Give new entries, by id, an early run. Return the ids of those without code yet, for another call."""
        entries = {entry.id: entry for entry in self._schedule.entries}
        waiting = {name for name in new if name in entries and self._job_of(entries[name]) is None}
        for name in set(new) - waiting:
            self._schedule.run_early(name, self._clock.seconds())
        self._set_timer()
        return waiting

    @property
    def totals(self) -> dict[str, int]:
        """Return the sum of each counter of TOTALS over all entries, since the agent started."""
        everything = [self._removed, *self._schedule.counters().values()]
        return {name: sum(getattr(counters, name) for counters in everything) for name in TOTALS}

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Return all entries of the schedule."""
        return self._schedule.entries

    def worst(self, most: int) -> list[tuple[str, int]]:
        """Return the entries with the most runs that did not happen, at most `most`: id and count of each."""
        lost = {name: counters.skipped + counters.missed for name, counters in self._schedule.counters().items()}
        return sorted(((name, count) for name, count in lost.items() if count), key=lambda item: -item[1])[:most]

    def stop(self) -> None:
        """Start no further run, and ignore the ends of those that are going: the sandbox kills them."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # ---------------------------------------------------------------------------------------------- the timer

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        at = self._schedule.next_at()
        if at is not None and not self._stopped:
            self._timer = self._clock.callLater(max(0.0, at - self._clock.seconds()), self._run_due)

    def _run_due(self) -> None:
        self._timer = None
        for due in self._schedule.due(self._clock.seconds()):
            self._act(due)
        self._set_timer()

    def _act(self, due: Due) -> None:
        entry = due.entry
        if due.missed:
            self._log_once(entry, f"{count(due.missed, 'run')} did not happen: the agent was stalled")
        if due.action is Action.SKIP:
            self._log_once(entry, "a run was skipped: the one before is still going")
        elif due.action is Action.KILL_AND_RUN:
            self._log_kill(entry)
            old = self._running.pop(entry.id, None)
            self._start(entry)
            if old is not None:
                old.cancel("killed")
        elif due.action is Action.RUN:
            self._start(entry)

    def _start(self, entry: Entry) -> None:
        why_not = self._why_not(entry)
        if why_not is not None:
            self._schedule.not_run(entry.id)
            self._log_once(entry, f"a run did not happen: {why_not}")
            return
        self._logged.discard(entry.id)
        job = self._job_of(entry)
        if job is None:
            self._report(entry.id, unknown_check(entry.check))
            self._next(entry)
            return
        run: Run | RefusedRun | None = None

        def done(blob: bytes) -> None:
            """Report the result of this very run."""
            self._done(entry, run, blob)

        run = self._running[entry.id] = self._runner.run(job, done)

    def _done(self, entry: Entry, run: Run | RefusedRun | None, blob: bytes) -> None:
        if self._stopped:
            return
        self._report(entry.id, blob)
        if self._running.get(entry.id) is run:  # else it was killed, and its successor is running
            del self._running[entry.id]
            self._next(entry)

    def _next(self, entry: Entry) -> None:
        waiting = self._schedule.finished(entry.id)
        if waiting is not None:
            self._start(waiting)

    def _log_once(self, entry: Entry, what: str) -> None:
        """Log a sentence about an entry once until it runs again: a slow check must not fill the log."""
        if entry.id not in self._logged:
            self._logged.add(entry.id)
            self.log.warn("{entry} ({check}): {what}", entry=entry.id, check=entry.check, what=what)

    def _log_kill(self, entry: Entry) -> None:
        self.log.warn("{entry} ({check}): still going when due again: killed", entry=entry.id, check=entry.check)


def _add(total: Counters, more: Counters) -> None:
    for name in TOTALS:
        setattr(total, name, getattr(total, name) + getattr(more, name))


def scheduled_job(checks: CheckSet, entry: Entry) -> Job | None:
    """Return the Job of a scheduled run, or None for an unknown check. Runs of one entry share their state."""
    return job_for(checks, entry.check, entry.args, entry.timeout, state_key=entry.id)
