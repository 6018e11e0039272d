"""Serves the pages of downtimes and silences: those that are on, those to come, those that have ended, and the form for
one.

static/windows.js shows a preview while the form is filled in, and what an end tells at once; without it all of this is
there to read.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from attrs import define, field
from twisted.internet.threads import deferToThread

from helen.states.downtimes import Window
from helen.states.model import DOWNTIME, SILENCE, Key, State
from helen.web.pages.answer import write_page
from helen.web.pages.window_words import Shown, ended_windows, shown_window
from helen.web.past.newest_changes import newest_changes
from helen.web.problems import Problem
from helen.web.query import first_text, texts
from helen.web.request import ApiRequest
from helen.web.route import Query, Routes
from helen.web.routes.windows import find_window, states_in_sight, window_tag, windows_in_sight
from helen.web.state_rows import is_well
from helen.web.web_parts import WebParts

routes = Routes()
PAST = 30 * 86_400.0  # seconds of which ended windows are shown
MOST = 200  # windows of a list that are shown
NAMES = 12  # checks of a window that are named
FORM = (
    Query("on", str, "agents by name, pattern or KEY=PATTERN", many=True), Query("check", str, "checks", many=True),
    Query("keys", str, "an exact check, as AGENT/CHECK", many=True), Query("for", str, "how long, such as 2h"),
    Query("kind", str, "downtime or silence"), Query("id", str, "the one to change"),
)  # fmt: skip


@define
class Held:
    """Counts the checks that a window holds now, and names those of them that are not ok."""

    checks: int = 0
    agents: set[str] = field(factory=set)
    bad: list[tuple[Key, int]] = field(factory=list)


@routes.page("/windows", "read", "Downtimes and silences")
async def windows_page(parts: WebParts, request: ApiRequest) -> bytes:
    """Answer with downtimes and silences: on now, to come, and ended in the last 30 days."""
    now, timeline = time.time(), parts.evaluator.timeline
    windows, active = await windows_in_sight(parts, request, dict(timeline.windows)), set(timeline.active)
    held = await deferToThread(held_by_windows, await states_in_sight(parts, request))
    shown = await deferToThread(lambda: [shown_window(each, each.id in active, now) for each in windows.values()])
    on = sorted((each for each in shown if each.active), key=lambda each: (each.end or float("inf"), each.window.id))
    later = sorted(
        (each for each in shown if not each.active), key=lambda each: (each.begin or float("inf"), each.window.id)
    )
    is_part = first_text(request, "part") == "now"  # made again with each change of a state: it leaves the past out
    ended, since, fault = ([], now, "") if is_part else await _ended(parts, request, now)
    return await write_page(
        parts, request, "windows", on=on[:MOST], later=later[:MOST], ended=ended[:MOST], since=since, fault=fault,
        left=max(0, len(on) - MOST) + max(0, len(later) - MOST), held=held, names=NAMES, empty=Held(),
    )  # fmt: skip


def held_by_windows(states: Mapping[Key, State]) -> dict[str, Held]:
    """Return the checks that each window holds. For a thread, on a copy of the states."""
    found: dict[str, Held] = {}
    for key, state in states.items():
        for hold in state.holds:
            if hold.kind in (DOWNTIME, SILENCE):
                held = found.setdefault(hold.ref, Held())
                held.checks += 1
                held.agents.add(key[0])
                if not is_well(state):
                    held.bad.append((key, state.shown.status))
    for held in found.values():
        held.bad.sort(key=lambda each: (-each[1], each[0]))
    return found


async def _ended(parts: WebParts, request: ApiRequest, now: float) -> tuple[list[Shown], float, str]:
    """Return the windows that have ended, the newest first, since when all are known, and why none are, if so."""
    try:
        found = await newest_changes(parts, [DOWNTIME, SILENCE], lambda line: True, PAST, now)
    except Problem as problem:
        return [], now, str(problem)
    ended = ended_windows(found.lines, set(parts.evaluator.timeline.windows), now)
    if parts.visible(request.caller) is None:
        return ended, found.since, ""
    seen = await windows_in_sight(parts, request, {str(at): each.window for at, each in enumerate(ended)})
    within = [each.of(seen[str(at)]) for at, each in enumerate(ended) if str(at) in seen]
    return within, found.since, ""


@routes.page("/windows/new", "read", "A form for a downtime or silence", query=FORM)
async def new_window(parts: WebParts, request: ApiRequest) -> bytes:
    """Answer with the form, filled in as the address says. Raises Problem 404 for an `id` that is not there."""
    name = first_text(request, "id")
    if name is not None:
        return await _write_window(parts, request, name)
    kind = first_text(request, "kind")
    given = {
        "kind": kind if kind == SILENCE else DOWNTIME, "on": texts(request, "on"), "checks": texts(request, "check"),
        "exact": [each for each in texts(request, "keys") if "/" in each],
        "lasting": first_text(request, "for") or "2h",
    }  # fmt: skip
    return await write_page(
        parts, request, "window", given=given, shown=None, document=None, tag="", held=None, names=0
    )  # fmt: skip


@routes.page("/windows/<name>", "read", "One of them")
async def window_page(parts: WebParts, request: ApiRequest, name: str) -> bytes:
    """Answer with a downtime or silence, and the form to change it. Raises Problem 404 if there is none."""
    return await _write_window(parts, request, name)


async def _write_window(parts: WebParts, request: ApiRequest, name: str) -> bytes:
    window = await find_window(parts, request, name)
    timeline = parts.evaluator.timeline
    held = await deferToThread(held_by_windows, await states_in_sight(parts, request))
    shown = shown_window(window, name in timeline.active, time.time())
    return await write_page(
        parts, request, "window", given=given_by(window), shown=shown, document=window.to_json(),
        tag=window_tag(window), held=held.get(name, Held()), names=10 * NAMES,
    )  # fmt: skip


def given_by(window: Window) -> dict[str, Any]:
    """Return the fields of the form that a window fills in: kind, on, checks, exact (checks) and lasting."""
    scope = window.scope
    labels = [f"{key}={glob}" for key, glob in scope.labels]
    exact = [f"{agent}/{check}" for agent, check in sorted(scope.keys)]
    return {
        "kind": window.kind, "on": [*(name for name in scope.agents if name != "*" or exact), *labels],
        "checks": [name for name in scope.checks if name != "*" or exact],
        "exact": exact, "lasting": "",
    }  # fmt: skip
