"""Routes of jobs: questions that last, as tasks of ZeroTask. docs/api.rst lists them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from operator import attrgetter
from typing import Any

import msgspec
from klein import Klein
from twisted.logger import Logger

from helen.once_jobs import order_of
from helen.one_shots import Code
from helen.outgoing import unsent
from helen.question import order_life
from helen.web.bodies import (
    read_asking_time,
    read_body,
    read_object,
    read_patterns,
    read_seconds,
    read_text,
    wants_dry_run,
)
from helen.web.cursors import read_page
from helen.web.one_shots import read_wanted
from helen.web.problems import Problem, write_json

DEFAULT_TIMEOUT = 30.0  # seconds that an agent has for its answer
SHOWN = 100  # jobs of a list without `limit`
MAX_UNREAD = 64 * 1024 * 1024  # bytes of lines that wait for one who follows and doesn't read; then he is cut off

log = Logger()


class Lines:
    """An answer that comes in lines of JSON for as long as somebody reads them."""

    def __init__(self, request: Any) -> None:
        self.gone = False
        self._request = request
        self._written = 0
        request.setHeader("content-type", "application/x-ndjson")
        request.notifyFinish().addErrback(self._hung_up)

    def _hung_up(self, _failure: Any) -> None:
        self.gone = True

    def write(self, document: dict[str, Any]) -> None:
        if self.gone:
            return
        text = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        self._written += len(text)
        if self._written > MAX_UNREAD:
            self._written = unsent(self._request.transport, self._written - len(text)) + len(text)
            if self._written > MAX_UNREAD:
                self._request.transport.abortConnection()
                return
        self._request.write(text)


def jobs_of(api: Any) -> Any:
    """Those of a Helen that has any."""
    network = api._helen.network
    if network is None or network.jobs is None:
        raise Problem(
            409, "no ZeroTask", "this Helen keeps no jobs: start her with --embed-zerotask, or with --zerotask"
            " tcp://HOST:PORT where such a broker runs. `helen run` without --wait-for-offline needs neither",
        )  # fmt: skip
    return network.jobs


def targets_of(api: Any, on: Iterable[str]) -> list[str]:
    """Names of those who are asked."""
    targets = [agent.name for agent in api._helen.house.roster.askable(on)]
    if not targets:
        raise Problem(404, "no such agent", f"no agent fits {' or '.join(on)}: `helen agents` lists them")
    return targets


def read_life(wait: float, timeout: float) -> float:
    try:
        return order_life(wait, timeout)
    except ValueError as error:
        raise Problem(400, "bad request", f"`wait_for_offline`: {error}") from error


def add_routes(app: Klein) -> None:
    """To the class of the API, whose instances have `_helen`."""

    @app.route("/api/v1/jobs", methods=["POST"])
    async def submit_job(self: Any, request: Any) -> bytes:
        jobs, body = jobs_of(self), await read_body(request)
        check, on, args = read_text(body, "check"), read_patterns(body, "on"), read_object(body, "args")
        timeout, wait = read_seconds(body, "timeout", DEFAULT_TIMEOUT), read_seconds(body, "wait_for_offline", 0.0)
        targets = targets_of(self, on)
        request.subject = f"{check} on {' '.join(on)}"
        if wants_dry_run(request, body):
            job, _ = jobs.plan(check, on, targets, args, timeout, wait)
            return write_json(request, msgspec.to_builtins(job) | {"id": None})
        job = await jobs.submit(check, on, targets, args, timeout, wait)
        return write_json(request, msgspec.to_builtins(job), 201)

    @app.route("/api/v1/jobs/once", methods=["POST"])
    async def submit_once(self: Any, request: Any) -> bytes:
        """Code that is in no set, which is signed for as long as agents are waited for."""
        jobs, body = jobs_of(self), await read_body(request)
        timeout, wait = read_asking_time(body), read_seconds(body, "wait_for_offline", 0.0)
        wanted, dry_run = read_wanted(body | {"life": read_life(wait, timeout)}), wants_dry_run(request, body)
        if isinstance(wanted, Code):
            targets_of(self, wanted.on)  # whom nobody would hear of need not be signed for
        code = await self._helen.one_shots.prepare(wanted, request.caller.actor, dry_run)
        request.subject = f"{code.check} on {' '.join(code.on)}"
        asked = code.check, list(code.on), targets_of(self, code.on), order_of(code.blob)["args"], timeout, wait
        if dry_run:
            return write_json(request, msgspec.to_builtins(jobs.plan(*asked, code=code)[0]) | {"id": None})
        job = await jobs.submit(*asked, code=code)
        return write_json(request, msgspec.to_builtins(job), 201)

    @app.route("/api/v1/jobs", methods=["GET"])
    async def list_jobs(self: Any, request: Any) -> bytes:
        jobs = jobs_of(self)
        rows, following = read_page(request, "jobs", (float, str), default=SHOWN).cut(
            jobs.newest(), attrgetter("place")
        )
        return write_json(request, {"jobs": [await jobs.show(job) for job in rows], "next": following})

    @app.route("/api/v1/jobs/<job_id>", methods=["GET"])
    async def show_job(self: Any, request: Any, job_id: str) -> bytes:
        jobs = jobs_of(self)
        return write_json(request, await jobs.show(jobs.get(job_id)))

    @app.route("/api/v1/jobs/<job_id>/follow", methods=["GET"])
    async def follow_job(self: Any, request: Any, job_id: str) -> bytes:
        jobs = jobs_of(self)
        job, lines = jobs.get(job_id), Lines(request)
        await jobs.follow(job, lines.write, lambda: lines.gone)
        return b""

    @app.route("/api/v1/jobs/<job_id>/cancel", methods=["POST"])
    async def cancel_job(self: Any, request: Any, job_id: str) -> bytes:
        jobs, body = jobs_of(self), await read_body(request)
        jobs.get(job_id)
        if not wants_dry_run(request, body):
            await jobs.cancel(job_id)
        return write_json(request, await jobs.show(jobs.get(job_id)))

    @app.route("/api/v1/jobs/<job_id>/retry", methods=["POST"])
    async def retry_job(self: Any, request: Any, job_id: str) -> bytes:
        jobs, body = jobs_of(self), await read_body(request)
        dry_run, actor = wants_dry_run(request, body), request.caller.actor
        if jobs.get(job_id).code is not None and not request.caller.may("push"):
            raise Problem(403, "scope missing", f"{job_id} runs code that is in no set: that takes the scope `push`")
        job = msgspec.to_builtins(await jobs.retry(job_id, actor, dry_run))
        return write_json(request, job | {"id": None} if dry_run else job, 200 if dry_run else 201)
