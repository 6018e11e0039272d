"""/metrics: the figures of Helen and its fleet for Prometheus.

helen/web/figures/metric_families.py names the figures, helen/web/figures/exposition.py has the format.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from twisted.internet.threads import deferToThread

from helen.web.connections.short_turns import take_turns
from helen.web.figures.exposition import OPEN_METRICS, TEXT, write
from helen.web.figures.metric_families import count_states, gather, gather_seen, look_at_process
from helen.web.query import patterns_in
from helen.web.request import ApiRequest
from helen.web.route import ON, PLAIN, Routes
from helen.web.web_parts import WebParts

routes = Routes()


@routes.get("/metrics", "metrics", "Figures of Helen and its fleet for Prometheus", answer=str, kind=PLAIN, query=(ON,))
async def get_metrics(parts: WebParts, request: ApiRequest) -> bytes:
    """Answer with all figures, in pieces between other work; single checks are those of agents of `?on=`."""
    is_open = b"application/openmetrics-text" in (request.getHeader(b"accept") or b"")
    process = await deferToThread(look_at_process)
    states, sight = dict(parts.evaluator.timeline.states), parts.visible(request.caller)
    counts = await deferToThread(count_states, states, sight)
    request.setHeader("content-type", OPEN_METRICS if is_open else TEXT)
    gone: list[object] = []
    request.notifyFinish().addErrback(gone.append)
    on = patterns_in(request)
    if sight is None:
        families = gather(parts, on, process, counts, time.time())
    else:
        families = gather_seen(parts, on, process, counts, sight)
    await take_turns(_send(request, write(families, is_open), gone))
    return b""


def _send(request: ApiRequest, pieces: Iterator[str], gone: list[object]) -> Iterator[None]:
    for piece in pieces:
        if gone:
            return
        request.write(piece.encode("utf-8", "replace"))
        yield
