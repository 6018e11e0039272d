"""The JSON HTTP API under /api/v1: what Helen knows, and what she may be told to do. docs/api.rst lists it.

Routes read and answer; what they ask for is done elsewhere. Nothing here blocks.
"""

from __future__ import annotations

import json
import math
import time
from typing import TYPE_CHECKING, Any

from klein import Klein
from twisted.internet.defer import Deferred

from equus_protocol.results import STATUS_WORDS
from helen.durations import seconds
from helen.lint import Verdict
from helen.rollout import read_fraction
from helen.roster import Agent, Latest
from helen.runs import MAX_ASKED_SECONDS, Run, Target
from helen.web.problems import Problem, add_error_answers, write_json

if TYPE_CHECKING:
    from helen.tap import Helen

MAX_BODY = 8 * 1024 * 1024  # bytes of a request: a push of a folder of checks
DEFAULT_TIMEOUT = 30.0  # seconds of a question


class Api:
    """Bound to one Helen; the same object serves the Unix socket and TCP."""

    app = Klein()

    def __init__(self, helen: Helen) -> None:
        self._helen = helen

    @app.route("/api/v1/status")
    def status(self, request: Any) -> bytes:
        helen, house = self._helen, self._helen.house
        agents = house.roster.agents.values()
        published = helen.library.published
        counted = dict.fromkeys(STATUS_WORDS, 0)
        for agent in agents:
            for latest in agent.latest.values():
                counted[STATUS_WORDS[latest.status]] += 1
        return write_json(
            request,
            {
                "version": helen.version,
                "started": helen.started_at,
                "agents": {"known": len(agents), "connected": len(house.roster.connected())},
                "checks": counted,
                "manifest": None if published is None else {"version": published.version, "digest": published.digest},
                "assignments": {"revision": helen.book.revision, "fault": helen.book.fault},
                "journal": {"segment": helen.journal.segment, "backlog": helen.journal.backlog_bytes},
                "questions": len(house.runs),
                "counts": house.counts | {"asked": house.dispatch.asked, "skipped": house.dispatch.skipped},
            },
        )

    @app.route("/api/v1/agents")
    def agents(self, request: Any) -> bytes:
        patterns = [value.decode("utf-8", "replace") for value in request.args.get(b"on", [])]
        found = self._helen.house.roster.matching(patterns or ["*"])
        listed = [self._agent(agent) for agent in sorted(found, key=lambda agent: agent.name)]
        return write_json(request, {"agents": listed})

    @app.route("/api/v1/agents/<name>")
    def agent(self, request: Any, name: str) -> bytes:
        agent = self._find(name)
        shown = self._agent(agent) | {
            "files": agent.files,
            "results": [show_latest(latest) for latest in sorted(agent.latest.values(), key=lambda r: r.check_id)],
            "schedule": [
                {"id": e.id, "check": e.check, "every": e.every, "timeout": e.timeout, "args": e.args}
                for e in self._helen.house.schedule_of(agent)
            ],
        }
        return write_json(request, shown)

    @app.route("/api/v1/agents/<name>/revoke", methods=["POST"])
    def revoke(self, request: Any, name: str) -> Deferred[bytes]:
        done = self._helen.authority.revoke(name, time.time())
        return done.addCallback(lambda count: write_json(request, {"agent": name, "revoked": count}))

    @app.route("/api/v1/checks")
    def checks(self, request: Any) -> bytes:
        library = self._helen.library
        published = library.published
        files = published.document.files if published is not None else {}
        listed = []
        for name, entry in sorted(files.items()):
            table = library.tables.get(name.removesuffix(".lua"))
            if name.startswith("lib/") or table is None:
                continue
            listed.append(
                {
                    "name": table.name,
                    "summary": table.summary,
                    "every": table.every,
                    "timeout": table.timeout,
                    "needs": list(table.needs),
                    "args": table.args,
                    "sha256": entry.sha256,
                    "kept_old": name in library.kept_old,
                }
            )
        problems = [
            {"file": name, "line": p.line, "severity": p.severity, "text": p.text}
            for name, found in sorted(library.problems.items())
            for p in found
        ]
        version = published.version if published is not None else None
        return write_json(request, {"version": version, "checks": listed, "problems": problems})

    @app.route("/api/v1/tokens", methods=["POST"])
    def tokens(self, request: Any) -> Deferred[bytes]:
        body = read_body(request)
        name, ttl = body.get("agent"), read_seconds(body, "ttl", 3_600.0)
        made = self._helen.authority.make_token(time.time(), name, ttl)
        return made.addCallback(
            lambda token: write_json(request, {"token": token, "address": self._helen.address, "ttl": ttl}, 201)
        )

    @app.route("/api/v1/certificates", methods=["POST"])
    def certificates(self, request: Any) -> Deferred[bytes]:
        body = read_body(request)
        name, csr = read_text(body, "name"), read_text(body, "csr")
        issued = self._helen.authority.issue(name, csr, time.time())

        def answer(enrolled: Any) -> bytes:
            self._helen.house.roster.know(name)
            shown = {"certificate": enrolled.certificate, "ca": enrolled.ca, "renew_after": enrolled.renew_after}
            keys = self._helen.house.signing_keys
            return write_json(request, shown | {"signing_keys": keys, "address": self._helen.address}, 201)

        return issued.addCallback(answer)

    @app.route("/api/v1/assignments", methods=["GET"])
    def assignments(self, request: Any) -> Deferred[bytes]:
        book = self._helen.book
        return book.text().addCallback(
            lambda text: write_json(request, {"text": text, "revision": book.revision, "fault": book.fault})
        )

    @app.route("/api/v1/assignments", methods=["PUT"])
    def assign(self, request: Any) -> Deferred[bytes]:
        text = read_text(read_body(request), "text")
        done = self._helen.book.rewrite(text, "operator")
        return done.addCallback(lambda _: write_json(request, {"revision": self._helen.book.revision}))

    # ---------------------------------------------------------------------------------------------- questions

    @app.route("/api/v1/runs", methods=["POST"])
    def runs(self, request: Any) -> Deferred[bytes] | bytes:
        """Lines of JSON: first {"targets": N}, then one target a line as they become known; the end is the end."""
        body = read_body(request)
        check, patterns = read_text(body, "check"), body.get("on")
        patterns = [patterns] if isinstance(patterns, str) else patterns
        if not isinstance(patterns, list) or not all(isinstance(pattern, str) for pattern in patterns):
            raise Problem(400, "bad request", "`on` is a name, a pattern such as web*, KEY=VALUE, or a list of them")
        args = body.get("args") or {}
        if not isinstance(args, dict):
            raise Problem(400, "bad request", "`args` is a JSON object")
        timeout = read_seconds(body, "timeout", DEFAULT_TIMEOUT)
        if not 0 < timeout <= MAX_ASKED_SECONDS:
            raise Problem(400, "bad request", f"`timeout` is more than 0 and at most {MAX_ASKED_SECONDS:g} s")
        targets = self._helen.house.roster.matching(patterns)
        if not targets:
            raise Problem(404, "no such agent", f"no agent fits {' or '.join(patterns)}: `helen agents` lists them")
        return Question(self._helen, request).ask(check, targets, args, timeout)

    # ---------------------------------------------------------------------------------------------- pushes

    @app.route("/api/v1/push", methods=["GET"])
    def pushed(self, request: Any) -> bytes:
        """How far the newest set has come, and what waits for a signature."""
        library = self._helen.library
        newest, staged = library.canary or library.published, library.staged
        shown: dict[str, Any] = {"version": None, "staged": None, "ring": None, "can_sign": bool(library.private)}
        if newest is not None:
            shown |= {"version": newest.version, "digest": newest.digest, **self._progress(newest.digest)}
        ring = library.ring or library.last_ring
        if ring is not None:
            shown["ring"] = {
                "version": ring.version,
                "members": sorted(ring.members),
                "confirmed": sorted(ring.confirmed),
                "state": ring.verdict or "open",
                "why": ring.why,
            }
        if staged is not None:
            files = {name: entry.sha256 for name, entry in staged.files.items()}
            waiting = {"version": staged.version, "manifest": staged.manifest.decode(), "undo": staged.undo.decode()}
            shown["staged"] = waiting | {"files": files}
        return write_json(request, shown)

    @app.route("/api/v1/push", methods=["POST"])
    def push(self, request: Any) -> Deferred[bytes]:
        """Files by name; with `dry_run` they are judged and nothing changes."""
        body = read_body(request)
        files, tests = read_files(body, "files"), read_files(body, "tests")
        dry_run = body.get("dry_run") is True
        done = self._helen.library.push(files, tests, "operator", read_share(body), dry_run)

        def answer(verdicts: dict[str, Verdict]) -> bytes:
            warnings = [problem.at(name) for name, found in verdicts.items() for problem in found.problems]
            newest = self._helen.library.canary or self._helen.library.published
            shown = {"version": newest.version if newest is not None else None, "warnings": warnings}
            return write_json(request, shown, 200 if dry_run else 201)

        return done.addCallback(answer)

    @app.route("/api/v1/push/signed", methods=["POST"])
    def push_signed(self, request: Any) -> Deferred[bytes]:
        body = read_body(request)
        envelope, undo = read_text(body, "manifest").encode(), read_text(body, "undo").encode()
        done = self._helen.library.accept(envelope, undo, "operator", read_share(body))
        return done.addCallback(lambda version: write_json(request, {"version": version}, 201))

    @app.route("/api/v1/push/undo", methods=["POST"])
    def push_undo(self, request: Any) -> Deferred[bytes]:
        done = self._helen.library.undo("operator")
        return done.addCallback(lambda version: write_json(request, {"version": version}, 201))

    def _progress(self, digest: str) -> dict[str, Any]:
        connected = [agent for agent in self._helen.house.roster.connected() if agent.version == 2]
        refused = {
            agent.name: {name: f.get("error") for name, f in agent.files.items() if f.get("state") != "active"}
            for agent in connected
            if agent.digest == digest
        }
        return {
            "agents": len(connected),
            "loaded": sum(agent.digest == digest for agent in connected),
            "kept_old": {name: files for name, files in refused.items() if files},
        }

    # ---------------------------------------------------------------------------------------------- shown

    def _find(self, name: str) -> Agent:
        agent = self._helen.house.roster.agents.get(name)
        if agent is None:
            raise Problem(404, "no such agent", f"no agent is called {name!r}: `helen agents` lists them")
        return agent

    def _agent(self, agent: Agent) -> dict[str, Any]:
        published = self._helen.library.offered(agent.name)
        counted = dict.fromkeys(STATUS_WORDS, 0)
        for latest in agent.latest.values():
            counted[STATUS_WORDS[latest.status]] += 1
        return {
            "name": agent.name,
            "connected": agent.link is not None,
            "since": agent.connected_at,
            "last_seen": time.time() if agent.link is not None else agent.last_seen,
            "address": agent.address,
            "protocol": agent.version or None,
            "equus": agent.equus_version,
            "labels": agent.labels,
            "host": agent.host,
            "isolation": agent.isolation,
            "policy": agent.policy,
            "clock_offset": agent.clock_offset,
            "spool": agent.spool,
            "current": published is not None and agent.digest == published.digest,
            "checks": counted,
        }


class Question:
    """One `helen run` over HTTP: a line for each target, and nobody asked in vain once the asker has hung up."""

    def __init__(self, helen: Helen, request: Any) -> None:
        self._helen = helen
        self._request = request
        self._done: Deferred[bytes] = Deferred()
        self._gone = False
        self._run: Run | None = None

    def ask(self, check: str, targets: list[Agent], args: dict[str, Any], timeout: float) -> Deferred[bytes]:
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
        if not self._gone:
            self._request.write(json.dumps(document, ensure_ascii=False).encode() + b"\n")

    def _hung_up(self, _failure: Any) -> None:
        self._gone = True
        if self._run is not None:
            self._helen.house.runs.abandon(self._run)
        self._end()


add_error_answers(Api.app)


def show_latest(latest: Latest) -> dict[str, Any]:
    """The last result of a check, as the API shows it."""
    return {
        "check_id": latest.check_id,
        "status": STATUS_WORDS[latest.status],
        "summary": latest.summary,
        "received": latest.received,
        "since": latest.since,
        "reason": latest.reason,
        "code": latest.code,
        "took_ms": latest.took_ms,
        "metrics": [
            {"name": x.name, "value": x.value, "unit": x.unit, "labels": x.labels, "warn": x.warn, "crit": x.crit}
            for x in latest.metrics
        ],
    }


def read_body(request: Any) -> dict[str, Any]:
    """The JSON object of a request; an empty body is an empty object."""
    raw = request.content.read(MAX_BODY + 1)
    if len(raw) > MAX_BODY:
        raise Problem(413, "too large", f"a request holds at most {MAX_BODY} bytes")
    try:
        body = json.loads(raw or b"{}")
    except (ValueError, RecursionError) as error:
        raise Problem(400, "bad request", f"the body is no JSON: {error}") from error
    if not isinstance(body, dict):
        raise Problem(400, "bad request", "the body is no JSON object")
    return body


def read_text(body: dict[str, Any], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str) or not value:
        raise Problem(400, "bad request", f"`{key}` is missing, or no text")
    return value


def read_files(body: dict[str, Any], key: str) -> dict[str, bytes]:
    files = body.get(key) or {}
    if not isinstance(files, dict) or not all(isinstance(text, str) for text in files.values()):
        raise Problem(400, "bad request", f"`{key}` is an object of file names and their text")
    return {name: text.encode("utf-8", "surrogateescape") for name, text in files.items()}


def read_share(body: dict[str, Any]) -> float | None:
    """`canary`: the share of the agents that run it first, or None for all at once."""
    if body.get("canary") is None:
        return None
    try:
        return read_fraction(str(body["canary"]))
    except ValueError as error:
        raise Problem(400, "bad request", f"`canary`: {error}") from error


def read_seconds(body: dict[str, Any], key: str, default: float) -> float:
    try:
        value = seconds(body.get(key, default))
    except ValueError as error:
        raise Problem(400, "bad request", f"`{key}`: {error}") from error
    if not math.isfinite(value):
        raise Problem(400, "bad request", f"`{key}` is no duration")
    return value
