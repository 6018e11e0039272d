"""Keeps jobs: queries to agents that were handed to ZeroTask; submits, cancels and retries them.

    STATE/jobs/ID.json       the check, the agents and the deadline; written before the task is
    STATE/jobs/ID.ndjson     the answers: helen/queries/answer_file.py
    STATE/jobs/ID.once       code that is in no set: helen/queries/one_off_jobs.py

The task has the id of its job, and is for this Helen (`equus.check.ID`): the agents that it names are its own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from equus_protocol import one_off
from helen.jobs.errors import BadJob, JobRefused, JobsUnavailable, JobUncertain
from helen.jobs.fleet_tasks import ATTEMPTS, FleetTasks
from helen.jobs.job import Job, State, unknown_job
from helen.jobs.job_answers import ANSWER_SECONDS, JobAnswers
from helen.jobs.job_folder import JobFolder
from helen.jobs.job_stream import Emit, JobStream
from helen.queries import answer_file, one_off_jobs
from helen.queries.job_outcomes import check_targets
from helen.queries.job_request import LONGEST_WAIT, read_params
from helen.queries.one_off_code import Code, Prepared
from zerotask import errors
from zerotask.errors import NoAnswer, RpcError
from zerotask.tasks.connections import new_task_id

if TYPE_CHECKING:  # it needs the extra `zmq`, and installations without it name Jobs as well
    from zerotask.client import Client

MOST = 1_000  # jobs on record; those that ended first make room
LIMIT_SECONDS = 300.0  # of a task beyond the end of its question: restarts, a busy machine
WAITS_SHOWN = 20  # agents of one job that are named as waited for


Prepare = Callable[[Code, str, bool], Awaitable[Prepared]]  # signs in the name of the actor that the audit gets


class Jobs:
    """Keeps the jobs of one Helen."""

    def __init__(
        self, reactor: Any, client: Client, tasks: FleetTasks, method: str, prepare: Prepare,
        wall: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._reactor = reactor
        self._client = client
        self._tasks = tasks
        self._method = method
        self._prepare = prepare
        self._wall = wall
        self._jobs: dict[str, Job] = {}
        self._answers = JobAnswers(client, tasks)
        self._folder = JobFolder(tasks.folder)
        self._stopped = False

    async def load(self) -> None:
        """Load the jobs of earlier runs of Helen."""
        found = await self._folder.load(self._wall())
        self._jobs.update((job.id, job) for job in sorted(found, key=lambda job: job.submitted))

    def stop(self) -> None:
        """End the streams of all clients that follow a job."""
        self._stopped = True

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._jobs

    def __len__(self) -> int:
        return len(self._jobs)

    def get(self, job_id: str) -> Job:
        """Return a job on record. Raises UnknownJob."""
        job = self._jobs.get(job_id)
        if job is None:
            raise unknown_job(job_id)
        return job

    # ---------------------------------------------------------------------------------------------- directing

    async def submit(
        self, check: str, on: list[str], targets: Iterable[str], args: dict[str, Any], timeout: float,
        wait: float, of: str | None = None, code: Prepared | None = None,
    ) -> Job:  # fmt: skip
        """Return the job once its task is stored. `wait`: seconds for which agents that are away are waited for.

        With `code` the check is that of an order. Raises JobRefused or one of its kinds, and stores nothing then.
        """
        job, asked = self.plan(check, on, targets, args, timeout, wait, of, code)
        await self._make_room()
        self._answers.new.add(job.id)
        try:
            await self._folder.write(job, code)
            self._jobs[job.id] = job
            await self._hand_over(job, asked)
        finally:
            self._answers.new.discard(job.id)
        return job

    def plan(
        self, check: str, on: list[str], targets: Iterable[str], args: dict[str, Any], timeout: float,
        wait: float, of: str | None = None, code: Prepared | None = None,
    ) -> tuple[Job, dict[str, Any]]:  # fmt: skip
        """Return the job that would be stored and the parameters of its task; `wait` is in seconds. Raises BadJob."""
        now = self._wall()
        if wait > LONGEST_WAIT:
            raise BadJob(f"agents are waited for {LONGEST_WAIT / 86_400:g} days at most")
        deadline = now + wait if wait else None
        sha256 = None if code is None else code.sha256
        job = Job(new_task_id(now), check, on, sorted(targets), args, timeout, now, deadline, of, sha256)
        asked = {"agents": job.targets, "check": check, "args": args, "deadline": deadline, "timeout": timeout}
        if code is not None:
            asked |= {"check": one_off.NAME, "args": json.loads(code.blob)}
            if one_off_jobs.order_of(code.blob)["expires"] < (deadline or now):
                raise BadJob("the order expires before the wait is over: sign it for longer, or wait less")
        elif check.startswith(one_off.RESERVED):
            raise BadJob(f"{check[:80]!r} is no check: such names are the protocol's own")
        try:
            read_params(asked, now)
            check_targets(job.targets)
        except ValueError as error:
            raise BadJob(str(error)) from error
        return job, asked

    async def _hand_over(self, job: Job, asked: dict[str, Any]) -> None:
        now = self._wall()
        limit = {"time_limit": job.ends_at - now + LIMIT_SECONDS, "max_attempts": ATTEMPTS}
        try:
            await self._client.submit(
                self._method, asked, job.id, ANSWER_SECONDS, result_ttl=answer_file.KEEP_SECONDS, **limit
            )
        except RpcError as error:
            await self._forget([job])
            raise JobsUnavailable(f"ZeroTask does not take it: {error}") from error
        except NoAnswer as error:  # it may have been stored all the same
            said = f"ZeroTask does not answer: {error}. `helen jobs list` will say whether it has taken job {job.id}"
            raise JobUncertain(said) from error

    async def cancel(self, job_id: str) -> State:
        """Cancel the task and return the state of the job after that.

        Raises UnknownJob, or JobsUnavailable if ZeroTask gives no answer.
        """
        job = self.get(job_id)
        try:
            await self._client.cancel(job.id, ANSWER_SECONDS)
        except RpcError as error:
            if error.code != errors.TASK_UNKNOWN:
                raise JobsUnavailable(f"ZeroTask does not cancel it: {error}") from error
        except NoAnswer as error:
            raise JobsUnavailable(f"ZeroTask does not answer: {error}") from error
        return await self.state(job)

    async def retry(self, job_id: str, actor: str = "operator", dry_run: bool = False) -> Job:
        """Return a new job for the targets that did not answer; it waits as long as the old one did.

        Raises JobRefused if the old one is not over, or has all answers; OrderRefused if its code can't be signed here.
        """
        job = self.get(job_id)
        if not (await self.state(job)).is_over:
            raise JobRefused(f"{job_id} is not over yet: follow it, or cancel it first")
        said = (await self._answers.known(job)).outcomes
        left = [name for name in job.targets if name not in said or said[name]["outcome"] != "answered"]
        if not left:
            raise JobRefused(f"all agents have answered {job_id}: there is nothing to retry")
        wait = 0.0 if job.deadline is None else job.deadline - job.submitted
        code = None if job.code is None else await self._sign_again(job, wait, actor, dry_run)
        if dry_run:
            return self.plan(job.check, job.on, left, job.args, job.timeout, wait, job.id, code)[0]
        return await self.submit(job.check, job.on, left, job.args, job.timeout, wait, job.id, code)

    async def _sign_again(self, job: Job, wait: float, actor: str, dry_run: bool) -> Prepared:
        """Return the code with a new signature.

        Raises OrderRefused where Helen holds no key: then it is run anew by hand.
        """
        try:
            blob = await self._folder.code_of(job)
            return await self._prepare(one_off_jobs.code_of(blob, wait, job.timeout), actor, dry_run)
        except OSError as error:
            raise JobRefused(f"the code of {job.id} is not kept any more ({error.strerror}): run it anew") from error

    # ---------------------------------------------------------------------------------------------- looking

    async def state(self, job: Job) -> State:
        """Return the state that the broker has. Raises JobsUnavailable if it gives no answer."""
        return await self._answers.state(job)

    async def show(self, job: Job) -> dict[str, Any]:
        """Return the fields of the job with `state`, `why`, `counts`, `waits_for`, as GET /api/v1/jobs/ID answers.

        `waits_for` are the first agents that are away and waited for; `waits_for_count` says how many they are.
        """
        state, away = await self.state(job), self._answers.waited_for(job)
        counts = await self._answers.counts(job, state)
        shown: dict[str, Any] = msgspec.to_builtins(job)
        waits = {"waits_for": away[:WAITS_SHOWN], "waits_for_count": len(away)}
        return shown | {"state": state.state, "why": state.why, "counts": counts} | waits

    def newest(self) -> list[Job]:
        """Return all jobs on record, the newest first."""
        return sorted(self._jobs.values(), key=attrgetter("place"))

    async def follow(self, job: Job, emit: Emit, is_gone: Callable[[], bool]) -> None:
        """Emit every outcome once, as it becomes known, and at last the state of the job."""
        stream = JobStream(self._reactor, self._tasks, self._answers, job, emit, lambda: is_gone() or self._stopped)
        await stream.run()

    # ---------------------------------------------------------------------------------------------- room

    async def _forget(self, jobs: Iterable[Job]) -> None:
        gone = [job.id for job in jobs]
        for job_id in gone:
            self._jobs.pop(job_id, None)
            self._answers.forget(job_id)
        if gone:
            await self._folder.drop(gone)

    async def _make_room(self) -> None:
        """Forget the oldest jobs that are over. Raises JobsUnavailable if MOST are open."""
        now = self._wall()
        over = [job for job in self._jobs.values() if job.ends_at + answer_file.KEEP_SECONDS < now]
        if len(self._jobs) - len(over) >= MOST:
            over += sorted((job for job in self._jobs.values() if job.ends_at < now), key=lambda job: job.ends_at)[:1]
        if len(self._jobs) - len(over) >= MOST:
            raise JobsUnavailable(f"{MOST} jobs are open already: cancel some, or wait for their end")
        await self._forget(over)
