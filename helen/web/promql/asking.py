"""Hands questions of Prometheus' API to the processes that answer them, with what only Helen's own process knows.

That is the labels of agents, the limit of the caller, and results of the last minute, which may be in no segment yet.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import parse_qs

from helen.evaluation.replay import HistoryRecord
from helen.journal.values import Origin
from helen.promql.errors import BadData, Refused
from helen.promql.processes import Frames
from helen.promql.wire import Answered, Asked, Metric, Unsealed, frames
from helen.web.answers import write_json
from helen.web.connections.paced_answers import Write, write_pieces
from helen.web.forms import is_form
from helen.web.problems import Problem
from helen.web.request import ApiRequest
from helen.web.web_parts import WebParts

MOST_FORM = 65_536  # bytes of a form
MOST_FIELDS = 200
UNSEALED = 120.0  # seconds: what came earlier is in a segment, which is closed after 10 s
PIECE = 65_536  # bytes of an answer that are written at once

Given = dict[str, list[str]]


async def answer_question(parts: WebParts, request: ApiRequest, path: str) -> bytes:
    """Answer a question by its path behind /api/v1/, and its parameters in the query or in a form."""
    try:
        given = read_parameters(request)
        answered = await parts.query_processes.ask(_told(parts, request, path, given))
    except Refused as error:
        return refuse(request, error)
    if answered.fault:
        raise Problem(500, "internal error", f"a question in PromQL: {answered.fault}")
    return await _send(request, answered)


def refuse(request: ApiRequest, error: Refused) -> bytes:
    """Return the answer that says what is wrong, as Prometheus writes it."""
    return write_json(request, {"status": "error", "errorType": error.kind, "error": str(error)}, error.status)


def read_parameters(request: ApiRequest) -> Given:
    """Return the parameters of the query and of a form. Raises BadData for a form that is too long, or no UTF-8."""
    given = {name: list(values) for name, values in request.args.items()}
    body = request.body() if request.method == b"POST" and is_form(request) else b""
    if len(body) > MOST_FORM:
        raise BadData(f"a form has at most {MOST_FORM} bytes")
    try:
        form = parse_qs(body, keep_blank_values=True, max_num_fields=MOST_FIELDS)
        for name, values in form.items():
            given[name] = [*given.get(name, ()), *values]
        return {name.decode(): [value.decode() for value in values] for name, values in given.items()}
    except UnicodeDecodeError as error:
        raise BadData("parameters are UTF-8") from error
    except ValueError as error:
        raise BadData(f"a form has at most {MOST_FIELDS} fields") from error


def _told(parts: WebParts, request: ApiRequest, path: str, given: Given) -> Frames:
    """Return a function that makes the frames of a question, in a thread: data that changes is copied here."""
    now, on = time.time(), request.caller.on
    agents, recent = list(parts.sessions.roster.agents.values()), list(parts.evaluator.recent)
    asked = Asked(path, given, now, None if on is None else list(on), str(parts.state), str(parts.pipeline.lake))
    return lambda: frames(((agent.name, dict(agent.labels)) for agent in agents), unsealed(recent, now), asked)


def unsealed(recent: Iterable[HistoryRecord], now: float) -> Iterator[Unsealed]:
    """Yield the results of the last UNSEALED seconds that were not asked for; `now` is unix seconds."""
    for past in recent:
        if past.result is None or past.agent is None or past.check_id is None or past.origin == Origin.ASKED:
            continue
        if past.received > now - UNSEALED:
            metrics = [Metric(each.name, each.value, each.unit, each.kind, list(each.labels.items()))
                       for each in past.metrics]  # fmt: skip
            yield Unsealed(past.at, past.agent, past.check_id, past.received, past.started, past.took_ms,
                           past.result.status, metrics)  # fmt: skip


async def _send(request: ApiRequest, answered: Answered) -> bytes:
    request.setResponseCode(answered.status)

    def pieces(write: Write, is_gone: Callable[[], bool]) -> Iterator[None]:
        for at in range(0, len(answered.body), PIECE):
            if is_gone():
                return
            write(answered.body[at : at + PIECE])
            yield

    return await write_pieces(request, pieces, whole=False, may_pack=True)
