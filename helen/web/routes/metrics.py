"""Serves /metrics, the figures of Helen and its fleet for Prometheus, and /metrics/checks, those of checks.

helen/web/figures/metric_families.py names the figures, exported_families.py beside it makes those of checks, and
exposition.py has the format.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from twisted.internet.threads import deferToThread

from helen.agents.roster import Agent
from helen.assignments.known_exports import exports_of
from helen.parts import Parts
from helen.web.connections.short_turns import take_turns
from helen.web.figures.exported_families import Exported, exported_families
from helen.web.figures.exposition import OPEN_METRICS, TEXT, write
from helen.web.figures.fleet_figures import FleetFigures
from helen.web.figures.metric_families import count_states, gather, gather_seen, look_at_process
from helen.web.query import patterns_in
from helen.web.request import ApiRequest
from helen.web.route import ON, PLAIN, Routes
from helen.web.sight.agents_in_turns import agents_in_sight, meant_by
from helen.web.web_parts import WebParts

routes = Routes()


@routes.get("/metrics", "metrics", "Figures of Helen and its fleet for Prometheus", answer=str, kind=PLAIN, query=(ON,))
async def get_metrics(parts: WebParts, request: ApiRequest) -> bytes:
    """Answer with all figures, in pieces between other work; single checks are those of agents of `?on=`."""
    is_open = b"application/openmetrics-text" in (request.getHeader(b"accept") or b"")
    process = await deferToThread(look_at_process)
    timeline, sight = parts.evaluator.timeline, parts.visible(request.caller)
    counts = await deferToThread(lambda: count_states(timeline.copied(), sight))
    request.setHeader("content-type", OPEN_METRICS if is_open else TEXT)
    gone: list[object] = []
    request.notifyFinish().addErrback(gone.append)
    fleet = FleetFigures(parts, patterns_in(request))
    await take_turns(fleet.steps(await agents_in_sight(parts.sessions.roster.agents.values(), sight)))
    if sight is None:
        families = gather(parts, fleet, process, counts, time.time())
    else:
        families = gather_seen(parts, fleet, process, counts)
    await take_turns(_send(request, write(families, is_open), gone))
    return b""


@routes.get("/metrics/checks", "metrics", "Metrics of checks for Prometheus", answer=str, kind=PLAIN, query=(ON,))
async def get_check_metrics(parts: WebParts, request: ApiRequest) -> bytes:
    """Answer with the newest metrics that entries export, of the agents of `?on=`."""
    is_open = b"application/openmetrics-text" in (request.getHeader(b"accept") or b"")
    patterns, sight = patterns_in(request), parts.visible(request.caller)
    is_meant = meant_by(patterns, revoked=not patterns)
    agents = await agents_in_sight(parts.sessions.roster.agents.values(), sight, is_meant)
    families = await deferToThread(lambda: exported_families(exported_checks(parts, agents)))
    request.setHeader("content-type", OPEN_METRICS if is_open else TEXT)
    gone: list[object] = []
    request.notifyFinish().addErrback(gone.append)
    await take_turns(_send(request, write(families, is_open), gone))
    return b""


def exported_checks(parts: Parts, agents: Iterable[Agent]) -> Iterator[Exported]:
    """Yield the newest results of checks that are exported, as far as they are known to be true now. In a thread."""
    states = parts.evaluator.timeline.states
    for agent in sorted(agents, key=lambda agent: agent.name):
        exports = parts.exports.of(agent.name) or exports_of(parts.targets.entries_of(agent.name))
        for check, patterns in exports.items():
            latest, state = agent.latest.get(check), states.get((agent.name, check))
            if latest is not None and state is not None and state.shown.known:
                yield Exported(agent.name, check, agent.labels, latest.metrics, patterns)


def _send(request: ApiRequest, pieces: Iterator[str], gone: list[object]) -> Iterator[None]:
    for piece in pieces:
        if gone:
            return
        if piece:
            request.write(piece.encode("utf-8", "replace"))
        yield
