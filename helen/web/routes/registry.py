"""Lists the modules of routes, and makes the application of the HTTP API of them.

A route is declared at its function in one of these modules: path, scope, parameters, body, answer and errors
(helen/web/route.py). A new module is one more name in MODULES; acks.py is one to copy.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, Protocol

from klein import Klein
from twisted.python.failure import Failure

from helen.web import openapi
from helen.web.access_routes import browsers, enrolment, keys, login, renewals, web_tokens
from helen.web.answers import refuse_error, write_json
from helen.web.bodies import read_body
from helen.web.foreign_routes import (
    alertmanager_alerts,
    alertmanager_silences,
    foreign_results,
    pings,
    prometheus_queries,
)
from helen.web.forward_routes import forwards
from helen.web.request import ApiRequest
from helen.web.route import V1, Answer, Route, Routes
from helen.web.routes import (
    acks,
    agents,
    assignments,
    audit,
    changes,
    checks,
    code,
    drain,
    events,
    health,
    history,
    jobs,
    many_acks,
    metrics,
    notifications,
    notifications_file,
    passive,
    pushes,
    recent,
    results,
    rollouts,
    rows,
    runs,
    states,
    status,
    targets,
    tunnels,
    windows,
)
from helen.web.sight.limits import demand_agent
from helen.web.web_parts import WebParts

routes = Routes()


class RouteModule(Protocol):
    """Describes a module beside this file."""

    @property
    def routes(self) -> Iterable[Route]:
        """Return the routes that the module declares."""


@routes.get(f"{V1}/openapi.json", None, "This description", answer=dict[str, Any])
def openapi_document(parts: WebParts, request: ApiRequest) -> bytes:
    """Answer with the OpenAPI document of this API."""
    return write_json(request, described(parts.version))


MODULES: tuple[RouteModule, ...] = (
    health, metrics, status, agents, renewals, results, states, rows,
    windows, recent, history, events, changes, checks, code, assignments, pushes,
    rollouts, keys, jobs, notifications, notifications_file, audit, web_tokens, browsers, login, drain, passive,
    targets, forwards, enrolment, runs, tunnels, acks, many_acks, foreign_results, pings, alertmanager_alerts,
    alertmanager_silences, prometheus_queries,
)  # fmt: skip
ROUTES: tuple[Route, ...] = (*routes, *(route for module in MODULES for route in module.routes))
BY_NAME: dict[str, Route] = {route.name: route for route in ROUTES}


@cache
def described(version: str) -> dict[str, Any]:
    """Return the OpenAPI document of all routes, made once."""
    return openapi.build(ROUTES, version)


def application(parts: WebParts, pages: Iterable[Route] = ()) -> Klein:
    """Return the application that answers each route and each of the pages, and each error with a problem."""
    app = Klein()
    for route in (*ROUTES, *pages):
        declare = app.route(route.path, methods=[route.method], endpoint=route.name, strict_slashes=not route.any_slash)
        declare(_answering(route, parts))

    @app.handle_errors(Exception)
    def answer_error(request: ApiRequest, failure: Failure) -> bytes:
        return refuse_error(request, failure)

    return app


def _answering(route: Route, parts: WebParts) -> Any:
    """Return the function that Klein calls for a route: the route's own with the parts and, if it has one, the body."""
    handler, kind = route.handler, route.body if route.reads_body else None

    def answer(request: ApiRequest, **names: str) -> Answer:
        return handler(parts, request, **names)

    async def answer_body(request: ApiRequest, **names: str) -> bytes:
        assert kind is not None
        body = await read_body(request, kind)
        for agent in body.touched_agents():
            demand_agent(parts, request, route.does, agent)
        answered = handler(parts, request, body, **names)
        return answered if isinstance(answered, bytes) else await answered

    return answer if kind is None else answer_body
