"""Serves the route of past changes, a page at a time; events.py has the stream of new ones. docs/api.rst has it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypedDict

from attrs import evolve

from helen.agents.roster import Agent
from helen.evaluation.event_log import Line, TooOld
from helen.journal.unread import HistoryUnread
from helen.parts import Parts
from helen.queries.past_changes import Page, PastChanges, Question
from helen.states.downtimes import planned_window
from helen.states.model import DOWNTIME, SILENCE, Key
from helen.web.connections.short_turns import take_turns
from helen.web.cursors import read_page
from helen.web.json_types import EventKind
from helen.web.lake_reads import LakeChanges
from helen.web.problems import Problem, bad_request
from helen.web.query import first_text, read_moment, texts
from helen.web.request import ApiRequest
from helen.web.route import ON, V1, Query, Routes
from helen.web.routes.events import read_filter
from helen.web.sight.agents_in_turns import steps_of
from helen.web.streaming.event_filter import EventJson
from helen.web.web_parts import WebParts

routes = Routes()
USUAL_SPAN = 86_400.0  # seconds before `to` that are shown without `from`
FILTERS = ("since", "from", "to", "kind", "on", "check", "covers")
SHOWN = 100  # changes without `limit`


class ChangeJson(EventJson):
    """Describes one change as its event, with the id of that."""

    id: str


ChangesJson = TypedDict("ChangesJson", {"changes": list[ChangeJson], "from": float | None, "next": str | None})


@routes.get(
    f"{V1}/changes", "read", "What has changed", answer=ChangesJson, paged=True,
    query=(Query("from", str, "unix seconds, or how long ago"), Query("to", str, "unix seconds, or how long ago"),
           Query("since", str, "the id of an event: what came after it, instead of `from`"),
           Query("kind", EventKind, "kinds of changes", many=True), ON,
           Query("check", str, "checks: a name or a pattern", many=True),
           Query("covers", str, "a check as AGENT/CHECK: of downtimes and silences, those alone that cover it")),
    errors={409: "not there any more", 503: "can't be asked, not sealed yet, or the lake can't be read"},
)  # fmt: skip
async def list_changes(parts: WebParts, request: ApiRequest) -> bytes:
    """Answer with changes between two times, the oldest first. Raises Problem while some are in no segment yet."""
    question, next_cursor = read_question(parts, request, time.time(), await _labels(parts, request))
    covered = read_covered(request)
    page = await past_changes(parts, question)
    wanted = read_filter(parts, request)
    lines = page.lines if covered is None else covering(parts, covered, page.lines)
    page = evolve(page, lines=[wanted.shown(line) for line in lines])
    request.setHeader("content-type", "application/json")
    return written(page, parts.events.id_of, next_cursor)


def read_covered(request: ApiRequest) -> Key | None:
    """Return the check that `covers` names. Raises Problem if it is none."""
    text = first_text(request, "covers")
    if text is None:
        return None
    agent, _, check = text.partition("/")
    if not agent or not check:
        raise bad_request("`covers` is a check: AGENT/CHECK")
    return agent, check


def covering(parts: Parts, key: Key, lines: Iterable[Line]) -> list[Line]:
    """Return the lines without downtimes and silences that leave a check alone, by the labels of its agent as of now.

    One that is cancelled is known by its id alone: it stands in these lines, is on, or ended lately, or is left out.
    """
    timeline, kept = parts.evaluator.timeline, list[Line]()
    known = {**{window.id: window for window, _ in timeline.ended}, **timeline.windows}
    for line in lines:
        if line.kind in (DOWNTIME, SILENCE):
            document = json.loads(line.data)["document"]
            window = planned_window(line.kind, document, line.received) or known.get(document["id"])
            if window is None or not timeline.covers(window, key):
                continue
            known[window.id] = window
        kept.append(line)
    return kept


async def past_changes(parts: WebParts, question: Question) -> Page:
    """Return the changes that a question asks for. Raises Problem while some are not sealed or unreadable."""
    events = parts.events
    if not events.is_sealed():
        raise Problem(503, "not sealed yet", "the newest changes are not in a segment yet; ask again in a second")
    history = parts.state / "history"
    past = PastChanges(
        history, LakeChanges(parts.pipeline.lake, history), events.kept_above(events.floor), events.floor,
        events.line_of,
    )  # fmt: skip
    try:
        return await parts.lake_reads.ask(past.page, question)
    except HistoryUnread as error:
        raise Problem(503, "the history can't be read", str(error)) from error


async def _labels(parts: WebParts, request: ApiRequest) -> dict[str, dict[str, str]]:
    """Return a copy of the labels of all agents, made in short turns, if a pattern of the request is of labels."""
    found = dict[str, dict[str, str]]()

    def take(agents: Sequence[Agent]) -> None:
        found.update((agent.name, dict(agent.labels)) for agent in agents)

    if any("=" in pattern for pattern in read_filter(parts, request).agents):
        await take_turns(steps_of(list(parts.sessions.roster.agents.values()), take))
    return found


def read_question(
    parts: WebParts, request: ApiRequest, now: float, labels: dict[str, dict[str, str]]
) -> tuple[Question, Callable[[tuple[int, ...]], str]]:
    """Return the question that a request asks, and a function that makes cursors. `now`: unix seconds. Raises Problem.

    `labels` are those of agents as they are now, if the request asks for any.
    """
    wanted = read_filter(parts, request)
    given = [f"{name}={value}" for name in FILTERS for value in texts(request, name)]
    page = read_page(request, "changes", (int, int), given, default=SHOWN)
    since = first_text(request, "since")
    end = read_moment("to", first_text(request, "to"), now, now)
    usual = 0.0 if since is not None else max(0.0, end - USUAL_SPAN)
    begin = read_moment("from", first_text(request, "from"), now, usual)
    if begin > end:
        raise bad_request("`from` is before `to`")
    after = None if page.after is None else (page.after[0], page.after[1])
    fits, kinds, above = wanted.with_labels(labels).fits, sorted(wanted.kinds), _number_of(parts, since)
    return Question(begin, end, page.limit or SHOWN, fits, kinds, above, after), page.next


def _number_of(parts: WebParts, since: str | None) -> int:
    """Return the number of the event of an id, 0 without one. Raises Problem 409 for an id that is none any more."""
    if since is None:
        return 0
    try:
        return parts.events.place(since)
    except TooOld as error:
        raise Problem(409, "not there any more", str(error)) from error


def written(page: Page, id_of: Callable[[int], str], next_cursor: Callable[[tuple[int, ...]], str]) -> bytes:
    """Return the answer; each change is the object in its event's frame, behind an id."""
    following = None if page.next is None else next_cursor(page.next)
    return b'{"changes": [%b], "from": %b, "next": %b}\n' % (
        b", ".join(_change(line, id_of) for line in page.lines), json.dumps(page.known_from).encode(),
        json.dumps(following).encode(),
    )  # fmt: skip


def _change(line: Line, id_of: Callable[[int], str]) -> bytes:
    return b'{"id": %b, %b' % (json.dumps(id_of(line.at)).encode(), line.data[1:])
