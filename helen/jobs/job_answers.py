"""Finds out how far a job has come: from the query that is open here, the file of its answers, and ZeroTask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.threads import deferToThread

from helen.jobs.errors import JobRefused, JobsUnavailable
from helen.jobs.fleet_tasks import FleetTasks
from helen.jobs.job import Job, State
from helen.queries import answer_file
from helen.queries.job_outcomes import JobOutcomes, Outcome
from zerotask import errors
from zerotask.errors import NoAnswer, RpcError, TaskFailed

if TYPE_CHECKING:  # it needs the extra `zmq`, and installations without it name Jobs as well
    from zerotask.client import Client

ANSWER_SECONDS = 9.0  # that the broker may take: it keeps the name of a host that vanished for three beats, 7.5 s


class JobAnswers:
    """Reads states and outcomes of jobs; `new` has those that are on record and not stored by the broker yet."""

    def __init__(self, client: Client, tasks: FleetTasks) -> None:
        self._client = client
        self._tasks = tasks
        self._ended: dict[str, dict[str, int]] = {}  # counts of those that are over
        self.new: set[str] = set()

    async def state(self, job: Job) -> State:
        """Return the state that the broker has. Raises JobsUnavailable if it gives no answer."""
        if job.id in self.new:
            return State("queued")
        try:
            told = await self._client.status(job.id, ANSWER_SECONDS)
            if told["state"] != "failed":
                return State(told["state"])
            await self._client.result(job.id, ANSWER_SECONDS)
        except TaskFailed as failed:
            return State("cancelled") if failed.code == errors.CANCELLED else State("failed", str(failed))
        except RpcError as error:
            if error.code not in (errors.TASK_UNKNOWN, errors.EXPIRED):
                raise JobsUnavailable(f"ZeroTask does not say: {error}") from error
            return State("unknown", "ZeroTask does not know it: it is over for long, or its store was lost")
        except NoAnswer as error:
            raise JobsUnavailable(f"ZeroTask does not answer: {error}") from error
        return State("finished")

    async def state_or_why(self, job: Job) -> State:
        """Return the state of a job, which is `unreachable` if ZeroTask gives no answer."""
        try:
            return await self.state(job)
        except JobRefused as refused:
            return State("unreachable", str(refused))

    async def counts(self, job: Job, state: State) -> dict[str, int]:
        """Return how many targets have which outcome; a job that is over is counted once."""
        if job.id in self._ended:
            return self._ended[job.id]
        question = await self.known(job)
        if not state.is_over:
            return question.counts()
        question.give_up(state.why_open)
        if state.state != "unknown":  # a broker that is back from a backup, say, may know it again
            self._ended[job.id] = question.counts()
        return question.counts()

    async def known(self, job: Job) -> JobOutcomes:
        """Return the outcomes that are known, from the file of answers and from ZeroTask."""
        asking = self._tasks.open.get(job.id)
        if asking is not None:
            return JobOutcomes(tuple(job.targets), dict(asking.question.outcomes))
        kept: JobOutcomes | None = await deferToThread(answer_file.load, self._tasks.path_of(job.id))
        question = kept or JobOutcomes(tuple(job.targets))
        if not question.is_over:
            for outcome in await self.result(job):
                question.settle(outcome)
        return question

    async def result(self, job: Job) -> list[Outcome]:
        """Return the outcomes that ZeroTask keeps; none unless the job has finished."""
        try:
            result = await self._client.result(job.id, ANSWER_SECONDS)
        except (RpcError, NoAnswer):  # TaskFailed is one of them
            return []
        return list(result["targets"])

    def waited_for(self, job: Job) -> list[str]:
        """Return the agents that a job waits for, sorted."""
        asking = self._tasks.open.get(job.id)
        return [] if asking is None else asking.away()

    def forget(self, job_id: str) -> None:
        """Forget the counts of a job that is on record no more."""
        self._ended.pop(job_id, None)
