"""Runs what the schedule says, with or without a Helen in reach, and hands each result to the spool.

One timer for the whole schedule. A run that was due and did not happen is never passed over: it is counted,
logged once per entry until that entry runs again, and Helen gets the counts with the self-report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from twisted.logger import Logger

from equus.jobs import job_for, unknown_check
from equus.sandbox.job import Job
from equus.sandbox.runner import Run, Runner
from equus.schedule import Action, Counters, Due, Entry, Schedule

TOTALS = ("runs", "late", "skipped", "missed", "killed")


class Rounds:
    """`job_of` makes the Job of an entry (None: unknown check); `ready` says why an entry can't run now, or None."""

    log = Logger(namespace="equus.rounds")

    def __init__(
        self,
        clock: Any,
        wall: Callable[[], float],
        runner: Runner,
        job_of: Callable[[Entry], Job | None],
        ready: Callable[[Entry], str | None],
        report: Callable[[str, bytes], None],
    ) -> None:
        self._clock = clock
        self._wall = wall
        self._runner = runner
        self._job_of = job_of
        self._ready = ready
        self._report = report
        self._schedule = Schedule()
        self._running: dict[str, Run | None] = {}
        self._complained: set[str] = set()
        self._gone = Counters()  # of entries that the schedule no longer has: totals must not fall
        self._timer: Any = None
        self._stopped = False

    def replace(self, entries: tuple[Entry, ...]) -> None:
        """A new schedule, whole; what did not change keeps its phase and its counters."""
        before = self._schedule.counters()
        self._schedule.replace(entries, self._clock.seconds(), self._wall())
        after = self._schedule.counters()
        for name, counters in before.items():
            if after.get(name) is not counters:
                _add(self._gone, counters)
        self._wind()

    def introduce(self, fresh: Iterable[str]) -> set[str]:
        """Give entries that are new here an early run; those whose code isn't here yet are returned, for later."""
        entries = {entry.id: entry for entry in self._schedule.entries}
        waiting = {name for name in fresh if name in entries and self._job_of(entries[name]) is None}
        for name in set(fresh) - waiting:
            self._schedule.introduce(name, self._clock.seconds())
        self._wind()
        return waiting

    @property
    def totals(self) -> dict[str, int]:
        """Every counter over all entries, since the agent started."""
        everything = [self._gone, *self._schedule.counters().values()]
        return {name: sum(getattr(counters, name) for counters in everything) for name in TOTALS}

    @property
    def entries(self) -> tuple[Entry, ...]:
        return self._schedule.entries

    def worst(self, most: int) -> list[tuple[str, int]]:
        """The entries with the most runs that didn't happen, for the self-report."""
        lost = {name: counters.skipped + counters.missed for name, counters in self._schedule.counters().items()}
        return sorted(((name, count) for name, count in lost.items() if count), key=lambda item: -item[1])[:most]

    def stop(self) -> None:
        """No further run; what the sandbox still says of the running ones is not a result of theirs."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # ---------------------------------------------------------------------------------------------- one turn

    def _wind(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        at = self._schedule.next_at()
        if at is not None and not self._stopped:
            self._timer = self._clock.callLater(max(0.0, at - self._clock.seconds()), self._ring)

    def _ring(self) -> None:
        self._timer = None
        for due in self._schedule.due(self._clock.seconds()):
            self._act(due)
        self._wind()

    def _act(self, due: Due) -> None:
        entry = due.entry
        if due.missed:
            self._complain(entry, f"{due.missed} runs did not happen: the agent was stalled")
        if due.action is Action.SKIP:
            self._complain(entry, "a run was skipped: the one before is still going")
        elif due.action is Action.KILL_AND_RUN:
            self._log_kill(entry)
            old = self._running.pop(entry.id, None)
            self._start(entry)
            if old is not None:
                old.cancel("killed")
        elif due.action is Action.RUN:
            self._start(entry)

    def _start(self, entry: Entry) -> None:
        why_not = self._ready(entry)
        if why_not is not None:
            self._schedule.not_run(entry.id)
            self._complain(entry, f"a run did not happen: {why_not}")
            return
        self._complained.discard(entry.id)
        job = self._job_of(entry)
        if job is None:
            self._report(entry.id, unknown_check(entry.check))
            self._next(entry)
            return
        run: Run | None = None

        def done(blob: bytes) -> None:
            self._done(entry, run, blob)

        run = self._running[entry.id] = self._runner.run(job, done)

    def _done(self, entry: Entry, run: Run | None, blob: bytes) -> None:
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

    def _complain(self, entry: Entry, what: str) -> None:
        """Once, until it runs again: a check that is always too slow must not fill the log."""
        if entry.id not in self._complained:
            self._complained.add(entry.id)
            self.log.warn("{entry} ({check}): {what}", entry=entry.id, check=entry.check, what=what)

    def _log_kill(self, entry: Entry) -> None:
        self.log.warn("{entry} ({check}): still going when due again: killed", entry=entry.id, check=entry.check)


def _add(total: Counters, more: Counters) -> None:
    for name in TOTALS:
        setattr(total, name, getattr(total, name) + getattr(more, name))


def scheduled_job(checks: Any, entry: Entry) -> Job | None:
    """The Job of a scheduled run; runs of one entry share their state."""
    return job_for(checks, entry.check, entry.args, entry.timeout, state_key=entry.id)
