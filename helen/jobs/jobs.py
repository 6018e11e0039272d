"""Keeps jobs: queries to agents that were handed to ZeroTask, what became of each agent, and clients that follow.

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
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import msgspec
from twisted.internet.defer import DeferredLock
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from equus_protocol import one_off
from groundwork.atomic_write import PRIVATE, write_durably
from helen.files.state_dir import make_folder
from helen.jobs.errors import BadJob, JobRefused, JobsUnavailable, JobUncertain, UnknownJob
from helen.jobs.fleet_tasks import ATTEMPTS, FleetTasks
from helen.queries import answer_file, one_off_jobs
from helen.queries.job_outcomes import JobOutcomes, Outcome, check_targets
from helen.queries.job_request import LONGEST_WAIT, read_params
from helen.queries.one_off_code import Code, Prepared
from zerotask import errors
from zerotask.errors import NoAnswer, RpcError, TaskFailed
from zerotask.tasks.connections import new_task_id

if TYPE_CHECKING:  # it needs the extra `zmq`, and installations without it name Jobs as well
    from zerotask.client import Client

MOST = 1_000  # jobs on record; those that ended first make room
ANSWER_SECONDS = 9.0  # that the broker may take: it keeps the name of a host that vanished for three beats, 7.5 s
LIMIT_SECONDS = 300.0  # of a task beyond the end of its question: restarts, a busy machine
LOOK_SECONDS = 0.2  # between two looks at a task that is not open here
WAITS_SHOWN = 20  # agents of one job that are named as waited for
LINES_A_TURN = 50  # some 50 us each
BEAT_SECONDS = 10.0  # of silence after which a follower is told the counts
ENDED = ("finished", "failed", "cancelled", "expired", "unknown")


Prepare = Callable[[Code, str, bool], Awaitable[Prepared]]  # signs in the name of the actor that the audit gets


class Job(msgspec.Struct, frozen=True):
    """Describes one job on record. `submitted` and `deadline` are unix seconds; None: no agent is waited for.

    `timeout` is in seconds, `of` is the job that this one retries, `code` the SHA-256 of a check that is in no set.
    """

    id: str
    check: str
    on: list[str]
    targets: list[str]
    args: dict[str, Any]
    timeout: float
    submitted: float
    deadline: float | None = None
    of: str | None = None
    code: str | None = None

    @property
    def place(self) -> tuple[float, str]:
        """The key by which the newest come first, and no two are alike."""
        return -self.submitted, self.id

    @property
    def ends_at(self) -> float:
        """Unix seconds at which every agent has answered or never will."""
        return max(self.submitted, self.deadline or 0.0) + self.timeout


@attrs.frozen
class State:
    """Tells the state of a job: the task's, or `cancelled`; `why` is for a failure."""

    state: str
    why: str | None = None


def unknown_job(job_id: str) -> UnknownJob:
    """Return the error for a job that is not on record, or not for the caller to see."""
    return UnknownJob(f"no job is called {job_id!r}: `helen jobs list` has them")


class Jobs:
    """Keeps the jobs of one Helen."""

    log = Logger()

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
        self._ended: dict[str, dict[str, int]] = {}  # counts of those that are over
        self._new: set[str] = set()  # on record, and not stored by the broker yet
        self._disk = DeferredLock()
        self._stopped = False

    async def load(self) -> None:
        """Load the jobs of earlier runs of Helen."""
        folder = self._tasks.folder
        found = await deferToThread(_load, folder, self._wall())
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
        self._new.add(job.id)
        try:
            await self._write(job, code)
            self._jobs[job.id] = job
            await self._hand_over(job, asked)
        finally:
            self._new.discard(job.id)
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
            await self._forget(job)
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
        if (await self.state(job)).state not in ENDED:
            raise JobRefused(f"{job_id} is not over yet: follow it, or cancel it first")
        said = (await self._known(job)).outcomes
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
            blob = await deferToThread(one_off_jobs.kept, self._tasks.folder, job.id)
            return await self._prepare(one_off_jobs.code_of(blob, wait, job.timeout), actor, dry_run)
        except OSError as error:
            raise JobRefused(f"the code of {job.id} is not kept any more ({error.strerror}): run it anew") from error

    # ---------------------------------------------------------------------------------------------- looking

    async def state(self, job: Job) -> State:
        """Return the state that the broker has. Raises JobsUnavailable if it gives no answer."""
        if job.id in self._new:
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

    async def show(self, job: Job) -> dict[str, Any]:
        """Return the fields of the job with `state`, `why`, `counts`, `waits_for`, as GET /api/v1/jobs/ID answers.

        `waits_for` are the first agents that are away and waited for; `waits_for_count` says how many they are.
        """
        state = await self.state(job)
        asking = self._tasks.open.get(job.id)
        away = [] if asking is None else asking.away()
        shown: dict[str, Any] = msgspec.to_builtins(job)
        waits = {"waits_for": away[:WAITS_SHOWN], "waits_for_count": len(away)}
        return shown | {"state": state.state, "why": state.why, "counts": await self._counts(job, state)} | waits

    def newest(self) -> list[Job]:
        """Return all jobs on record, the newest first."""
        return sorted(self._jobs.values(), key=attrgetter("place"))

    async def _counts(self, job: Job, state: State) -> dict[str, int]:
        """Return how many targets have which outcome; a job that is over is counted once."""
        if job.id in self._ended:
            return self._ended[job.id]
        question = await self._known(job)
        if state.state not in ENDED:
            return question.counts()
        question.give_up(_why(state))
        if state.state != "unknown":  # a broker that is back from a backup, say, may know it again
            self._ended[job.id] = question.counts()
        return question.counts()

    async def _known(self, job: Job) -> JobOutcomes:
        """Return the outcomes that are known, from the file of answers and from ZeroTask."""
        asking = self._tasks.open.get(job.id)
        if asking is not None:
            return JobOutcomes(tuple(job.targets), dict(asking.question.outcomes))
        kept: JobOutcomes | None = await deferToThread(answer_file.load, self._tasks.path_of(job.id))
        question = kept or JobOutcomes(tuple(job.targets))
        if not question.is_over:
            for outcome in await self._result(job):
                question.settle(outcome)
        return question

    async def _result(self, job: Job) -> list[Outcome]:
        """Return the outcomes that ZeroTask keeps; none unless the job has finished."""
        try:
            result = await self._client.result(job.id, ANSWER_SECONDS)
        except (RpcError, NoAnswer):  # TaskFailed is one of them
            return []
        return list(result["targets"])

    # ---------------------------------------------------------------------------------------------- following

    async def follow(self, job: Job, emit: Callable[[dict[str, Any]], None], is_gone: Callable[[], bool]) -> None:
        """Emit every outcome once, as it becomes known, and at last the state of the job."""
        emit({"job": job.id, "targets": len(job.targets), "check": job.check})
        told = JobOutcomes(tuple(job.targets))
        offset, beat_at = 0, self._reactor.seconds() + BEAT_SECONDS
        while not is_gone() and not self._stopped:
            asking = self._tasks.open.get(job.id)
            news = asking.news() if asking is not None else deferLater(self._reactor, LOOK_SECONDS)
            state = State("asking") if asking is not None else await self._state_or_why(job)
            outcomes, offset_then = await deferToThread(answer_file.read_on, self._tasks.path_of(job.id), offset)
            await self._emit(told, outcomes, emit)
            if outcomes or offset_then > offset:
                offset, beat_at = offset_then, self._reactor.seconds() + BEAT_SECONDS
                continue  # there may be more
            if state.state in ENDED:
                await self._emit_rest(job, state, told, emit)
                emit({"state": state.state, "why": state.why, "counts": told.counts()})
                return
            if self._reactor.seconds() >= beat_at:
                beat_at = self._reactor.seconds() + BEAT_SECONDS
                emit({"state": state.state, "why": state.why, "counts": told.counts()})
            await news.addTimeout(BEAT_SECONDS, self._reactor, lambda *_: None)

    async def _emit_rest(self, job: Job, state: State, told: JobOutcomes, emit: Callable[[Outcome], None]) -> None:
        """Emit the outcomes that are not in the file: those that ZeroTask has, and those that will never be."""
        if not told.is_over:
            await self._emit(told, await self._result(job), emit)
        for outcome in told.give_up(_why(state)):
            emit(outcome)

    async def _emit(self, told: JobOutcomes, outcomes: list[Outcome], emit: Callable[[Outcome], None]) -> None:
        """Emit a few a turn: a fleet of 10,000 agents must not hold the reactor up."""
        for at in range(0, len(outcomes), LINES_A_TURN):
            for outcome in outcomes[at : at + LINES_A_TURN]:
                if told.settle(outcome):
                    emit(outcome)
            await deferLater(self._reactor, 0)

    async def _state_or_why(self, job: Job) -> State:
        try:
            return await self.state(job)
        except JobRefused as refused:
            return State("unreachable", str(refused))

    # ---------------------------------------------------------------------------------------------- the disk

    async def _write(self, job: Job, code: Prepared | None) -> None:
        try:
            await self._disk.run(deferToThread, _store, self._tasks.folder, job, code)
        except OSError as error:
            said = f"the job cannot be kept in {self._tasks.folder}: {error.strerror}. No agent was asked"
            raise JobsUnavailable(f"{said}: make room, and ask again") from error

    async def _forget(self, job: Job) -> None:
        self._jobs.pop(job.id, None)
        self._ended.pop(job.id, None)
        await self._disk.run(deferToThread, _drop, self._tasks.folder, [job.id])

    async def _make_room(self) -> None:
        """Forget the oldest jobs that are over. Raises JobsUnavailable if MOST are open."""
        now = self._wall()
        over = [job for job in self._jobs.values() if job.ends_at + answer_file.KEEP_SECONDS < now]
        if len(self._jobs) - len(over) >= MOST:
            over += sorted((job for job in self._jobs.values() if job.ends_at < now), key=lambda job: job.ends_at)[:1]
        if len(self._jobs) - len(over) >= MOST:
            raise JobsUnavailable(f"{MOST} jobs are open already: cancel some, or wait for their end")
        for job in over:
            self._jobs.pop(job.id, None)
            self._ended.pop(job.id, None)
        if over:
            await self._disk.run(deferToThread, _drop, self._tasks.folder, [job.id for job in over])


def _why(state: State) -> str:
    """Return the reason for a target that is still open when its job is over."""
    return "the job was cancelled" if state.state == "cancelled" else f"the job is over: {state.why or state.state}"


def _store(folder: Path, job: Job, code: Prepared | None) -> None:
    make_folder(folder)
    if code is not None:
        one_off_jobs.keep(folder, job.id, code.blob)
    write_durably(folder / f"{job.id}.json", msgspec.json.encode(job) + b"\n", PRIVATE)


def _drop(folder: Path, job_ids: Iterable[str]) -> None:
    for job_id in job_ids:
        for ending in (".json", answer_file.ENDING, one_off_jobs.ENDING):
            (folder / f"{job_id}{ending}").unlink(missing_ok=True)


def _load(folder: Path, now: float) -> list[Job]:
    """Files that can't be read are left alone: they may be a later version's."""
    make_folder(folder)
    answer_file.prune(folder, now)
    found = []
    for path in folder.glob("*.json"):
        try:
            found.append(msgspec.json.decode(path.read_bytes(), type=Job))
        except (OSError, msgspec.MsgspecError) as error:
            Jobs.log.warn("{path} is left out: {error}", path=path, error=str(error))
    return found
