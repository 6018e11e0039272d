"""Routes of Alertmanager's API, version 2, as far as amtool and Karma use it. docs/alertmanager.rst says what is what.

Faults are answered in its shape, a JSON string, because that is what its tools print.
"""

from __future__ import annotations

import json
import time
from collections.abc import Coroutine
from typing import Any
from uuid import uuid4

from klein import Klein
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from helen import alertmanager
from helen.alertmanager import Facts, View, Wanted, ack_id, matchers_of, uuid_of
from helen.changing import NotDurable
from helen.expressions import BadExpression, read_expression
from helen.journal.values import JournalError
from helen.judged import State
from helen.matchers import Matcher, read_matcher, read_matchers
from helen.submissions import NoSubmission, NotAllowed, NotDeclared, NotReported, Submission
from helen.timeline import Key
from helen.web.access import credential
from helen.web.bodies import MAX_BODY
from helen.web.judgement import MAX_WINDOWS, WINDOWS
from helen.web.problems import Problem, write_json
from helen.web.reporting import as_problem, judge_reporter
from helen.windows import Window, WindowRefused, read_window

V2 = "/api/v2"
MAX_ALERTS = 1_000  # of one POST: Prometheus sends 64 at a time
MAX_SHOWN = 20_000  # alerts that one answer has: a fleet that broke as a whole, some 10 MB of JSON
SEVERITIES = {"warning": "warning", "critical": "critical", "error": "critical", "page": "critical", "ok": "ok",
              "none": "ok", "info": "ok", "unknown": "unknown"}  # fmt: skip


def add_routes(app: Klein) -> None:
    """Put them beside those of helen/web/api.py, whose object is the first argument."""

    @app.route(f"{V2}/status", methods=["GET"])
    async def am_status(api: Any, request: Any) -> bytes:
        helen = api._helen
        info = {"branch": "helen", "buildDate": "", "buildUser": "", "goVersion": "", "revision": helen.version}
        return write_json(request, {
            "cluster": {"name": "", "peers": [], "status": "disabled"},
            "config": {"original": alertmanager.configuration(helen.notifier.book.config)},
            "uptime": alertmanager.started(helen.started_at),
            "versionInfo": info | {"version": alertmanager.VERSION},
        })  # fmt: skip

    @app.route(f"{V2}/receivers", methods=["GET"])
    def am_receivers(api: Any, request: Any) -> bytes:
        return write_json(request, alertmanager.receivers(api._helen.notifier.book.config))

    @app.route(f"{V2}/alerts", methods=["GET"])
    async def am_alerts(api: Any, request: Any) -> bytes:
        return await _plainly(request, _alerts(api, request, False))

    @app.route(f"{V2}/alerts/groups", methods=["GET"])
    async def am_groups(api: Any, request: Any) -> bytes:
        return await _plainly(request, _alerts(api, request, True))

    @app.route(f"{V2}/alerts", methods=["POST"])
    async def am_post_alerts(api: Any, request: Any) -> bytes:
        """Alerts of others are results from outside: `agent` (or `host`, `instance`) and `check` (or `alertname`)."""
        return await _plainly(request, _take_alerts(api, request))

    @app.route(f"{V2}/silences", methods=["GET"])
    async def am_silences(api: Any, request: Any) -> bytes:
        return await _plainly(request, _silences(api, request))

    @app.route(f"{V2}/silences", methods=["POST"])
    async def am_post_silence(api: Any, request: Any) -> bytes:
        return await _plainly(request, _one_by_one(_put_silence(api, request)))

    @app.route(f"{V2}/silence/<name>", methods=["GET"])
    async def am_silence(api: Any, request: Any, name: str) -> bytes:
        found = next((each for each in await _all_silences(api) if each["id"] == name), None)
        return _word(request, 404, f"no silence {name}") if found is None else write_json(request, found)

    @app.route(f"{V2}/silence/<name>", methods=["DELETE"])
    async def am_expire(api: Any, request: Any, name: str) -> bytes:
        return await _plainly(request, _one_by_one(_expire(api, request, name)))


async def _plainly(request: Any, answer: Any) -> bytes:
    """The answer, or what is wrong as their tools read it."""
    try:
        made: bytes = await answer
        return made
    except Problem as problem:
        return _word(request, problem.status, str(problem))
    except NotReported as error:
        return _word(request, as_problem(request, error).status, str(error))
    except (NotDurable, JournalError) as error:
        return _word(request, 503, str(error))
    except (WindowRefused, BadExpression, ValueError) as error:
        return _word(request, 400, str(error))


async def _one_by_one(command: Coroutine[Any, Any, bytes]) -> bytes:
    """As every command about windows: what it has seen is what it changes."""
    made: bytes = await WINDOWS.run(lambda: Deferred.fromCoroutine(command))
    return made


def _word(request: Any, status: int, text: str) -> bytes:
    return write_json(request, text, status)


async def _read_json(request: Any) -> Any:
    try:
        return await deferToThread(json.loads, request.content.read(MAX_BODY))
    except (ValueError, RecursionError) as error:
        raise Problem(400, "bad request", f"the body is no JSON: {error}") from error


# ------------------------------------------------------------------------------------------------ alerts


def _view(api: Any) -> View:
    helen = api._helen

    def facts(key: Key) -> Facts:
        return Facts(*helen.house.facts_of(*key))

    return View(dict(helen.judge.timeline.states), facts, helen.notifier.book.config, time.time())


async def _alerts(api: Any, request: Any, grouped: bool) -> bytes:
    wanted, view = _wanted(request), _view(api)

    def made() -> bytes:
        found = [pair for pair in alertmanager.alerts(view, view.states) if wanted.takes(pair[1])]
        if len(found) > MAX_SHOWN:
            raise Problem(400, "too many", f"{len(found)} alerts: ask for some, with filter")
        listed = alertmanager.groups(view.config, found) if grouped else [alert for _, alert in found]
        return json.dumps(listed, ensure_ascii=False).encode() + b"\n"

    answer = await deferToThread(made)
    request.setHeader("content-type", "application/json")
    return answer


def _wanted(request: Any) -> Wanted:
    receiver = _argument(request, "receiver")
    try:
        is_named = read_expression(receiver).fullmatch if receiver else lambda name: True
    except BadExpression as error:
        raise Problem(400, "bad request", str(error)) from error
    flags = {name: _flag(request, name) for name in ("active", "silenced", "inhibited")}
    return Wanted(**flags, matchers=_filter(request), receiver=is_named)


def _filter(request: Any) -> tuple[Matcher, ...]:
    texts = [value.decode("utf-8", "replace") for value in request.args.get(b"filter", [])]
    return tuple(matcher for text in texts for matcher in read_matchers(text))


def _argument(request: Any, name: str) -> str:
    return str(request.args.get(name.encode(), [b""])[0].decode("utf-8", "replace"))


def _flag(request: Any, name: str) -> bool:
    return _argument(request, name).lower() not in ("false", "0")


async def _take_alerts(api: Any, request: Any) -> bytes:
    listed = await _read_json(request)
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise NoSubmission("a list of alerts is expected")
    if len(listed) > MAX_ALERTS:
        raise NoSubmission(f"at most {MAX_ALERTS} alerts come in one request")
    submissions = [_submission(each, time.time()) for each in listed]
    for each in submissions:
        judge_reporter(api, request, each.host, credential(request))
    refused: list[NotReported] = []
    for each in submissions:
        try:
            await api._helen.outside.submit(each)
        except (NotDeclared, NotAllowed) as error:
            refused.append(NoSubmission(str(error)))  # their tools know no 404 here
        except NotReported as error:
            refused.append(error)
    if refused:
        raise refused[0]
    return write_json(request, {})


def _submission(alert: dict[str, Any], now: float) -> Submission:
    """The year 1 says that a time is not set, as Go has it."""
    labels, notes = alert.get("labels"), alert.get("annotations") or {}
    if not isinstance(labels, dict) or not isinstance(notes, dict):
        raise NoSubmission("an alert has `labels`")
    host = labels.get("agent") or labels.get("host") or str(labels.get("instance", "")).partition(":")[0]
    check = labels.get("check") or labels.get("alertname")
    if not isinstance(host, str) or not isinstance(check, str) or not host or not check:
        raise NoSubmission("an alert of others is a result here: it has a label agent, host or instance, and alertname")
    ends = _moment(alert, "endsAt")
    is_over = ends is not None and ends <= now
    status = "ok" if is_over else SEVERITIES.get(str(labels.get("severity", "critical")).lower(), "critical")
    summary = notes.get("summary") or notes.get("description") or notes.get("message") or f"{check} fires"
    document = {"status": status, "summary": "it is over" if is_over else str(summary)}
    link = alert.get("generatorURL")
    document |= {"output": link} if isinstance(link, str) and link else {}
    within = None if ends is None or is_over else ends - now
    return Submission(host, check, document, "alertmanager", None, within, "the alert ends by itself")


def _moment(alert: dict[str, Any], name: str) -> float | None:
    text = alert.get(name)
    if not text or str(text).startswith("0001"):
        return None
    try:
        return alertmanager.read_time(text, name)
    except ValueError as error:
        raise NoSubmission(str(error)) from error


# ------------------------------------------------------------------------------------------------ silences


async def _all_silences(api: Any) -> list[dict[str, Any]]:
    judge, now = api._helen.judge, time.time()
    windows, ended = dict(judge.timeline.windows), list(judge.timeline.ended)
    states = dict(judge.timeline.states)

    def made() -> list[dict[str, Any]]:
        found = [alertmanager.silence_of_window(window, now) for window in windows.values()]
        over = {window.id: (window, at) for window, at in ended if window.id not in windows}
        found += [
            alertmanager.silence_of_ack(key, state, now) for key, state in states.items() if state.ack is not None
        ]
        found += [alertmanager.silence_of_window(window, now, at) for window, at in over.values()]
        order = {"active": 0, "pending": 1, "expired": 2}
        return sorted(found, key=lambda each: (order[each["status"]["state"]], each["endsAt"]))

    listed: list[dict[str, Any]] = await deferToThread(made)
    return listed


async def _silences(api: Any, request: Any) -> bytes:
    wanted = _filter(request)
    listed = [
        each for each in await _all_silences(api)
        if all(matcher.matches({m["name"]: m["value"] for m in each["matchers"]}) for matcher in wanted)
    ]  # fmt: skip
    return write_json(request, listed)


async def _put_silence(api: Any, request: Any) -> bytes:
    """A new one, or another end, comment or scope of one that is there."""
    body = await _read_json(request)
    if not isinstance(body, dict) or not isinstance(body.get("matchers"), list) or not body["matchers"]:
        raise Problem(400, "bad request", "a silence has matchers, startsAt, endsAt, createdBy and comment")
    matchers = tuple(read_matcher(each) for each in body["matchers"])
    judge, now, name = api._helen.judge, time.time(), body.get("id") or ""
    before = _find_window(judge.timeline.windows, str(name)) if name else None
    if name and before is None:
        raise Problem(404, "not found", f"no silence {name} is in force; an acknowledgement is changed by `helen ack`")
    if before is None and len(judge.timeline.windows) >= MAX_WINDOWS:
        raise Problem(409, "too many", f"there are {MAX_WINDOWS} downtimes and silences: cancel some")
    window = read_window(_document(body, before, matchers, now), now)
    if window.until is not None and window.until <= now:
        raise Problem(400, "bad request", "endsAt lies in the past")
    request.subject = window.id
    await api._helen.changes.write(window.kind, {"action": "add", **window.to_json()})
    return write_json(request, {"silenceID": uuid_of(window.id)})


def _document(body: dict[str, Any], before: Window | None, matchers: tuple[Matcher, ...], now: float) -> dict[str, Any]:
    begin, until = (alertmanager.read_time(body.get(name), name) for name in ("startsAt", "endsAt"))
    document: dict[str, Any] = {"id": str(uuid4()), "kind": "silence", "begin": max(begin, now), "created": now}
    if before is not None:
        if before.recurrence is not None:
            raise ValueError(f"{before.id} recurs: `helen {before.kind} --id {before.id}` changes it")
        document = before.to_json()
        document["begin"] = before.begin if before.begin <= now else max(begin, now)
    if before is None or matchers_of(before.scope) != matchers:
        document |= {"agents": ["*"], "checks": ["*"], "labels": {}, "matchers": [each.to_json() for each in matchers]}
    author, comment = body.get("createdBy"), body.get("comment")
    document |= {"author": str(author or "")[:200], "comment": str(comment or "")[:2_000], "until": until}
    return document


def _find_window(windows: dict[str, Window], name: str) -> Window | None:
    return windows.get(name) or next((each for each in windows.values() if uuid_of(each.id) == name), None)


async def _expire(api: Any, request: Any, name: str) -> bytes:
    helen, actor = api._helen, request.caller.actor
    window = _find_window(helen.judge.timeline.windows, name)
    if window is not None:
        await helen.changes.write(window.kind, {"action": "cancel", "id": window.id, "author": actor})
        return write_json(request, {})
    key = next((key for key, state in helen.judge.timeline.states.items() if _has_ack(key, state, name)), None)
    if key is None:
        raise Problem(404, "not found", f"no silence {name} is in force")
    await helen.changes.write("ack", {"action": "clear", "owner": actor}, *key)
    return write_json(request, {})


def _has_ack(key: Key, state: State, name: str) -> bool:
    return state.ack is not None and ack_id(key) == name
