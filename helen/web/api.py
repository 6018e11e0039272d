"""The JSON HTTP API under /api/v1: what Helen knows, and what she may be told to do. docs/api.rst lists it.

Routes read and answer; what they ask for is done elsewhere. Nothing here blocks.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from klein import Klein
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from equus_protocol import once
from equus_protocol.codec import MAX_BLOB, Role, encode
from equus_protocol.errors import LocalProtocolError
from equus_protocol.messages import Check
from helen.outgoing import unsent
from helen.policy import unknown_checks
from helen.roster import Agent, Latest
from helen.runs import MAX_RUNS, Run, RunRefused, Target
from helen.supply import encode_args
from helen.web import (
    admin,
    alertmanager,
    draining,
    events,
    files,
    health,
    history,
    jobs,
    judgement,
    metrics,
    notifications,
    one_shots,
    pings,
    pushes,
    reporting,
    rollouts,
    shown,
)  # fmt: skip
from helen.web.board import show_state
from helen.web.bodies import (
    read_asking_time,
    read_body,
    read_object,
    read_optional_text,
    read_patterns,
    read_seconds,
    read_text,
    wants_dry_run,
)
from helen.web.cursors import read_page
from helen.web.described import ROUTES
from helen.web.openapi import build
from helen.web.preconditions import demand
from helen.web.problems import Problem, add_error_answers, write_json
from helen.web.rows import write_rows
from helen.web.tags import tag_of_document
from helen.web.tokens import WebTokens

if TYPE_CHECKING:
    from helen.tap import Helen

MAX_UNREAD = 64 * 1024 * 1024  # bytes of answers that wait for one who asked and doesn't read; then he is cut off


class Api:
    """Bound to one Helen; the same object serves the Unix socket and TCP."""

    app = Klein()

    def __init__(self, helen: Helen, tokens: WebTokens) -> None:
        self._helen = helen
        self.tokens = tokens

    @app.route("/api/v1/openapi.json", methods=["GET"])
    def openapi(self, request: Any) -> bytes:
        """What there is, for programs."""
        return write_json(request, build(ROUTES, self._helen.version))

    @app.route("/api/v1/status", methods=["GET"])
    def status(self, request: Any) -> bytes:
        return write_json(request, self._helen.overview())

    @app.route("/api/v1/agents", methods=["GET"])
    def agents(self, request: Any) -> Deferred[bytes]:
        patterns = [value.decode("utf-8", "replace") for value in request.args.get(b"on", [])]
        page = read_page(request, "agents", (str,), patterns)
        found = self._helen.house.roster.matching(patterns or ["*"], revoked=True)
        rows, following = page.cut(sorted(found, key=lambda agent: agent.name), lambda agent: (agent.name,))
        return write_rows(request, "agents", rows, self._agent, {"next": following}, whole=page.limit is not None)

    @app.route("/api/v1/agents/<name>", methods=["GET"])
    def agent(self, request: Any, name: str) -> bytes:
        agent = self._find(name)
        latest = sorted(agent.latest.values(), key=lambda latest: latest.check_id)
        return write_json(
            request,
            self._agent(agent)
            | {
                "files": agent.files,
                "results": [
                    shown.show_latest(each) | {"state": show_state(self._helen.judge, name, each.check_id)}
                    for each in latest
                ],
                "schedule": [shown.show_entry(entry) for entry in self._helen.house.supply.schedule_of(agent)],
            },
        )

    @app.route("/api/v1/agents/<name>/revoke", methods=["POST"])
    async def revoke(self, request: Any, name: str) -> bytes:
        if wants_dry_run(request, await read_body(request)):
            count = await self._helen.authority.check_revoke(name, time.time())
            return write_json(request, {"agent": name, "revoked": count})
        count = await self._helen.authority.revoke(name, time.time(), request.caller.actor)
        self._helen.judge.forget(name)
        self._helen.house.roster.know(name).revoke(time.time())
        self._helen.outside.restate(name)
        return write_json(request, {"agent": name, "revoked": count})

    @app.route("/api/v1/agents/<name>/forget", methods=["POST"])
    async def forget(self, request: Any, name: str) -> bytes:
        """A name that nobody has any more: revoked, and in no list."""
        agent = self._find(name)
        if agent.is_host:
            raise Problem(409, "a host", f"{name} is no agent, it reports from outside: take it out of passive.toml")
        if agent.link is not None:
            raise Problem(409, "connected", f"{name} is connected: `helen revoke {name}` shuts it out first")
        if wants_dry_run(request, await read_body(request)):
            return write_json(request, {"agent": name})
        await self._helen.authority.forget(name, time.time(), request.caller.actor)
        self._helen.judge.forget(name)
        self._helen.house.roster.forget(name)
        self._helen.outside.restate(name)
        return write_json(request, {"agent": name})

    @app.route("/api/v1/results", methods=["GET"])
    async def results(self, request: Any) -> bytes:
        """The latest results of all agents, or of those of `on`: newer than `since` (unix seconds)."""
        given = request.args.get(b"since", [b"0"])[0].decode("utf-8", "replace")
        try:
            since = float(given)
        except ValueError as error:
            raise Problem(400, "bad request", "`since` is a number of unix seconds") from error
        kept = request.args.get(b"kept") == [b"1"]
        patterns = [value.decode("utf-8", "replace") for value in request.args.get(b"on", [])]
        page = read_page(request, "results", (float, str, str), [given, *patterns])
        found = self._helen.house.roster.matching(patterns or ["*"])
        new = await deferToThread(newer_results, found, since, kept)
        rows, following = page.cut(new, place_of)
        whole = page.limit is not None
        return await write_rows(request, "results", rows, show_result, {"next": following}, whole)

    @app.route("/api/v1/checks", methods=["GET"])
    def checks(self, request: Any) -> bytes:
        return write_json(request, shown.show_checks(self._helen.library))

    @app.route("/api/v1/tokens", methods=["POST"])
    async def tokens(self, request: Any) -> bytes:
        body = await read_body(request)
        name, ttl = read_optional_text(body, "agent"), read_seconds(body, "ttl", 3_600.0)
        if wants_dry_run(request, body):
            self._helen.authority.check_token(name, ttl)
            return write_json(request, {"token": None, "address": self._helen.address, "ttl": ttl})
        token = await self._helen.authority.make_token(time.time(), name, ttl, request.caller.actor)
        return write_json(request, {"token": token, "address": self._helen.address, "ttl": ttl}, 201)

    @app.route("/api/v1/certificates", methods=["POST"])
    async def certificates(self, request: Any) -> bytes:
        body = await read_body(request)
        name, csr = read_text(body, "name"), read_text(body, "csr")
        if wants_dry_run(request, body):
            await self._helen.authority.check_issue(name, csr, time.time())
            return write_json(request, {"certificate": None, "renew_after": None} | self._pinned())
        enrolled = await self._helen.authority.issue(name, csr, time.time(), request.caller.actor)
        self._helen.house.roster.enrol(name)
        made = {"certificate": enrolled.certificate, "renew_after": enrolled.renew_after}
        return write_json(request, made | self._pinned(), 201)

    def _pinned(self) -> dict[str, Any]:
        """What whoever enrols has to know of us."""
        house, authority = self._helen.house, self._helen.authority
        pinned = {"ca": authority.bundle, "signing_keys": house.signing_keys, "root": house.root}
        return pinned | {"address": self._helen.address}

    @app.route("/api/v1/assignments", methods=["GET"])
    async def assignments(self, request: Any) -> bytes:
        book = self._helen.book
        text = await book.text()
        found = {"text": text, "revision": book.revision, "fault": book.fault}
        return write_json(request, found, tag=tag_of_document(text))

    @app.route("/api/v1/assignments", methods=["PUT"])
    async def assign(self, request: Any) -> bytes:
        """The whole text. With If-Match only if nobody has changed it since it was read with that ETag."""
        body, book = await read_body(request), self._helen.book
        text = body.get("text")
        if not isinstance(text, str):
            raise Problem(400, "bad request", "`text` is the whole of assignments.toml")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise Problem(400, "bad request", f"`text` holds what is no text: {error.reason}") from error
        dry_run = wants_dry_run(request, body)

        def unchanged(held: str) -> None:
            demand(request, tag_of_document(held), "assignments.toml")

        assignments = await book.rewrite(text, request.caller.actor, unchanged, dry_run)
        request.subject = f"revision {book.revision}"
        unknown = unknown_checks(assignments, self._helen.library.tables)
        request.setHeader("etag", tag_of_document(text))
        return write_json(request, {"revision": book.revision, "unknown_checks": unknown})

    # ---------------------------------------------------------------------------------------------- questions

    @app.route("/api/v1/runs", methods=["POST"])
    async def runs(self, request: Any) -> bytes:
        """Lines of JSON: first {"targets": N}, then one target a line as they become known; the end is the end."""
        body = await read_body(request)
        check, args = read_check(body), read_object(body, "args")
        timeout = read_asking_time(body)
        try:
            fits = len(encode_args(args)) <= MAX_BLOB
        except UnicodeEncodeError as error:
            raise Problem(400, "bad request", f"`args` holds what is no text: {error.reason}") from error
        if not fits:
            raise Problem(400, "bad request", f"`args` has more than {MAX_BLOB} bytes")
        patterns = read_patterns(body, "on")
        targets = self._targets(patterns)
        request.subject = f"{check} on {' '.join(patterns)}"
        if wants_dry_run(request, body):
            return write_json(request, shown.would_ask(targets))
        return await Question(self._helen, request).ask(check, targets, args, timeout)

    # ---------------------------------------------------------------------------------------------- shown

    def _targets(self, patterns: Iterable[str]) -> list[Agent]:
        """Whom to ask; a Problem if that is nobody, or nobody can be asked now."""
        targets = self._helen.house.roster.askable(patterns)
        if not targets:
            raise Problem(404, "no such agent", f"no agent fits {' or '.join(patterns)}: `helen agents` lists them")
        if len(self._helen.house.runs) >= MAX_RUNS:
            raise RunRefused(f"{MAX_RUNS} questions are open already; wait for some to end")
        return targets

    def _find(self, name: str) -> Agent:
        agent = self._helen.house.roster.agents.get(name)
        if agent is None:
            raise Problem(404, "no such agent", f"no agent is called {name!r}: `helen agents` lists them")
        return agent

    def _agent(self, agent: Agent) -> dict[str, Any]:
        return shown.show_agent(agent, self._helen.library.offered(agent.name), time.time())


class Question:
    """One `helen run` over HTTP: a line for each target, and nobody asked in vain once the asker has hung up."""

    def __init__(self, helen: Helen, request: Any) -> None:
        self._helen = helen
        self._request = request
        self._done: Deferred[bytes] = Deferred()
        self._gone = False
        self._run: Run | None = None
        self._written = 0

    def ask(self, check: str, targets: list[Agent], args: dict[str, Any] | bytes, timeout: float) -> Deferred[bytes]:
        self._request.notifyFinish().addErrback(self._hung_up)
        self._request.setHeader("content-type", "application/x-ndjson")
        self._write({"targets": len(targets)})
        self._run = self._helen.house.ask(check, targets, args, timeout, self._target, self._end)
        if self._gone:
            self._helen.house.runs.abandon(self._run)
        return self._done

    def _target(self, target: Target) -> None:
        self._write(target.to_json())

    def _end(self) -> None:
        if not self._done.called:
            self._done.callback(b"")

    def _write(self, document: dict[str, Any]) -> None:
        if self._gone:
            return
        line = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        self._written += len(line)
        if self._written > MAX_UNREAD:
            self._written = unsent(self._request.transport, self._written - len(line)) + len(line)
            if self._written > MAX_UNREAD:
                self._request.transport.abortConnection()
                return
        self._request.write(line)

    def _hung_up(self, _failure: Any) -> None:
        self._gone = True
        if self._run is not None:
            self._helen.house.runs.abandon(self._run)
        self._end()


judgement.add_routes(Api.app)
notifications.add_routes(Api.app)
history.add_routes(Api.app)
jobs.add_routes(Api.app)
health.add_routes(Api.app)
admin.add_routes(Api.app)
events.add_routes(Api.app)
metrics.add_routes(Api.app)
reporting.add_routes(Api.app)
pings.add_routes(Api.app)
one_shots.add_routes(Api.app, Question)
alertmanager.add_routes(Api.app)
files.add_routes(Api.app)
pushes.add_routes(Api.app)
draining.add_routes(Api.app)
rollouts.add_routes(Api.app)
add_error_answers(Api.app)


def newer_results(agents: Iterable[Agent], since: float, kept: bool) -> list[tuple[str, Latest]]:
    """In a thread: a great fleet has 100,000, which take a while to be sorted."""
    found = [(agent.name, each) for agent in agents for each in list(agent.latest.values())
             if each.received > since and (kept or not each.kept)]  # fmt: skip
    return sorted(found, key=place_of)


def place_of(result: tuple[str, Latest]) -> tuple[float, str, str]:
    name, latest = result
    return latest.received, name, latest.check_id


def show_result(result: tuple[str, Latest]) -> dict[str, Any]:
    return {"agent": result[0]} | shown.show_latest(result[1])


def read_check(body: dict[str, Any]) -> str:
    """The name of a check, as a `check` line can carry it."""
    check = read_text(body, "check")
    if check.startswith(once.RESERVED):
        raise Problem(400, "bad request", f"{check[:80]!r} is no check: such names are the protocol's own")
    try:
        encode(Check(check, 1, b""), Role.HELEN)
    except LocalProtocolError as error:
        raise Problem(400, "bad request", f"no check can be called {check[:80]!r}: {error}") from error
    return check
