"""Routes of jobs: queries that wait for agents that are away, as tasks of ZeroTask. docs/api.rst lists them."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any, NotRequired, TypedDict

import msgspec

from groundwork.authority import decide
from helen.actions import ONCE
from helen.jobs.job import Job, unknown_job
from helen.jobs.jobs import Jobs
from helen.parts import Parts
from helen.queries.job_request import order_life
from helen.queries.one_off_code import Code
from helen.queries.one_off_jobs import order_of
from helen.web.answers import write_json
from helen.web.bodies import Body
from helen.web.body_fields import DEFAULT_TIMEOUT, Duration, Object, Patterns, Text
from helen.web.cursors import read_page
from helen.web.json_types import Counts
from helen.web.lines import Lines
from helen.web.problems import Problem, bad_request
from helen.web.request import ApiRequest
from helen.web.route import LINES, V1, Routes
from helen.web.routes.runs import OneOffCode, code_of
from helen.web.targets import targets_of

routes = Routes()
SHOWN = 100  # jobs of a list without `limit`
UNKNOWN = {404: "refused: no job has this id", 409: "no ZeroTask, or refused"}


class JobJson(TypedDict):
    """Describes a job: what was asked, of which agents, until when (unix seconds), and what it has come to."""

    id: str | None
    check: str
    on: list[str]
    targets: list[str]
    args: dict[str, Any]
    timeout: float
    submitted: float
    deadline: float | None
    of: str | None
    code: str | None
    state: NotRequired[str]
    why: NotRequired[str | None]
    counts: NotRequired[Counts]
    waits_for: NotRequired[list[str]]
    waits_for_count: NotRequired[int]


class JobsJson(TypedDict):
    """Lists jobs, a page of them, the newest first."""

    jobs: list[JobJson]
    next: str | None


class SubmitJob(Body, frozen=True, kw_only=True):
    """Asks agents to run a check, and waits for those that are away."""

    check: Text
    on: Patterns
    args: Object = {}
    timeout: Duration = DEFAULT_TIMEOUT
    wait_for_offline: Duration = 0.0


class SubmitOnce(OneOffCode, frozen=True, kw_only=True):
    """Asks agents to run code that is in no set, and waits for those that are away."""

    wait_for_offline: Duration = 0.0


@routes.get(f"{V1}/jobs", "read", "Questions that last", answer=JobsJson, paged=True, errors={409: "no ZeroTask"})
async def list_jobs(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with jobs on record, the newest first."""
    jobs, page = jobs_of(parts), read_page(request, "jobs", (float, str), default=SHOWN)
    rows, following = page.cut(jobs_in_sight(parts, request, jobs.newest()), attrgetter("place"))
    return write_json(request, {"jobs": [await jobs.show(job) for job in rows], "next": following})


@routes.get(f"{V1}/jobs/<job_id>", "read", "One of them", answer=JobJson, errors=UNKNOWN)
async def get_job(parts: Parts, request: ApiRequest, job_id: str) -> bytes:
    """Answer with one job and what it has come to."""
    jobs = jobs_of(parts)
    return write_json(request, await jobs.show(_job_of(parts, request, job_id)))


@routes.get(
    f"{V1}/jobs/<job_id>/follow", "read", "Its answers as they come", answer=dict[str, Any], kind=LINES,
    errors=UNKNOWN, streams=True,
)  # fmt: skip
async def follow_job(parts: Parts, request: ApiRequest, job_id: str) -> bytes:
    """Answer in lines: a line for each target as it becomes known, and the state at the end."""
    jobs = jobs_of(parts)
    job, lines = _job_of(parts, request, job_id), Lines(request)
    await jobs.follow(job, lines.write, lambda: lines.is_gone)
    return b""


@routes.post(
    f"{V1}/jobs", "job", "Ask agents, and wait for those that are away", body=SubmitJob, answer=JobJson,
    status=201, action="job", errors={404: "no such agent", 409: "no ZeroTask"},
)  # fmt: skip
async def submit_job(parts: Parts, request: ApiRequest, body: SubmitJob) -> bytes:
    """Store a job. Answered once ZeroTask has it."""
    jobs = jobs_of(parts)
    targets = [agent.name for agent in await targets_of(parts, request.caller, body.on)]
    request.subject = f"{body.check} on {' '.join(body.on)}"
    if body.dry_run:
        job, _ = jobs.plan(body.check, body.on, targets, body.args, body.timeout, body.wait_for_offline)
        return _write_planned(request, job)
    job = await jobs.submit(body.check, body.on, targets, body.args, body.timeout, body.wait_for_offline)
    return write_json(request, msgspec.to_builtins(job), 201)


@routes.post(
    f"{V1}/jobs/once", "once", "Run code that is in no set, also on those that are away", body=SubmitOnce,
    answer=JobJson, status=201, action="job",
    errors={404: "no such agent", 409: "no ZeroTask, needs a signature, or order refused"},
)  # fmt: skip
async def submit_once(parts: Parts, request: ApiRequest, body: SubmitOnce) -> bytes:
    """Store a job of code that is in no set, which is signed for as long as agents are waited for."""
    jobs, wait = jobs_of(parts), body.wait_for_offline
    wanted = await code_of(parts, request.caller, body, _life(wait, body.timeout))
    if isinstance(wanted, Code):
        await targets_of(parts, request.caller, wanted.on)  # code for no agent need not be signed
    code = await parts.one_off.prepare(wanted, request.caller.actor, body.dry_run)
    request.subject = f"{code.check} on {' '.join(code.on)}"
    targets = [agent.name for agent in await targets_of(parts, request.caller, code.on)]
    asked = code.check, list(code.on), targets, order_of(code.blob)["args"], body.timeout, wait
    if body.dry_run:
        return _write_planned(request, jobs.plan(*asked, code=code)[0])
    job = await jobs.submit(*asked, code=code)
    return write_json(request, msgspec.to_builtins(job), 201)


@routes.post(
    f"{V1}/jobs/<job_id>/cancel", "job-cancel", "Ask no further", body=Body, answer=JobJson, action="job-cancel",
    errors=UNKNOWN,
)  # fmt: skip
async def cancel_job(parts: Parts, request: ApiRequest, body: Body, job_id: str) -> bytes:
    """Cancel a job, and answer with it as it is then."""
    jobs = jobs_of(parts)
    _job_of(parts, request, job_id)
    if not body.dry_run:
        await jobs.cancel(job_id)
    return write_json(request, await jobs.show(_job_of(parts, request, job_id)))


@routes.post(
    f"{V1}/jobs/<job_id>/retry", "job-retry", "Ask those again that have not answered", body=Body, answer=JobJson,
    status=201, action="job-retry", errors=UNKNOWN | {403: "scope missing"},
)  # fmt: skip
async def retry_job(parts: Parts, request: ApiRequest, body: Body, job_id: str) -> bytes:
    """Store a new job for the targets that have not answered. Raises Problem 403 for code without the scope `push`."""
    jobs = jobs_of(parts)
    if _job_of(parts, request, job_id).code is not None and decide(request.caller, ONCE) is not None:
        raise Problem(403, "scope missing", f"{job_id} runs code that is in no set: that takes the scope `push`")
    job = await jobs.retry(job_id, request.caller.actor, body.dry_run)
    return _write_planned(request, job) if body.dry_run else write_json(request, msgspec.to_builtins(job), 201)


def jobs_in_sight(parts: Parts, request: ApiRequest, jobs: Iterable[Job]) -> list[Job]:
    """Return the jobs that ask none but agents that the caller sees."""
    sight = parts.visible(request.caller)
    return [job for job in jobs if sight is None or all(map(sight, job.targets))]


def _job_of(parts: Parts, request: ApiRequest, job_id: str) -> Job:
    """Return a job that the caller sees. Raises UnknownJob for another."""
    job = jobs_of(parts).get(job_id)
    if not jobs_in_sight(parts, request, [job]):
        raise unknown_job(job_id)
    return job


def jobs_of(parts: Parts) -> Jobs:
    """Return the jobs of this Helen. Raises Problem 409 where it works for no ZeroTask."""
    if parts.network is None or parts.network.jobs is None:
        raise Problem(
            409, "no ZeroTask", "this Helen keeps no jobs: start it with --embed-zerotask, or with --zerotask"
            " tcp://HOST:PORT where such a broker runs. Only `helen run --wait-for-offline` needs one",
        )  # fmt: skip
    return parts.network.jobs


def _write_planned(request: ApiRequest, job: Job) -> bytes:
    return write_json(request, msgspec.to_builtins(job) | {"id": None})


def _life(wait: float, timeout: float) -> float:
    try:
        return order_life(wait, timeout)
    except ValueError as error:
        raise bad_request(f"`wait_for_offline`: {error}") from error
