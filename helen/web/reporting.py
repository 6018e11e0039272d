"""Routes of results from outside: our own JSON, Icinga's action, NRDP; and what may report. docs/passive.rst has them.

These let callers in by themselves: a token of the API with the scope `operate`, or a key that is good for one host.
Tools that know only Basic authentication send either as the password.
"""

from __future__ import annotations

import math
from typing import Any
from xml.sax.saxutils import escape

from klein import Klein
from twisted.internet.threads import deferToThread

from equus_protocol.results import STATUS_WORDS
from helen.conventions import LONGEST_TTL, read_icinga, read_nrdp_json, read_nrdp_xml
from helen.outside import Outside
from helen.submissions import NoSubmission, NotAllowed, NotDeclared, NotReported, NotTaken, Submission, TooOften
from helen.textbook import Outdated, version_of
from helen.web.access import credential
from helen.web.bodies import read_body, read_optional_text, read_seconds, read_text, wants_dry_run
from helen.web.problems import Problem, write_json

MAX_NRDP = 2 * 1024 * 1024  # bytes of XML or JSON: 1,000 results of 2 KB, some 50 ms in a thread
STATUS: dict[type[NotReported], tuple[int, str]] = {
    NoSubmission: (400, "bad request"),
    NotDeclared: (404, "not declared"),
    NotAllowed: (409, "the agent's own"),
    TooOften: (429, "too often"),
    NotTaken: (503, "not taken"),
}


def judge_reporter(api: Any, request: Any, host: str, shown: str) -> None:
    """Whether whoever calls may report for this host; raises Problem."""
    outside: Outside = api._helen.outside
    name = host if host in outside.config.hosts else host.lower()
    if request.caller.may("operate") or outside.keys.is_good(outside.config, name, shown):
        return
    request.setHeader("www-authenticate", 'Basic realm="helen"')
    raise Problem(
        401, "refused", "send the submission key of the host (`helen passive key HOST` prints it), or a token with the"
        " scope `operate`: as a bearer token, or as the password",
    )  # fmt: skip


def as_problem(request: Any, error: NotReported) -> Problem:
    """What the API answers to it."""
    status, title = STATUS[type(error)]
    if isinstance(error, TooOften):
        request.setHeader("retry-after", str(math.ceil(error.wait)))
    return Problem(status, title, str(error))


def given_id(request: Any) -> str | None:
    """By which a result that is sent again is known."""
    value = (request.getHeader(b"idempotency-key") or b"").decode("utf-8", "replace")
    return value or None


def add_routes(app: Klein) -> None:
    """Put them beside those of helen/web/api.py, whose object is the first argument."""

    @app.route("/api/v1/passive/results", methods=["POST"])
    async def report(api: Any, request: Any) -> bytes:
        """`host`, `check`, `status`; `summary`, `output`, `metrics`, `took_ms`, `started`, `source`, `ttl`, `id`."""
        body = await read_body(request)
        host, check = read_text(body, "host"), read_text(body, "check")
        judge_reporter(api, request, host, credential(request))
        try:
            taken = await api._helen.outside.submit(_own(body, host, check, given_id(request)))
        except NotReported as error:
            raise as_problem(request, error) from error
        return write_json(request, {"host": host, "check": check, "duplicate": not taken}, 201 if taken else 200)

    @app.route("/v1/actions/process-check-result", methods=["POST"])
    async def process_check_result(api: Any, request: Any) -> bytes:
        """Icinga's action, with its shape of answers."""
        try:
            return await _icinga(api, request)
        except Problem as problem:
            return write_json(request, {"error": problem.status, "status": str(problem)}, problem.status)
        except NotReported as error:
            status = as_problem(request, error).status
            return write_json(request, {"error": status, "status": str(error)}, status)

    @app.route("/nrdp", methods=["GET", "POST"], strict_slashes=False)
    @app.route("/nrdp/", methods=["GET", "POST"], strict_slashes=False)
    async def nrdp(api: Any, request: Any) -> bytes:
        """NRDP answers 200 to everything; what became of it is in the document."""
        is_json = _argument(request, "JSONDATA") is not None
        try:
            status, words = await _nrdp(api, request)
        except (Problem, NotReported) as error:
            status, words = -1, (str(error), "")
        return _nrdp_answer(request, is_json, status, *words)

    @app.route("/api/v1/passive", methods=["GET"])
    async def passive(api: Any, request: Any) -> bytes:
        outside: Outside = api._helen.outside
        text = await outside.book.text()
        request.setHeader("etag", f'"{version_of(text)}"')
        return write_json(request, show_passive(outside) | {"text": text, "version": version_of(text)})

    @app.route("/api/v1/passive", methods=["PUT"])
    async def declare(api: Any, request: Any) -> bytes:
        """`text` is the whole of passive.toml, null takes it away; `version`, if given, is what it was before."""
        body = await read_body(request)
        text, version = body.get("text"), read_optional_text(body, "version")
        if text is not None and not isinstance(text, str):
            raise Problem(400, "bad request", "`text` is the whole of passive.toml")
        made = await write_book(api._helen.outside.book, text, version, wants_dry_run(request, body), request)
        return write_json(request, {"version": made, "fault": None})

    @app.route("/api/v1/passive/keys/<host>", methods=["GET"])
    def submission_key(api: Any, request: Any, host: str) -> bytes:
        """What a host shows with its results; `*` is for all."""
        outside: Outside = api._helen.outside
        if host != "*" and host not in outside.config.hosts:
            raise Problem(404, "no such host", f"no host is called {host!r}: `helen passive list` has them")
        return write_json(request, {"host": host, "key": outside.keys.of_host(outside.config, host)})

    @app.route("/api/v1/passive/pings/<host>/<path:check>", methods=["GET"])
    def ping_url(api: Any, request: Any, host: str, check: str) -> bytes:
        outside: Outside = api._helen.outside
        declared = outside.config.named.get(host, {}).get(check)
        if declared is None or not declared.is_ping:
            raise Problem(404, "no such ping", f"no ping is called {host}/{check}: `helen ping list` has them")
        path = f"/ping/{outside.keys.ping(declared)}"
        named = f"/ping/{outside.keys.ping_key(outside.config)}/{check}"
        return write_json(request, {"host": host, "id": check, "path": path, "named": named, "web": api._helen.web})


async def write_book(book: Any, text: str | None, version: str | None, dry_run: bool, request: Any) -> str:
    """Write a file of settings; `If-Match` counts as `version` does."""
    match = (request.getHeader(b"if-match") or b"").decode("latin-1")
    wanted = match.strip().strip('"') if match and match.strip() != "*" else version
    try:
        made: str = await (book.judge(text, wanted) if dry_run else book.rewrite(text, wanted))
    except Outdated as error:
        raise Problem(412, "changed meanwhile", str(error)) from error
    except book.refusal as error:
        raise Problem(400, f"{book.path.stem} refused", str(error)) from error
    request.setHeader("etag", f'"{made}"')
    return made


def show_passive(outside: Outside) -> dict[str, Any]:
    """What may report, without secrets."""
    config = outside.config
    listed = [
        {
            "host": each.host, "id": each.id, "stale": each.stale, "missing": STATUS_WORDS[each.missing],
            "override": each.override, "every": each.every, "grace": each.grace if each.is_ping else None,
        }
        for host in sorted(config.hosts)
        for each in (*config.named.get(host, {}).values(), *config.patterns.get(host, ()))
    ]  # fmt: skip
    hosts = [{"name": host.name, "labels": host.labels} for _, host in sorted(config.hosts.items())]
    return {"fault": outside.book.fault, "hosts": hosts, "checks": listed}


def _own(body: dict[str, Any], host: str, check: str, given: str | None) -> Submission:
    status = body.get("status")
    word = STATUS_WORDS[status] if type(status) is int and 0 <= status < len(STATUS_WORDS) else status
    if word not in STATUS_WORDS:
        raise NoSubmission(f"`status` is one of {', '.join(STATUS_WORDS)}, or 0 to 3")
    kept = ("summary", "output", "metrics", "started", "took_ms", "source", "reason")
    document = {"status": word} | {name: body[name] for name in kept if body.get(name) is not None}
    within = read_seconds(body, "ttl", 0.0) if body.get("ttl") is not None else None
    if within is not None and not 0 < within <= LONGEST_TTL:
        raise NoSubmission("`ttl` is more than 0 and at most a year")
    given = read_optional_text(body, "id") or given
    return Submission(host, check, document, "api", given, within, "by its ttl" if within else "")


async def _icinga(api: Any, request: Any) -> bytes:
    body = {name.decode("utf-8", "replace"): values[0].decode("utf-8", "replace")
            for name, values in request.args.items() if b"{" not in name}  # fmt: skip
    body |= await read_body(request)
    read = read_icinga(body, given_id(request))
    judge_reporter(api, request, read.submission.host, credential(request))
    await api._helen.outside.submit(read.submission)
    said = f"Successfully processed check result for object '{read.target}'."
    return write_json(request, {"results": [{"code": 200, "status": said}]})


# ------------------------------------------------------------------------------------------------ NRDP


def _argument(request: Any, *names: str) -> str | None:
    for name in names:
        values = request.args.get(name.encode())
        if values:
            return str(values[0].decode("utf-8", "replace"))
    return None


async def _nrdp(api: Any, request: Any) -> tuple[int, tuple[str, str]]:
    """Status, message, and the word for what was done."""
    token = _argument(request, "token") or credential(request)
    if not token and not request.caller.may("operate"):
        raise Problem(401, "refused", "NO TOKEN: `helen passive key HOST` prints one")
    if _argument(request, "cmd") != "submitcheck":
        raise NoSubmission("BAD CMD: cmd=submitcheck is what can be done here")
    xml, text = _argument(request, "XMLDATA", "xml"), _argument(request, "JSONDATA", "json")
    if xml is None and text is None:
        raise NoSubmission("NO DATA: XMLDATA or JSONDATA has the results")
    given = (text if text is not None else xml) or ""
    if len(given) > MAX_NRDP:
        raise NoSubmission(f"BAD DATA: at most {MAX_NRDP} bytes come in one request")
    read = read_nrdp_json if text is not None else read_nrdp_xml
    listed = await deferToThread(read, given, given_id(request))
    refused: list[str] = []
    for each in listed:
        try:
            judge_reporter(api, request, each.host, token)
        except Problem as problem:
            raise Problem(401, "refused", f"BAD TOKEN: it is not one of {each.host[:80]}") from problem
    for each in listed:
        try:
            await api._helen.outside.submit(each)
        except NotReported as error:
            refused.append(str(error))
    done = f"{len(listed) - len(refused)} checks processed."
    if refused:
        done += f" {len(refused)} refused: {refused[0]}"
    return (0, ("OK", done)) if len(refused) < len(listed) else (-1, (refused[0], done))


def _nrdp_answer(request: Any, is_json: bool, status: int, message: str, done: str) -> bytes:
    if is_json:
        return write_json(request, {"result": {"status": status, "message": message, "meta": {"output": done}}})
    request.setHeader("content-type", "text/xml; charset=utf-8")
    meta = f"<meta><output>{escape(done)}</output></meta>" if done else ""
    return (
        f'<?xml version="1.0" encoding="utf-8"?>\n<result>\n<status>{status}</status>\n'
        f"<message>{escape(message)}</message>\n{meta}\n</result>\n"
    ).encode()
