"""Routes of judgement: states, explanations, acknowledgements, downtimes and silences. docs/api.rst lists them.

A command is checked here against what is there now, written into the journal, and answered when it is durable.
"""

from __future__ import annotations

import json
import time
from itertools import islice
from secrets import token_hex
from typing import Any

from klein import Klein
from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.threads import deferToThread

from equus_protocol.results import STATUS_WORDS
from helen.dispatch import next_due
from helen.explaining import AROUND, DAY, Facts, explain
from helen.journal.values import Origin
from helen.judge import Judge
from helen.judged import PENDING, State
from helen.looking_back import Lookback
from helen.replaying import Past
from helen.timeline import Key
from helen.web.board import Wanted, is_well, show_state, write_board
from helen.web.bodies import read_body, read_optional_text, read_text, wants_dry_run
from helen.web.cursors import read_page
from helen.web.preconditions import demand
from helen.web.problems import Problem, write_json
from helen.web.rows import write_pieces
from helen.web.tags import tag_of_document
from helen.windows import MAX_COMMENT, Window, WindowRefused, on_at, read_window, spans

MAX_WINDOWS = 10_000  # downtimes and silences at one time; each is held against every check
PREVIEW_SPANS = 10  # of a recurring window
PREVIEW_CHECKS = 200  # names of checks that a preview lists; all of them are counted
WINDOWS = DeferredLock()  # one command about windows at a time, from its look at what is there to the disk
RESULTS_SHOWN = 10  # results that an explanation looks at


def _show_window(judge: Judge, window: Window) -> dict[str, Any]:
    return window.to_json() | {"active": window.id in judge.timeline.active}


def add_routes(app: Klein) -> None:
    """Put them beside those of helen/web/api.py, whose object is the first argument.

    Klein finds a route by the name of its function, so each of these has one that is nobody else's.
    """

    @app.route("/api/v1/states", methods=["GET"])
    async def judged_states(api: Any, request: Any) -> bytes:
        """Those of `?agent=`, of `?status=`, or of `?all=true`; else those that are not ok, or not sure to be."""
        wanted, given = read_wanted(request)
        page = read_page(request, "states", (str, str), given)
        helen, place = api._helen, None if page.after is None else (page.after[0], page.after[1])
        at = helen.events.id_of(helen.judge.at)  # before the first row: what comes meanwhile is in events since then

        def end(last: Key | None) -> bytes:
            following = None if last is None else page.next(last)
            return f', "at": {json.dumps(at)}, "next": {json.dumps(following)}}}\n'.encode()

        rows = helen.board.rows(wanted, place)
        return await write_pieces(request, lambda write, gone: write_board(rows, page.limit, write, end, gone),
                                  whole=page.limit is not None)  # fmt: skip

    @app.route("/api/v1/states/<agent>/<path:check>", methods=["GET"])
    def judged_state(api: Any, request: Any, agent: str, check: str) -> bytes:
        return write_json(request, show_state(api._helen.judge, *_known(api, agent, check)))

    @app.route("/api/v1/explain/<agent>/<path:check>", methods=["GET"])
    async def explanation(api: Any, request: Any, agent: str, check: str) -> bytes:
        """`?at=` is a moment in unix seconds; without it: now."""
        text = _argument(request, "at")
        try:
            at = time.time() if text is None else float(text)
        except ValueError as error:
            raise Problem(400, "bad request", "`at` is a time in unix seconds") from error
        if not 0 <= at < 4e9:
            raise Problem(400, "bad request", "`at` is a time in unix seconds, not milliseconds")
        facts = _facts(api, (agent, check), at, is_now=text is None)
        recent = list(api._helen.judge.recent)
        return write_json(request, await deferToThread(_look_back, api._helen.state, facts, recent))

    @app.route("/api/v1/acks", methods=["POST"])
    async def acknowledge(api: Any, request: Any) -> bytes:
        """`agent`, `check`, `owner`; `comment`, `until` (unix seconds) and `sticky` if wanted."""
        body = await read_body(request)
        key = _known(api, read_text(body, "agent"), read_text(body, "check"))
        held = api._helen.judge.timeline.states[key]
        if held.shown.status == 0 or held.hard.reason == PENDING:
            raise Problem(409, "nothing to acknowledge", f"{key[0]}/{key[1]} is not known to be broken")
        document = {
            "action": "set", "owner": read_text(body, "owner")[:200], "until": _until(body),
            "comment": (read_optional_text(body, "comment") or "")[:MAX_COMMENT], "sticky": body.get("sticky") is True,
        }  # fmt: skip
        return await _written(api, request, body, "ack", document, key)

    @app.route("/api/v1/acks/clear", methods=["POST"])
    async def take_back_ack(api: Any, request: Any) -> bytes:
        body = await read_body(request)
        key = _known(api, read_text(body, "agent"), read_text(body, "check"))
        if api._helen.judge.timeline.states[key].ack is None:
            raise Problem(409, "not acknowledged", f"nobody has acknowledged {key[0]}/{key[1]}")
        owner = read_optional_text(body, "owner") or "operator"
        return await _written(api, request, body, "ack", {"action": "clear", "owner": owner[:200]}, key)

    @app.route("/api/v1/windows", methods=["GET"])
    def list_windows(api: Any, request: Any) -> bytes:
        """Downtimes and silences that are on, or will be."""
        judge: Judge = api._helen.judge
        page = read_page(request, "windows", (str,))
        rows, following = page.cut(sorted(judge.timeline.windows), lambda name: (name,))
        listed = [_show_window(judge, judge.timeline.windows[name]) for name in rows]
        return write_json(request, {"windows": listed, "next": following})

    @app.route("/api/v1/windows/<name>", methods=["GET"])
    def one_window(api: Any, request: Any, name: str) -> bytes:
        judge: Judge = api._helen.judge
        window = _window(judge, name)
        return write_json(request, _show_window(judge, window), tag=_tag(window))

    @app.route("/api/v1/windows", methods=["POST"])
    async def open_window(api: Any, request: Any) -> bytes:
        """The fields of helen/windows.py; in a dry run it is a preview and nothing happens."""
        body = await read_body(request)
        now, dry_run = time.time(), wants_dry_run(request, body)
        body.pop("dry_run", None)
        body.setdefault("id", token_hex(4))
        try:
            window = read_window(body, now)
        except WindowRefused as error:
            raise Problem(400, "window refused", str(error)) from error
        if window.until is not None and window.until <= now:
            raise Problem(400, "window refused", "`until` lies in the past")
        request.subject = window.id
        return await WINDOWS.run(lambda: Deferred.fromCoroutine(_open(api, request, window, now, dry_run)))

    @app.route("/api/v1/windows/<name>/cancel", methods=["POST"])
    async def cancel_window(api: Any, request: Any, name: str) -> bytes:
        body = await read_body(request)
        author = (read_optional_text(body, "author") or "operator")[:200]
        dry_run = wants_dry_run(request, body)
        return await WINDOWS.run(lambda: Deferred.fromCoroutine(_cancel(api, request, name, author, dry_run)))


async def _open(api: Any, request: Any, window: Window, now: float, dry_run: bool) -> bytes:
    """With the lock: what the precondition has seen is what is replaced."""
    judge: Judge = api._helen.judge
    held = judge.timeline.windows.get(window.id)
    demand(request, None if held is None else _tag(held), f"the window {window.id!r}")
    if len(judge.timeline.windows) >= MAX_WINDOWS and held is None:
        raise Problem(409, "too many", f"there are {MAX_WINDOWS} downtimes and silences: cancel some")
    shown = await deferToThread(_preview, judge, dict(judge.timeline.states), window, now)
    if not dry_run:
        await api._helen.changes.write(window.kind, {"action": "add", **window.to_json()})
    request.setHeader("etag", _tag(window))
    return write_json(request, shown, 200 if dry_run else 201)


async def _cancel(api: Any, request: Any, name: str, author: str, dry_run: bool) -> bytes:
    window = _window(api._helen.judge, name)
    demand(request, _tag(window), f"the window {name!r}")
    if not dry_run:
        await api._helen.changes.write(window.kind, {"action": "cancel", "id": name, "author": author})
    return write_json(request, {"id": name, "kind": window.kind, "cancelled": True})


def _window(judge: Judge, name: str) -> Window:
    window = judge.timeline.windows.get(name)
    if window is None:
        raise Problem(404, "no such window", f"no downtime or silence is called {name!r}")
    return window


def _tag(window: Window) -> str:
    return tag_of_document(window.to_json())


def read_wanted(request: Any) -> tuple[Wanted, list[str]]:
    """Which states, and the same in words. Raises Problem."""
    agent = _argument(request, "agent")
    words = sorted({value.decode("utf-8", "replace") for value in request.args.get(b"status", [])})
    unknown = [word for word in words if word not in STATUS_WORDS]
    if unknown:
        raise Problem(400, "bad request", f"{unknown[0]!r} is no status: {', '.join(STATUS_WORDS)}")
    everything = (_argument(request, "all") or "false").lower()
    if everything not in ("true", "false"):
        raise Problem(400, "bad request", "`all` is true or false")
    statuses = {STATUS_WORDS.index(word) for word in words}
    if not words and (everything == "true" or agent is not None):
        statuses = set(range(len(STATUS_WORDS)))
    return Wanted(agent, frozenset(statuses) or None), [agent or "", everything, *words]


def _argument(request: Any, name: str) -> str | None:
    values = request.args.get(name.encode())
    return values[0].decode("utf-8", "replace") if values else None


def _known(api: Any, agent: str, check_id: str) -> Key:
    if (agent, check_id) not in api._helen.judge.timeline.states:
        raise Problem(404, "no such check", f"nothing is known of {agent}/{check_id}: see `helen status {agent}`")
    return agent, check_id


def _until(body: dict[str, Any]) -> float | None:
    until = body.get("until")
    if until is None:
        return None
    if isinstance(until, bool) or not isinstance(until, int | float) or not time.time() < until < 4e9:
        raise Problem(400, "bad request", "`until` is a time in unix seconds that is still to come")
    return float(until)


async def _written(
    api: Any, request: Any, body: dict[str, Any], kind: str, document: dict[str, Any], key: Key
) -> bytes:
    request.subject = "/".join(key)
    if not wants_dry_run(request, body):
        await api._helen.changes.write(kind, document, *key)
    return write_json(request, {"agent": key[0], "check_id": key[1], **document}, 200)


def _preview(judge: Judge, states: dict[Key, State], window: Window, now: float) -> dict[str, Any]:
    """What it would cover now, and when. In a thread, on a copy of the states."""
    covered = [key for key in states if judge.timeline.covers(window, key)]
    broken = [key for key in covered if not is_well(states[key])]
    return {
        "window": window.to_json(),
        "active": on_at(window, now) is not None,
        "spans": [list(span) if span[1] < float("inf") else [span[0], None]
                  for span in islice(spans(window, now), PREVIEW_SPANS)],
        "covers": {"checks": len(covered), "agents": len({agent for agent, _ in covered})},
        "not_ok": [f"{agent}/{check_id}" for agent, check_id in sorted(broken)[:PREVIEW_CHECKS]],
    }  # fmt: skip


def _facts(api: Any, key: Key, at: float, is_now: bool) -> Facts:
    """What is in memory; the history is read in a thread."""
    judge, house = api._helen.judge, api._helen.house
    agent, clock = house.roster.agents.get(key[0]), judge.timeline.clocks.get(key[0])
    state = judge.timeline.states.get(key)
    if agent is None or (state is None and is_now):
        _known(api, *key)
        raise Problem(404, "no such agent", f"no agent is called {key[0]!r}: `helen agents` lists them")
    entry = next((each for each in house.supply.schedule_of(agent) if each.id == key[1]), None)
    return Facts(
        *key, at, state if is_now else None, judge.timeline.rule(key), entry, agent.connected_at,
        agent.last_seen, None if clock is None else clock.offset, judge.timeline.ignored.get(key, ()),
        None if entry is None else next_due(entry, at),
    )  # fmt: skip


def _look_back(state: Any, facts: Facts, recent: list[Past]) -> dict[str, Any]:
    """In a thread: what the segments have, and what is too young for them."""
    history = Lookback(state / "history")
    begin, end = facts.at - DAY, facts.at + AROUND
    changes = {past.at: past for past in history.changes(begin, end)}
    changes |= {past.at: past for past in recent if past.result is None and begin <= past.received <= end}
    results = {past.at: past for past in history.results(facts.agent, facts.check_id, facts.at, RESULTS_SHOWN)}
    results |= {
        past.at: past for past in recent
        if past.result is not None and (past.agent, past.check_id) == (facts.agent, facts.check_id)
        and past.received <= facts.at and past.origin != Origin.ASKED
    }  # fmt: skip
    facts = facts.with_history(
        [changes[at] for at in sorted(changes)], [results[at] for at in sorted(results, reverse=True)][:RESULTS_SHOWN]
    )
    return explain(facts)
