"""GET /api/v1/events: what changes, as server-sent events. helen/web/streams.py serves them."""

from __future__ import annotations

from typing import Any

from klein import Klein
from twisted.internet.defer import Deferred

from helen.journal.values import CHANGE_KINDS
from helen.web.problems import Problem
from helen.web.streams import MOST_STREAMS, Streams, Wanted

MOST_PATTERNS = 100  # of one stream: each is tried on each event
RETRY_AFTER = "5"  # seconds, for a stream too many


def add_routes(app: Klein) -> None:
    """To the class of the API, whose instances have `_helen`."""

    @app.route("/api/v1/events", methods=["GET"])
    def events(api: Any, request: Any) -> Deferred[bytes] | bytes:
        """`kind`, `on`, `check`: each may be repeated; `since`, or the header Last-Event-ID, is an id."""
        streams: Streams = api._helen.streams
        wanted = read_wanted(api, request)
        given = request.getHeader(b"last-event-id") or (request.args.get(b"since") or [None])[0]
        since = None if given is None else given.decode("ascii", "replace")
        if streams.is_full:
            request.setHeader("retry-after", RETRY_AFTER)
            raise Problem(503, "too many streams", f"{MOST_STREAMS} are open; one can carry all kinds for a whole page")
        request.setHeader("content-type", "text/event-stream; charset=utf-8")
        request.setHeader("cache-control", "no-store")
        request.setHeader("x-accel-buffering", "no")  # nginx would collect it
        if request.method == b"HEAD":
            return b""
        return streams.open(request, wanted, since, request.caller)


def read_wanted(api: Any, request: Any) -> Wanted:
    """The filters of a request."""
    kinds, agents, checks = (
        tuple(value.decode("utf-8", "replace") for value in request.args.get(name, []))
        for name in (b"kind", b"on", b"check")
    )
    unknown = sorted(set(kinds) - set(CHANGE_KINDS))
    if unknown:
        raise Problem(400, "bad request", f"no event is a {unknown[0]!r}: {', '.join(CHANGE_KINDS)}")
    if max(len(agents), len(checks)) > MOST_PATTERNS:
        raise Problem(400, "bad request", f"at most {MOST_PATTERNS} patterns each of `on` and `check`")
    roster = api._helen.house.roster

    def labels(agent: str) -> dict[str, str]:
        known = roster.agents.get(agent)
        return known.labels if known is not None else {}

    return Wanted(frozenset(kinds), agents, checks, labels)
