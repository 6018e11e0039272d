"""Keep the runs that have a worker: read what the worker sends, and end each run by its deadline.

Times are seconds of the reactor's clock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from equus.sandbox import frames
from equus.sandbox.document import failure
from equus.sandbox.job import too_late
from equus.sandbox.known_tables import KnownTables
from equus.sandbox.run import Run
from equus.sandbox.text import clean
from groundwork.awake_clock import LATE_SECONDS

# Seconds. A worker that was killed, or has delivered its result, ends in a few milliseconds. If the zygote has not
# reported the end after this time, the result is delivered without the figures of CPU and memory.
END_GRACE = 0.1
# Seconds that runs have when the agent goes on after it was stopped: results that wait are read first.
AWAKE_GRACE = 1.0
# Seconds after which a zygote that has not forked, or not reaped, is replaced: both take 2 ms.
ZYGOTE_GRACE = 5.0

_log = logging.getLogger("equus.sandbox")


class LiveRuns:
    """Holds `runs` by the number of their worker, with one timer for all of them. `kills` counts killed workers.

    log: called as log(check, text) for each line of a check. longest: returns the seconds that the policy allows a run.
    zygote_fails: called if the zygote has not done what it was asked for.
    """

    def __init__(
        self,
        reactor: Any,
        tables: KnownTables,
        log: Callable[[str, str], None],
        longest: Callable[[], float],
        zygote_fails: Callable[[], None],
    ) -> None:
        self._reactor, self._tables, self._log = reactor, tables, log
        self._longest, self._zygote_fails = longest, zygote_fails
        self.runs: dict[int, Run] = {}
        self.kills = 0
        self._timer: Any = None
        self._stopped = False

    def stop(self) -> None:
        """Kill everything, and deliver `cancelled` for each run without a result."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = self._reactor.seconds()
        for run in self.runs.values():
            self.kills += run.kill()
            run.close()
            run.close_pidfd()
            run.deliver(failure("cancelled", "the agent is stopping"), now)
        self.runs.clear()

    def fail_all(self, why: str) -> None:
        """Deliver `killed` for each run without a result, because all workers have ended."""
        now = self._reactor.seconds()
        runs, self.runs = list(self.runs.values()), {}
        for run in runs:
            run.kill()
            if run.link is not None and not run.delivered:
                run.link.drain()
            run.close()
            run.close_pidfd()
            run.deliver(failure(*run.forced_end or ("killed", why)), now)

    # -------------------------------------------------------------------------------------------- frames of workers

    def frame_received(self, run: Run, kind: bytes, text: bytes) -> None:
        """Take one frame of a worker; one that no correct worker sends ends its run."""
        if kind == frames.RESULT:
            self._take_result(run, text)
        elif kind == frames.LOG and run.lines < frames.LOG_LINES:
            run.lines += 1
            self._log(run.job.check, clean(text[: frames.LOG_LINE]).replace("\n", "\\n"))
        elif kind == frames.DECLARED and run.take_declared_timeout(text, self._longest()):
            self.set_deadline(run, run.began + run.timeout)
        elif kind != frames.TABLE or not self._take_table(run, text):
            self.terminate(run, "crashed", "the worker sent a frame that no correct worker sends")

    def _take_table(self, run: Run, text: bytes) -> bool:
        """Keep the table for the next runs. Return False if no correct worker tells this one, or tells one here."""
        if run.told or run.known or run.mode != "run":
            return False
        run.told = True
        return self._tables.learn(run.job, text)

    def _take_result(self, run: Run, part: bytes) -> None:
        """Deliver the result, and kill the worker: it has no further task."""
        run.close()
        run.kill()
        run.deliver(part, self._reactor.seconds())
        self.set_deadline(run, self._reactor.seconds() + ZYGOTE_GRACE)

    def disconnected(self, run: Run) -> None:
        """Wait END_GRACE for the zygote's exit report: the worker has ended, or has closed its socket."""
        if not run.delivered and run.forced_end is None:
            run.disconnected = True
            self.set_deadline(run, self._reactor.seconds() + END_GRACE)

    def terminate(self, run: Run, reason: str, why: str) -> None:
        """Kill the worker; its result waits END_GRACE for the figures in the zygote's exit report."""
        if run.delivered or run.forced_end is not None:
            return
        run.forced_end = (reason, why)
        run.close()
        self.kills += run.kill()
        self.set_deadline(run, self._reactor.seconds() + END_GRACE)

    # -------------------------------------------------------------------------------------------- time

    def set_deadline(self, run: Run, when: float) -> None:
        """Act on a run at `when` at the latest."""
        run.deadline = when
        self._arm(when)

    def _arm(self, deadline: float) -> None:
        """Set the one timer of all runs, which fires at the earliest deadline."""
        if self._stopped:
            return
        if self._timer is not None and self._timer.active():
            if self._timer.getTime() <= deadline:
                return
            self._timer.cancel()
        self._timer = self._reactor.callLater(max(0.0, deadline - self._reactor.seconds()), self._check_deadlines)

    def _check_deadlines(self) -> None:
        planned, self._timer = self._timer.getTime(), None
        now = self._reactor.seconds()
        if now - planned >= LATE_SECONDS:  # the agent was stopped: what workers have sent meanwhile is read first
            for run in self.runs.values():
                run.deadline = max(run.deadline, now + AWAKE_GRACE)
        for run in [run for run in self.runs.values() if run.deadline <= now]:
            self._deadline_passed(run, now)
        if self.runs:
            self._arm(min(run.deadline for run in self.runs.values()))

    def _deadline_passed(self, run: Run, now: float) -> None:
        if run.delivered or (run.pidfd is None and run.forced_end is None and now < run.began + run.timeout):
            _log.error("the zygote has stopped answering; it is replaced")
            self._zygote_fails()
        elif run.forced_end is not None:  # killed, and the zygote has not reported its end
            run.deliver(failure(*run.forced_end), now)
            self.set_deadline(run, now + ZYGOTE_GRACE)
        elif run.disconnected:
            self.terminate(run, "crashed", "the worker closed its connection without a result")
        elif not self._reads_news(run, now):
            self.terminate(run, "timeout", too_late(run.timeout))

    def _reads_news(self, run: Run, now: float) -> bool:
        """Read what a worker has written by its deadline; return True if its run has ended by that, or has more time.

        A result that waits in the socket is not late, even if this process is: the worker goes by the same clock, and
        writes `timeout` itself after the deadline.
        """
        if run.link is not None:
            run.link.doRead()
        return run.delivered or run.deadline > now
