"""Ping URLs, as healthchecks.io has them: a job says that it began, ended or failed with nothing but a GET.

    /ping/UUID            it is done          /ping/UUID/start   it begins
    /ping/UUID/fail       it failed           /ping/UUID/log     something to be read, no more
    /ping/UUID/3          its exit status     /ping/KEY/NAME...  the same by its name

The URL is the secret: it can't be guessed, and no token is needed. A body is kept as the output.
"""

from __future__ import annotations

import math

from groundwork.authority import decide
from helen.actions import REPORT
from helen.passive.declarations import Declared
from helen.passive.pings import SIGNALS, is_signal
from helen.passive.submission import NotReported
from helen.web.answers import set_headers
from helen.web.login.wrong_tries import origin_of
from helen.web.problems import problem_of
from helen.web.query import first_text
from helen.web.request import ApiRequest, address_of
from helen.web.route import Routes
from helen.web.web_parts import WebParts

routes = Routes()
MAX_RUN = 100  # characters of the id of a run


@routes.foreign("GET POST", "/ping/<code>", None, "A job is done", checks_caller=True)
async def ping(parts: WebParts, request: ApiRequest, code: str) -> bytes:
    """Take /ping/UUID; a caller with a token of the API may give the name instead."""
    found = parts.pings.find(code)
    if found is None and decide(request.caller, REPORT) is None:
        found = parts.pings.find_declared(code)
        sight = parts.visible(request.caller)
        found = found if found is None or sight is None or sight(found.host) else None
    return await _answer(parts, request, found, "")


@routes.foreign(
    "GET POST", "/ping/<code>/<rest>", None, "A job begins, fails, or ends with a status", checks_caller=True
)
async def ping_with(parts: WebParts, request: ApiRequest, code: str, rest: str) -> bytes:
    """Take /ping/UUID/start and its like, or /ping/KEY/NAME."""
    found = parts.pings.find(code)
    if found is not None and is_signal(rest):
        return await _answer(parts, request, found, rest)
    return await _answer(parts, request, parts.pings.find_named(code, rest), "")


@routes.foreign("GET POST", "/ping/<code>/<name>/<signal>", None, "The same by its name", checks_caller=True)
async def ping_named(parts: WebParts, request: ApiRequest, code: str, name: str, signal: str) -> bytes:
    """Take /ping/KEY/NAME/start and its like."""
    found = parts.pings.find_named(code, name)
    return await _answer(parts, request, found if is_signal(signal) else None, signal)


async def _answer(parts: WebParts, request: ApiRequest, found: Declared | None, signal: str) -> bytes:
    """Answer with one word, as the tools expect that were written for such URLs."""
    if found is None:
        wait = parts.pings.miss(origin_of(address_of(request)))
        if wait:
            request.setHeader("retry-after", str(math.ceil(wait)))
        return _word(request, 429, "rate limited") if wait else _word(request, 404, "not found")
    run = (first_text(request, "rid") or "")[:MAX_RUN]
    body = request.body() if request.method == b"POST" else b""
    try:
        await parts.pings.take(found, signal if signal in SIGNALS or not signal else str(int(signal)), body, run)
    except NotReported as error:
        problem = problem_of(error)
        assert problem is not None
        set_headers(request, problem)
        return _word(request, problem.status, str(problem))
    return _word(request, 200, "OK")


def _word(request: ApiRequest, status: int, word: str) -> bytes:
    request.setResponseCode(status)
    request.setHeader("content-type", "text/plain; charset=utf-8")
    return word.encode() + b"\n"
