"""Sends the outcomes of a job to a client that follows it, each once, as they become known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread

from helen.jobs.fleet_tasks import FleetTasks
from helen.jobs.job import Job, State
from helen.jobs.job_answers import JobAnswers
from helen.queries import answer_file
from helen.queries.job_outcomes import JobOutcomes, Outcome

LOOK_SECONDS = 0.2  # between two looks at a task that is not open here
LINES_A_TURN = 50  # some 50 us each
BEAT_SECONDS = 10.0  # of silence after which a follower is told the counts

Emit = Callable[[dict[str, Any]], None]


class JobStream:
    """Follows one job for one client. `emit(document)` sends a line, `is_gone()` tells that the client has left."""

    def __init__(
        self, reactor: Any, tasks: FleetTasks, answers: JobAnswers, job: Job, emit: Emit, is_gone: Callable[[], bool]
    ) -> None:
        self._reactor = reactor
        self._tasks = tasks
        self._answers = answers
        self._job = job
        self._emit = emit
        self._is_gone = is_gone
        self._told = JobOutcomes(tuple(job.targets))
        self._offset = 0  # of the file of answers
        self._beat_at = 0.0

    async def run(self) -> None:
        """Emit every outcome once, as it becomes known, and at last the state of the job."""
        job = self._job
        self._emit({"job": job.id, "targets": len(job.targets), "check": job.check})
        self._put_off_beat()
        while not self._is_gone():
            news, state = await self._look()
            if await self._emit_new():
                self._put_off_beat()
                continue  # there may be more
            if state.is_over:
                await self._emit_rest(state)
                self._emit_state(state)
                return
            if self._reactor.seconds() >= self._beat_at:
                self._put_off_beat()
                self._emit_state(state)
            await news.addTimeout(BEAT_SECONDS, self._reactor, lambda *_: None)

    async def _look(self) -> tuple[Deferred[None], State]:
        """Return what fires when it is time for the next look, and the state of the job."""
        asking = self._tasks.open.get(self._job.id)
        if asking is not None:
            return asking.news(), State("asking")
        news: Deferred[None] = deferLater(self._reactor, LOOK_SECONDS)
        return news, await self._answers.state_or_why(self._job)

    async def _emit_new(self) -> bool:
        """Emit what the file of answers has beyond the last look, and return True if there was something."""
        path, offset = self._tasks.path_of(self._job.id), self._offset
        outcomes, self._offset = await deferToThread(answer_file.read_on, path, offset)
        await self._emit_outcomes(outcomes)
        return bool(outcomes) or self._offset > offset

    async def _emit_rest(self, state: State) -> None:
        """Emit the outcomes that are not in the file: those that ZeroTask has, and those that will never be."""
        if not self._told.is_over:
            await self._emit_outcomes(await self._answers.result(self._job))
        for outcome in self._told.give_up(state.why_open):
            self._emit(outcome)

    async def _emit_outcomes(self, outcomes: list[Outcome]) -> None:
        """Emit a few a turn: a fleet of 10,000 agents must not hold the reactor up."""
        for at in range(0, len(outcomes), LINES_A_TURN):
            for outcome in outcomes[at : at + LINES_A_TURN]:
                if self._told.settle(outcome):
                    self._emit(outcome)
            await deferLater(self._reactor, 0)

    def _emit_state(self, state: State) -> None:
        self._emit({"state": state.state, "why": state.why, "counts": self._told.counts()})

    def _put_off_beat(self) -> None:
        self._beat_at = self._reactor.seconds() + BEAT_SECONDS
