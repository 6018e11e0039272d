"""Serves the route of events: what changes, as server-sent events of helen/web/streaming. docs/api.rst describes it."""

from __future__ import annotations

from typing import Annotated

from attrs import evolve
from twisted.internet.defer import Deferred

from helen.journal.values import CHANGE_KINDS
from helen.parts import Parts
from helen.web.connections.packed import begin_packed
from helen.web.json_types import EventKind, words
from helen.web.problems import Problem, bad_request
from helen.web.query import first_text, patterns_in, texts
from helen.web.request import ApiRequest
from helen.web.route import ON, STREAM, V1, Query, Routes
from helen.web.routes.rows import read_wanted
from helen.web.streaming.event_filter import EventFilter
from helen.web.streaming.stream_views import ResultView, RowView
from helen.web.streaming.streams import MOST_STREAMS, STREAMS_OF_TOKEN
from helen.web.web_parts import WebParts

routes = Routes()
MOST_FOLLOWED = 20  # agents of which one stream sends each result
NO_KIND = "none"  # a stream of rows alone
RETRY_AFTER = "5"  # seconds, for a stream too many


@routes.get(
    f"{V1}/events", "read", "What changes, as it changes", answer=str, kind=STREAM, streams=True,
    query=(Query("kind", EventKind, "kinds of events", many=True), ON,
           Query("check", str, "checks: a name or a pattern", many=True),
           Query("since", str, "the id of an event: what came after it"),
           Query("view", Annotated[str, words("rows")], "rows: rows of a board as they change, too"),
           Query("filter", str, "of rows: words as helen top takes them"),
           Query("all", bool, "of rows: those that are well, too"),
           Query("rows_since", str, "of rows: the `look` of an answer of /rows: what was found after it"),
           Query("results", bool, "each result of the agents of `on`, exact names, too"),
           Query("result_of", str, "the same of these agents, whatever `on` says", many=True)),
    errors={503: "too many streams"},
)  # fmt: skip
def stream_events(parts: WebParts, request: ApiRequest) -> Deferred[bytes] | bytes:
    """Answer with events after `?since=` or Last-Event-ID, and those to come. Raises Problem for a stream too many."""
    wanted, view, results = read_filter(parts, request), read_view(parts, request), read_results(request)
    header: bytes | None = request.getHeader(b"last-event-id")
    since = header.decode("ascii", "replace") if header else first_text(request, "since")
    if parts.streams.is_full_for(request.caller):
        said = f"{MOST_STREAMS} are open, or {STREAMS_OF_TOKEN} of this token; one can carry all kinds for a whole page"
        raise Problem(503, "too many streams", said, {"retry-after": RETRY_AFTER})
    request.setHeader("content-type", "text/event-stream; charset=utf-8")
    request.setHeader("cache-control", "no-store")
    request.setHeader("x-accel-buffering", "no")  # nginx would collect it
    packing = begin_packed(request)
    if request.method == b"HEAD":
        return b""
    rows_since = first_text(request, "rows_since")
    return parts.streams.open(request, wanted, since, request.caller, view, results, rows_since, packing)


def read_view(parts: Parts, request: ApiRequest) -> RowView | None:
    """Return the rows that a stream shall send beside events; None without `?view=rows`. Raises Problem."""
    view = first_text(request, "view")
    if view not in (None, "rows"):
        raise bad_request("`view` is rows, or left out")
    return None if view is None else RowView(evolve(read_wanted(request), sight=parts.visible(request.caller)))


def read_results(request: ApiRequest) -> ResultView | None:
    """Return the agents of which a stream shall send each result; None without any. Raises Problem."""
    has_on = first_text(request, "results") in ("1", "true")
    agents = frozenset([*(texts(request, "on") if has_on else ()), *texts(request, "result_of")])
    if has_on and not agents:
        raise bad_request("`results` needs `on`: the agents, by their exact names")
    if len(agents) > MOST_FOLLOWED:
        raise bad_request(f"the results of at most {MOST_FOLLOWED} agents come as events")
    return ResultView(agents) if agents else None


def read_filter(parts: Parts, request: ApiRequest) -> EventFilter:
    """Return the events that a request asks for. Raises Problem."""
    kinds, agents, checks = texts(request, "kind"), patterns_in(request), patterns_in(request, "check")
    if kinds == [NO_KIND]:
        return EventFilter(frozenset((NO_KIND,)), sight=parts.visible(request.caller))
    unknown = sorted(set(kinds) - set(CHANGE_KINDS))
    if unknown:
        raise bad_request(f"no event is a {unknown[0]!r}: {', '.join(CHANGE_KINDS)}")
    roster = parts.sessions.roster

    def labels_of(agent: str) -> dict[str, str]:
        known = roster.agents.get(agent)
        return known.labels if known is not None else {}

    return EventFilter(frozenset(kinds), tuple(agents), tuple(checks), labels_of, parts.visible(request.caller))
