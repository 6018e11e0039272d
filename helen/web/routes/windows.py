"""Routes of downtimes and silences: the list, one of them, opening and ending one. docs/api.rst lists them.

A command is checked here against what is there now, written into the journal, and answered when it is durable.
"""

from __future__ import annotations

import time
from itertools import islice
from secrets import token_hex
from typing import Annotated, Any, NotRequired, TypedDict

from msgspec import UNSET, Meta, UnsetType
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from groundwork.globs import why_too_much
from groundwork.one_by_one import OneByOne
from helen.agents.sight import Sight
from helen.evaluation.evaluator import Evaluator
from helen.parts import Parts
from helen.states.downtimes import Window, WindowRefused, on_at, read_window, spans
from helen.states.model import Key, State
from helen.web.answers import write_json
from helen.web.bodies import Body, read_json, wants_dry_run
from helen.web.body_fields import OptionalText, read_optional_seconds
from helen.web.cursors import read_page
from helen.web.etags import demand, tag_of_document
from helen.web.json_types import Object, WindowKind
from helen.web.problems import Problem, bad_request
from helen.web.request import ApiRequest
from helen.web.route import V1, Routes
from helen.web.sight.limits import limited
from helen.web.sight.window_sight import is_within, narrowed, seen_keys, seen_window
from helen.web.state_rows import is_well
from helen.web.web_parts import WebParts
from helen.web.window_effects import PastMessages, past_messages, told_by_end

routes = Routes()
MAX_WINDOWS = 10_000  # downtimes and silences at one time; each is held against every check
MAX_AUTHOR = 200  # characters of an author's name that are kept
PREVIEW_SPANS = 10  # of a recurring window
PREVIEW_CHECKS = 200  # names of checks that a preview lists; all of them are counted
LONGEST_PAST = 30 * 86_400.0  # seconds that a preview looks back
ONE_BY_ONE = OneByOne()  # one command about windows at a time, from its look at what is there to the disk
UNKNOWN = {404: "no such window"}


class RecurrenceJson(TypedDict):
    """Says on which days, and at which local times, a window recurs."""

    begin: str
    end: str
    zone: NotRequired[str]
    days: NotRequired[list[str]]


class WindowJson(TypedDict):
    """Describes a downtime or a silence. Times are unix seconds."""

    id: str
    kind: WindowKind
    agents: list[str]
    checks: list[str]
    labels: dict[str, str]
    matchers: NotRequired[list[Object]]
    keys: NotRequired[list[list[str]]]
    begin: float
    until: float | None
    recurrence: RecurrenceJson | None
    author: str
    comment: str
    active: NotRequired[bool]


class WindowsJson(TypedDict):
    """Lists downtimes and silences, a page of them."""

    windows: list[WindowJson]
    next: str | None


class CoveredCounts(TypedDict):
    """Counts checks, those that a window covers or all, and their agents."""

    checks: int
    agents: int


class WindowPreview(TypedDict):
    """Describes a window, the times at which it is on (unix seconds), and what it covers of the fleet now.

    `past`: the messages that it would have held, for a dry run that asks for them; null if that can't be told now.
    """

    window: WindowJson
    active: bool
    spans: list[list[float | None]]
    covers: CoveredCounts
    fleet: CoveredCounts
    not_ok: list[str]
    past: NotRequired[PastMessages | None]


class ToldAtOnce(TypedDict):
    """Counts the checks of which people are told at once, and names the first of them."""

    checks: int
    names: list[str]


class Cancelled(TypedDict):
    """Names the window that has ended. `tells`: what people are told of by that, in a dry run."""

    id: str
    kind: str
    cancelled: bool
    tells: NotRequired[ToldAtOnce]


class OpenWindow(Body, frozen=True, kw_only=True):
    """Opens a downtime or a silence, or replaces the one with this id. Times are unix seconds.

    `past`: for a dry run, how far back to look for messages that it would have held, 30 days at most.
    """

    kind: WindowKind
    id: Annotated[str, Meta(pattern="^[A-Za-z0-9._-]{1,64}$")] | UnsetType = UNSET
    agents: list[str] | UnsetType = UNSET
    checks: list[str] | UnsetType = UNSET
    labels: dict[str, str] | UnsetType = UNSET
    matchers: list[Object] | UnsetType = UNSET
    keys: list[list[str]] | UnsetType = UNSET
    begin: float | UnsetType = UNSET
    until: float | UnsetType | None = UNSET
    recurrence: RecurrenceJson | UnsetType | None = UNSET
    author: str | UnsetType = UNSET
    comment: str | UnsetType = UNSET
    past: float | str | UnsetType = UNSET


class CancelWindow(Body, frozen=True, kw_only=True):
    """Ends a downtime or a silence."""

    author: OptionalText = None


@routes.get(f"{V1}/windows", "read", "Downtimes and silences", answer=WindowsJson, paged=True)
async def list_windows(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with downtimes and silences that are on, or will be."""
    windows = await windows_in_sight(parts, request, dict(parts.evaluator.timeline.windows))
    rows, following = read_page(request, "windows", (str,)).cut(sorted(windows), lambda name: (name,))
    listed = [_show(parts.evaluator, windows[name]) for name in rows]
    return write_json(request, {"windows": listed, "next": following})


@routes.get(f"{V1}/windows/<name>", "read", "One of them", answer=WindowJson, errors=UNKNOWN)
async def get_window(parts: Parts, request: ApiRequest, name: str) -> bytes:
    """Answer with one downtime or silence, and its ETag."""
    window = await find_window(parts, request, name)
    return write_json(request, _show(parts.evaluator, window), tag=window_tag(window))


@routes.post_raw(
    f"{V1}/windows", "window", "Open a downtime or silence", body=OpenWindow, answer=WindowPreview, status=201,
    action="window", replaces=True, errors={400: "bad request, or window refused", 409: "too many"},
)  # fmt: skip
async def open_window(parts: WebParts, request: ApiRequest) -> bytes:
    """Open a window; a dry run is a preview. Raises Problem for a window that can't be.

    helen/states/downtimes.py reads the fields, since files of other Helens have the same ones.
    """
    body = await read_json(request)
    now, dry_run = time.time(), wants_dry_run(request, body)
    past = read_optional_seconds(body, "past")
    if past is not None and not (dry_run and 0 < past <= LONGEST_PAST):
        raise bad_request("`past` is for a dry run, and 30 days at most")
    for name in ("dry_run", "past"):
        body.pop(name, None)
    body.setdefault("id", token_hex(4))
    try:
        window = read_window(body, now)
    except WindowRefused as error:
        raise Problem(400, "window refused", str(error)) from error
    for field in (window.scope.agents, window.scope.checks):  # not in read_window: older ones are read as they are
        if why := why_too_much(field):
            raise Problem(400, "window refused", f"one of `agents` and `checks` {why}")
    if window.until is not None and window.until <= now:
        raise Problem(400, "window refused", "`until` lies in the past")
    request.subject = window.id
    made, shown = await ONE_BY_ONE.run(lambda: Deferred.fromCoroutine(_open(parts, request, window, now, dry_run)))
    if past is not None:
        shown |= {"past": await past_messages(parts, made, past, now, parts.visible(request.caller))}
    return write_json(request, shown, 200 if dry_run else 201)


@routes.post(
    f"{V1}/windows/<name>/cancel", "window-cancel", "End one", body=CancelWindow, answer=Cancelled,
    action="window-cancel", replaces=True, errors=UNKNOWN,
)  # fmt: skip
async def cancel_window(parts: Parts, request: ApiRequest, body: CancelWindow, name: str) -> bytes:
    """End a window before its time."""
    return await ONE_BY_ONE.run(lambda: Deferred.fromCoroutine(_cancel(parts, request, body, name)))


async def _open(
    parts: Parts, request: ApiRequest, window: Window, now: float, dry_run: bool
) -> tuple[Window, dict[str, Any]]:
    """Write a window, with the lock: what the precondition has seen is what is replaced.

    Returns it, narrowed to the caller's limit, with its preview.
    """
    timeline, sight = parts.evaluator.timeline, parts.visible(request.caller)
    held = timeline.windows.get(window.id)
    window = within_limit(request, window, held, sight)
    demand(request, None if held is None else window_tag(held), f"the window {window.id!r}")
    if len(timeline.windows) >= MAX_WINDOWS and held is None:
        raise Problem(409, "too many", f"there are {MAX_WINDOWS} downtimes and silences: cancel some")
    shown: dict[str, Any] = await deferToThread(_preview, parts.evaluator, window, now, sight)
    if not dry_run:
        await parts.commands.write(window.kind, {"action": "add", **window.to_json()})
    request.setHeader("etag", window_tag(window))
    return window, shown


async def _cancel(parts: Parts, request: ApiRequest, body: CancelWindow, name: str) -> bytes:
    window = await find_window(parts, request, name)
    demand(request, window_tag(window), f"the window {name!r}")
    demand_within(request, parts.evaluator.timeline.windows.get(name, window), parts.visible(request.caller))
    author = (body.author or "operator")[:MAX_AUTHOR]
    if not body.dry_run:
        await parts.commands.write(window.kind, {"action": "cancel", "id": name, "author": author})
    shown: Cancelled = {"id": name, "kind": window.kind, "cancelled": True}
    if body.dry_run:
        timeline = parts.evaluator.timeline
        held, states = timeline.windows.get(name, window), await states_in_sight(parts, request)
        told = await deferToThread(told_by_end, timeline, states, held, time.time())
        shown["tells"] = {"checks": len(told), "names": [f"{agent}/{check}" for agent, check in told[:PREVIEW_CHECKS]]}
    return write_json(request, shown)


def within_limit(request: ApiRequest, window: Window, held: Window | None, sight: Sight | None) -> Window:
    """Return a window that the caller may open, narrowed to its limit. Raises Problem 403 if that can't be written."""
    if sight is None:
        return window
    if held is not None:
        demand_within(request, held, sight)
    made = narrowed(window, sight)
    if made is None:
        on = ", ".join(sight.on)
        raise limited(f"{request.caller.actor} is limited to {on}: give the window agents, keys or labels within that")
    return made


def demand_within(request: ApiRequest, window: Window, sight: Sight | None) -> None:
    """Raise Problem 403 for a window that reaches beyond the caller's limit."""
    if sight is not None and not is_within(window, sight):
        on = ", ".join(sight.on)
        raise limited(f"{request.caller.actor} is limited to {on}: the {window.kind} {window.id} reaches beyond that")


async def states_in_sight(parts: Parts, request: ApiRequest) -> dict[Key, State]:
    """Return a copy of the states of agents that the caller sees; a thread makes it."""
    return await deferToThread(_seen_states, parts.evaluator, parts.visible(request.caller))


def _seen_states(evaluator: Evaluator, sight: Sight | None) -> dict[Key, State]:
    states = evaluator.timeline.copied()
    return states if sight is None else {key: states[key] for key in seen_keys(states, sight)}


async def windows_in_sight(parts: Parts, request: ApiRequest, windows: dict[str, Window]) -> dict[str, Window]:
    """Return the windows that the caller sees; a thread looks for those of a limit."""
    sight = parts.visible(request.caller)
    return windows if sight is None else await deferToThread(seen_windows, parts.evaluator, windows, sight)


def seen_windows(evaluator: Evaluator, windows: dict[str, Window], sight: Sight) -> dict[str, Window]:
    """Return the windows that hold a check of visible agents, each with that part of its scope. Blocks: in a thread."""
    keys = seen_keys(evaluator.timeline.copied(), sight)
    covers = evaluator.timeline.covers
    found = ((name, seen_window(window, sight, keys, covers)) for name, window in windows.items())
    return {name: window for name, window in found if window is not None}


async def find_window(parts: Parts, request: ApiRequest, name: str) -> Window:
    """Return a window as the caller sees it. Raises Problem 404 for one that is not there, or out of sight."""
    held = parts.evaluator.timeline.windows.get(name)
    window = None if held is None else (await windows_in_sight(parts, request, {name: held})).get(name)
    if window is None:
        raise Problem(404, "no such window", f"no downtime or silence is called {name!r}")
    return window


def _show(evaluator: Evaluator, window: Window) -> dict[str, Any]:
    return window.to_json() | {"active": window.id in evaluator.timeline.active}


def window_tag(window: Window) -> str:
    """Return the ETag of a window: another one of the same id has another."""
    return tag_of_document(window.to_json())


def _preview(
    evaluator: Evaluator, window: Window, now: float, sight: Sight | None
) -> dict[str, Any]:  # fmt: skip
    """Return the checks that a window would cover now, and when it would be on. In a thread."""
    states = _seen_states(evaluator, sight)
    covered = [key for key in states if evaluator.timeline.covers(window, key)]
    broken = [key for key in covered if not is_well(states[key])]
    return {
        "window": window.to_json(),
        "active": on_at(window, now) is not None,
        "spans": [list(span) if span[1] < float("inf") else [span[0], None]
                  for span in islice(spans(window, now), PREVIEW_SPANS)],
        "covers": {"checks": len(covered), "agents": len({agent for agent, _ in covered})},
        "fleet": {"checks": len(states), "agents": len({agent for agent, _ in states})},
        "not_ok": [f"{agent}/{check_id}" for agent, check_id in sorted(broken)[:PREVIEW_CHECKS]],
    }  # fmt: skip
