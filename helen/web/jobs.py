"""Routes of jobs: questions that last, as tasks of ZeroTask. docs/api.rst lists them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from klein import Klein
from twisted.logger import Logger

from helen.jobs import order
from helen.outgoing import unsent
from helen.web.bodies import read_body, read_object, read_patterns, read_seconds, read_text, wants_dry_run
from helen.web.cursors import read_page
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
            self._written = unsent(self._request.transport, self._written)
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


def add_routes(app: Klein) -> None:
    """To the class of the API, whose instances have `_helen`."""

    @app.route("/api/v1/jobs", methods=["POST"])
    async def submit_job(self: Any, request: Any) -> bytes:
        jobs, body = jobs_of(self), await read_body(request)
        check, on, args = read_text(body, "check"), read_patterns(body, "on"), read_object(body, "args")
        timeout, wait = read_seconds(body, "timeout", DEFAULT_TIMEOUT), read_seconds(body, "wait_for_offline", 0.0)
        targets = [agent.name for agent in self._helen.house.roster.askable(on)]
        if not targets:
            raise Problem(404, "no such agent", f"no agent fits {' or '.join(on)}: `helen agents` lists them")
        request.subject = f"{check} on {' '.join(on)}"
        if wants_dry_run(request, body):
            job, _ = jobs.plan(check, on, targets, args, timeout, wait)
            return write_json(request, msgspec.to_builtins(job) | {"id": None})
        job = await jobs.submit(check, on, targets, args, timeout, wait)
        return write_json(request, msgspec.to_builtins(job), 201)

    @app.route("/api/v1/jobs", methods=["GET"])
    async def list_jobs(self: Any, request: Any) -> bytes:
        jobs = jobs_of(self)
        rows, following = read_page(request, "jobs", (float, str), default=SHOWN).cut(jobs.newest(), order)
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
        if wants_dry_run(request, body):
            return write_json(request, msgspec.to_builtins(await jobs.retry(job_id, dry_run=True)) | {"id": None})
        return write_json(request, msgspec.to_builtins(await jobs.retry(job_id)), 201)
