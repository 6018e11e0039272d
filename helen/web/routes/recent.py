"""Serves the route of a check's newest results, out of memory and segments: it works without a lake. docs/api.rst has
it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import TypedDict

from twisted.internet.threads import deferToThread

from helen.evaluation.replay import HistoryRecord
from helen.explain.history_around import HistoryAround
from helen.journal.values import Origin
from helen.parts import Parts
from helen.states.model import Key
from helen.web.agent_views import RecentResultJson, show_result
from helen.web.answers import write_json
from helen.web.problems import bad_request
from helen.web.query import first_text
from helen.web.request import ApiRequest
from helen.web.route import V1, Query, Routes
from helen.web.routes.states import known_key
from helen.web.sight.redaction import seen_result
from helen.web.web_parts import WebParts

routes = Routes()
MOST, USUAL = 1_000, 120  # results of one answer
SPAN_SECONDS = 3_900.0  # before now: an hour, and what a plot of one needs to its left


class RecentJson(TypedDict):
    """Lists the newest results of a check, the newest first."""

    results: list[RecentResultJson]


@routes.get(
    f"{V1}/recent", "read", "The newest results of a check", answer=RecentJson,
    query=(Query("agent", str, "its name"), Query("check", str, "its id"), Query("limit", int, "1,000 at most")),
    errors={404: "no such check"},
)  # fmt: skip
async def list_recent(parts: WebParts, request: ApiRequest) -> bytes:
    """Answer with the results of about the last hour, out of memory and segments."""
    key = known_key(parts, first_text(request, "agent") or "", first_text(request, "check") or "")
    text = first_text(request, "limit") or str(USUAL)
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= MOST):
        raise bad_request(f"`limit` is a number from 1 to {MOST}")
    recent = recent_of(parts, key)
    found = await deferToThread(newest_results, parts.state / "history", recent, key, time.time(), int(text))
    sight = parts.visible(request.caller)
    return write_json(request, {"results": [show_result(seen_result(past, sight)) for past in found]})


def recent_of(parts: Parts, key: Key) -> list[HistoryRecord]:
    """Return the results of a check that are in memory: 20,000 records are looked through in a millisecond or two."""
    return [past for past in parts.evaluator.recent if _is_of(past, key)]


def newest_results(
    history: Path, recent: Iterable[HistoryRecord], key: Key, now: float, count: int
) -> list[HistoryRecord]:
    """Return the newest results of a check, the newest first; `now`: unix seconds. Blocks: for a thread."""
    found = {past.at: past for past in HistoryAround(history).results(*key, now, count)}
    found |= {past.at: past for past in recent}
    newest = [found[at] for at in sorted(found, reverse=True)]
    return [past for past in newest if past.received > now - SPAN_SECONDS][:count]


def _is_of(past: HistoryRecord, key: Key) -> bool:
    is_counted = past.result is not None and past.origin != Origin.ASKED
    return is_counted and (past.agent, past.check_id) == key
