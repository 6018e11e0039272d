"""Serves the page of one check: its state, why it is so, its figures over an hour up to a year, its runs and its
changes.

static/check.js draws the plots; without it the figures of the last result and the last runs are there to read.
"""

from __future__ import annotations

import time
from typing import Any

from twisted.internet.threads import deferToThread

from helen.states.model import ROLLOUT, Key
from helen.web.agent_views import show_entry, show_latest, show_result
from helen.web.pages.answer import write_page
from helen.web.request import ApiRequest
from helen.web.route import Query, Routes
from helen.web.routes.recent import newest_results, recent_of
from helen.web.routes.states import known_key
from helen.web.rows.row import shown_check
from helen.web.sight.redaction import seen_result, seen_state
from helen.web.state_rows import show_state
from helen.web.web_parts import WebParts

routes = Routes()
RUNS = 20  # results that the page lists
SPANS = ("1h", "24h", "30d", "1y")


@routes.page(
    "/checks/<agent>/<path:check>", "read", "One check on one agent",
    query=(Query("span", str, "1h, 24h, 30d or 1y"), Query("metric", str, "figures that are shown", many=True)),
)  # fmt: skip
async def check_page(parts: WebParts, request: ApiRequest, agent: str, check: str) -> bytes:
    """Answer with the page of a check. Raises Problem 404 for one of which nothing is known."""
    return await write_check(parts, request, agent, check)


async def write_check(parts: WebParts, request: ApiRequest, agent: str, check: str) -> bytes:
    """Write the page of a check; why.py does so for an id that ends with /why. Raises Problem 404."""
    key, sight = known_key(parts, agent, check), parts.visible(request.caller)
    recent = recent_of(parts, key)
    runs = await deferToThread(newest_results, parts.state / "history", recent, key, time.time(), RUNS)
    known = parts.sessions.roster.agents.get(agent)
    latest = known.latest.get(check) if known is not None else None
    entries = parts.sessions.delivery.schedule_of(known) if known is not None else ()
    entry = next((each for each in entries if each.id == check), None)
    return await write_page(
        parts, request, "check", agent=agent, check=check, shown=shown_check(check), key=key,
        state=show_state(parts.evaluator, *key, sight),
        latest=None if latest is None else show_latest(latest),
        entry=None if entry is None else show_entry(entry), spans=SPANS,
        runs=[show_result(seen_result(past, sight)) for past in runs],
        is_code_known=latest is not None and latest.code is not None, holds=_holds(parts, request, key),
        connected=known is not None and known.link is not None, mesh=parts.meshes.mesh_of(agent, check),
    )  # fmt: skip


def _holds(parts: WebParts, request: ApiRequest, key: Key) -> list[dict[str, Any]]:
    """Return why people are not told, each with the page that it leads to: {"kind", "detail", "path"}."""
    state = seen_state(parts.evaluator.timeline.states[key], parts.visible(request.caller))
    shown = [{"kind": hold.kind, "detail": hold.detail, "path": _path(hold.kind, hold.ref)} for hold in state.holds]
    if state.trial is not None:
        shown.append({"kind": ROLLOUT, "detail": state.trial.detail, "path": f"/rollouts/{state.trial.ref}"})
    return shown


def _path(kind: str, ref: str) -> str:
    if kind in ("downtime", "silence"):
        return f"/windows/{ref}"
    return f"/checks/{ref}" if ref else ""
