"""Routes of Alertmanager's API, version 2: silences, which are downtimes, silences and acknowledgements here.

docs/alertmanager.rst says what is what.
"""

from __future__ import annotations

import time
from collections.abc import Coroutine, Mapping
from typing import Any
from uuid import uuid4

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from helen.parts import Parts
from helen.states.downtimes import Window, read_window
from helen.states.matchers import Matcher, read_matcher
from helen.states.model import Key, State
from helen.web.alertmanager.requests import answer_plainly, read_filter, read_json_value
from helen.web.alertmanager.silences import (
    ack_id,
    matchers_of,
    read_time,
    silence_of_ack,
    silence_of_window,
    uuid_of,
)
from helen.web.answers import write_json
from helen.web.problems import Problem, bad_request
from helen.web.request import ApiRequest
from helen.web.route import V2, Routes
from helen.web.routes.windows import MAX_WINDOWS, ONE_BY_ONE, demand_within, seen_windows, within_limit
from helen.web.sight.window_sight import seen_keys

routes = Routes()
ORDER = {"active": 0, "pending": 1, "expired": 2}


@routes.foreign("GET", f"{V2}/silences", "read", "Alertmanager: downtimes, silences, acknowledgements")
async def list_silences(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with silences that fit `?filter=`."""
    return await answer_plainly(request, _list(parts, request))


@routes.foreign("POST", f"{V2}/silences", "window", "Alertmanager: open or change a silence", action="window")
async def put_silence(parts: Parts, request: ApiRequest) -> bytes:
    """Open a silence, or change one that is there."""
    return await answer_plainly(request, _one_by_one(_put(parts, request)))


@routes.foreign("GET", f"{V2}/silence/<name>", "read", "Alertmanager: one of them")
async def get_silence(parts: Parts, request: ApiRequest, name: str) -> bytes:
    """Answer with one silence."""
    found = next((each for each in await _silences(parts, request) if each["id"] == name), None)
    return write_json(request, f"no silence {name}", 404) if found is None else write_json(request, found)


@routes.foreign("DELETE", f"{V2}/silence/<name>", "window-cancel", "Alertmanager: end one", action="window-cancel")
async def expire_silence(parts: Parts, request: ApiRequest, name: str) -> bytes:
    """End a downtime, a silence or an acknowledgement."""
    return await answer_plainly(request, _one_by_one(_expire(parts, request, name)))


async def _one_by_one(command: Coroutine[Deferred[Any], Any, bytes]) -> bytes:
    """Await a command as every command about windows: what it has seen is what it changes."""
    return await ONE_BY_ONE.run(lambda: Deferred.fromCoroutine(command))


async def _list(parts: Parts, request: ApiRequest) -> bytes:
    wanted = read_filter(request)
    listed = [
        each for each in await _silences(parts, request)
        if all(matcher.matches({m["name"]: m["value"] for m in each["matchers"]}) for matcher in wanted)
    ]  # fmt: skip
    return write_json(request, listed)


async def _silences(parts: Parts, request: ApiRequest) -> list[dict[str, Any]]:
    """Return all silences: those in force, those to come, and those that have ended lately."""
    timeline, now = parts.evaluator.timeline, time.time()
    windows, ended = dict(timeline.windows), list(timeline.ended)
    sight = parts.visible(request.caller)

    def made() -> list[dict[str, Any]]:
        states = timeline.copied()
        here, over = windows, {window.id: (window, at) for window, at in ended if window.id not in windows}
        acked = [key for key, state in states.items() if state.ack is not None]
        if sight is not None:
            past = seen_windows(parts.evaluator, {name: window for name, (window, _) in over.items()}, sight)
            here = seen_windows(parts.evaluator, windows, sight)
            over = {name: (past[name], over[name][1]) for name in past}
            acked = seen_keys(acked, sight)
        found = [silence_of_window(window, now) for window in here.values()]
        found += [silence_of_ack(key, states[key], now) for key in acked]
        found += [silence_of_window(window, now, at) for window, at in over.values()]
        return sorted(found, key=lambda each: (ORDER[each["status"]["state"]], each["endsAt"]))

    return await deferToThread(made)


async def _put(parts: Parts, request: ApiRequest) -> bytes:
    """Write a new silence, or another end, comment or scope of one that is there."""
    body = await read_json_value(request)
    if not isinstance(body, dict) or not isinstance(body.get("matchers"), list) or not body["matchers"]:
        raise bad_request("a silence has matchers, startsAt, endsAt, createdBy and comment")
    matchers = tuple(read_matcher(each) for each in body["matchers"])
    windows, now, name = parts.evaluator.timeline.windows, time.time(), body.get("id") or ""
    before = await _find(parts, request, str(name)) if name else None
    if name and before is None:
        raise Problem(404, "not found", f"no silence {name} is in force; an acknowledgement is changed by `helen ack`")
    if before is None and len(windows) >= MAX_WINDOWS:
        raise Problem(409, "too many", f"there are {MAX_WINDOWS} downtimes and silences: cancel some")
    window = read_window(_document(body, before, matchers, now), now)
    if window.until is not None and window.until <= now:
        raise bad_request("endsAt lies in the past")
    request.subject = window.id
    window = within_limit(request, window, before, parts.visible(request.caller))
    await parts.commands.write(window.kind, {"action": "add", **window.to_json()})
    return write_json(request, {"silenceID": uuid_of(window.id)})


def _document(body: dict[str, Any], before: Window | None, matchers: tuple[Matcher, ...], now: float) -> dict[str, Any]:
    begin, until = (read_time(body.get(name), name) for name in ("startsAt", "endsAt"))
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


async def _seen_by(parts: Parts, request: ApiRequest, windows: dict[str, Window]) -> dict[str, Window]:
    sight = parts.visible(request.caller)
    return windows if sight is None else await deferToThread(seen_windows, parts.evaluator, dict(windows), sight)


async def _find(parts: Parts, request: ApiRequest, name: str) -> Window | None:
    """Return the window of this id, or of this UUID, if it is in sight and in force still."""
    windows = parts.evaluator.timeline.windows
    seen = await _seen_by(parts, request, windows)
    if name in seen:
        return windows.get(name)
    found = await deferToThread(_id_of_uuid, list(seen), name)
    return None if found is None else windows.get(found)


def _id_of_uuid(ids: list[str], uuid: str) -> str | None:
    """Return the id that has this UUID; None if there is none. For a thread: it may look at 10,000 ids."""
    return next((each for each in ids if uuid_of(each) == uuid), None)


def _acknowledged(states: Mapping[Key, State], name: str) -> Key | None:
    """Return the check with the acknowledgement of this id; None if there is none. For a thread: all are looked at."""
    acked = (key for key, state in states.items() if state.ack is not None)
    return next((key for key in acked if ack_id(key) == name), None)


async def _expire(parts: Parts, request: ApiRequest, name: str) -> bytes:
    timeline, actor = parts.evaluator.timeline, request.caller.actor
    sight = parts.visible(request.caller)
    window = await _find(parts, request, name)
    if window is not None:
        demand_within(request, window, sight)
        await parts.commands.write(window.kind, {"action": "cancel", "id": window.id, "author": actor})
        return write_json(request, {})
    key = await deferToThread(lambda: _acknowledged(timeline.copied(), name))
    is_acked = key is not None and (now := timeline.states.get(key)) is not None and now.ack is not None
    if key is None or not is_acked or (sight is not None and not sight(key[0])):
        raise Problem(404, "not found", f"no silence {name} is in force")
    await parts.commands.write("ack", {"action": "clear", "owner": actor}, *key)
    return write_json(request, {})
