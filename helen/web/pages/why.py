"""Serves the page that says why a check is in its state, and which messages went out or did not, now or at a past
moment.

It shows the document of GET /api/v1/explain/AGENT/CHECK as it is, the transitions around that moment to step through,
and where an alert of the check would go now. Nothing is worked out here.
"""

from __future__ import annotations

import json
import math
import time
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from attrs import frozen

from equus_protocol.results import STATUS_WORDS
from helen.parts import Parts
from helen.queries.past_changes import Question
from helen.states.rollout_trials import ROLLOUT_KEY
from helen.web.pages.answer import write_page
from helen.web.pages.check import write_check
from helen.web.pages.environment import segment
from helen.web.problems import Problem, bad_request
from helen.web.query import first_text, read_moment
from helen.web.request import ApiRequest
from helen.web.route import Query, Routes
from helen.web.routes.changes import past_changes
from helen.web.routes.notifications import routed
from helen.web.routes.states import explanation
from helen.web.rows.row import shown_check
from helen.web.web_parts import WebParts

routes = Routes()
SPAN = 86_400.0  # seconds before and after the moment: transitions in them are listed
MOST_STEPS = 200
WORST = "critical"  # the severity of an alert that is asked about while the check is ok


@frozen
class Step:
    """Holds one transition of the check. `at`: unix seconds, in whole milliseconds after it was written."""

    at: float
    was: str
    now: str
    why: str


@frozen
class Steps:
    """Holds transitions in their order, the moments to which `[` and `]` lead, and why there are none."""

    around: tuple[Step, ...] = ()
    before: float | None = None
    after: float | None = None
    current: float | None = None
    fault: str = ""


@routes.page(
    "/checks/<agent>/<path:check>/why", "read", "Why a check is in its state",
    query=(Query("at", str, "unix seconds, how long ago, or 2026-11-28T13:58 in UTC"),),
)  # fmt: skip
async def why(parts: WebParts, request: ApiRequest, agent: str, check: str) -> bytes:
    """Answer with the explanation of a check. Raises Problem for a check that is not known, or no moment."""
    if not request.uri.partition(b"?")[0].endswith(b"/why"):  # the end of an id, whose slash is written as %2F
        return await write_check(parts, request, agent, f"{check}/why")
    now = time.time()
    at = moment_of(first_text(request, "at"), now)
    found = await explanation(parts, agent, check, at, parts.visible(request.caller))
    steps, route = await steps_around(parts, agent, check, at, now), None
    if at is None and request.caller.on is None:  # rules may name any agent
        route = would_be_told(parts, agent, check, found["state"])
    return await write_page(
        parts, request, "why", agent=agent, check=check, shown=shown_check(check), found=found, at=at, steps=steps,
        route=route, links=links_of,
    )  # fmt: skip


def moment_of(text: str | None, now: float) -> float | None:
    """Return the moment that a reader has chosen, unix seconds; None for now. Raises Problem for what is no moment."""
    if not text or text == "now":
        return None
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() if "T" in text else read_moment(
            "at", text, now, now
        )  # fmt: skip
    except ValueError as error:
        raise bad_request("`at` is unix seconds, how long ago (6h), or 2026-11-28T13:58:10 in UTC") from error


async def steps_around(parts: WebParts, agent: str, check: str, at: float | None, now: float) -> Steps:
    """Return the transitions of a check in the day before and after a moment, None: now. Both are unix seconds."""
    middle = now if at is None else at
    question = Question(
        max(0.0, middle - SPAN), min(now, middle + SPAN), MOST_STEPS,
        lambda line: (line.kind, line.agent, line.check_id) == ("transition", agent, check), ["transition"],
    )  # fmt: skip
    try:
        page = await past_changes(parts, question)
    except Problem as problem:
        return Steps(fault=str(problem))
    around = tuple(_step(line.received, json.loads(line.data)["document"]) for line in page.lines)
    past, later = [each.at for each in around if each.at <= middle], [each.at for each in around if each.at > middle]
    current = past[-1] if past else None
    is_between = at is None or (current is not None and current < at)  # one step back is the begin of this state
    before = current if is_between else past[-2] if len(past) > 1 else None
    if before is None and page.known_from is not None and page.known_from < middle - SPAN:
        before = middle - SPAN
    return Steps(around, before, later[0] if later else None, current)


def _step(received: float, said: dict[str, Any]) -> Step:
    at = math.ceil(received * 1_000) / 1_000
    status = said["now"]["status"]
    return Step(at, said["was"]["status"], status, str(said.get("why", "")).removeprefix(f"{status}, "))


def would_be_told(parts: Parts, agent: str, check: str, state: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return where an alert of the check would go now, as POST /notifications/route answers; None: not set up."""
    config, known = parts.notifier.config_file.config, parts.sessions.roster.agents.get(agent)
    if config is None or (agent, check) == ROLLOUT_KEY:
        return None
    status = None if state is None else state["status"]
    severity = status if status in STATUS_WORDS[1:] else WORST
    labels = {} if known is None else known.labels
    return {**routed(config, {**labels, "agent": agent, "check": check, "severity": severity}), "severity": severity}


def links_of(agent: str, line: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (address, text) of the pages about what a sentence names: a window, a parent, a rollout."""
    found = []
    for each in line.get("refs", ()):
        kind, ref = each["kind"], each["ref"]
        if kind in ("downtime", "silence"):
            found.append((f"/windows/{segment(ref)}", f"{kind} {ref}"))
        elif kind == "rollout" and ref.isascii() and ref.isdigit():
            found.append((f"/rollouts/{ref}", f"version {ref}"))
        elif kind == "dependency" and "/" in ref:
            parent, _, check = ref.partition("/")
            found.append((f"/checks/{quote(parent, safe='')}/{segment(check)}/why", ref))
    return found
