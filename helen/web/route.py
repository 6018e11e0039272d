"""Declares routes: everything that is known of a route stands in one place, in front of the function that answers it.

    routes = Routes()

    @routes.get("/api/v1/agents/<name>", "read", "Shows one agent", answer=AgentInFull)
    def agent(parts: Parts, request: ApiRequest, name: str) -> bytes:
        ...

The second word names the action of the route, from which its scope follows (helen/actions.py).
helen/web/routes/registry.py gathers the routes of all modules. The gate takes action and audited action from them,
Klein the path, OpenAPI and the table of docs/api.rst all the rest.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar

from attrs import field, frozen

from groundwork.authority import Action
from helen.actions import named
from helen.web.bodies import B, Body
from helen.web.request import ApiRequest
from helen.web.web_parts import WebParts

JSON, LINES, STREAM, PLAIN = "application/json", "application/x-ndjson", "text/event-stream", "text/plain"
HTML = "text/html; charset=utf-8"
V1, V2 = "/api/v1", "/api/v2"  # of Helen, and of Alertmanager
AGENT_IN_PATH = re.compile(r"<(agent|host)>|/agents/<(name)>")

P = ParamSpec("P")
Answer = bytes | Awaitable[bytes]
Handler = Callable[Concatenate[WebParts, ApiRequest, P], Answer]
BodyHandler = Callable[Concatenate[WebParts, ApiRequest, B, P], Answer]
H = TypeVar("H", bound=Callable[..., Answer])


@frozen
class Query:
    """Describes a parameter of the query. `kind` is the type of one value, with `many` it may be repeated."""

    name: str
    kind: Any
    about: str
    many: bool = False


ON = Query("on", str, "agents: a name, a pattern, or KEY=PATTERN", many=True)


@frozen(kw_only=True)
class Route:
    """Describes one method of one path, and the function that answers it."""

    method: str
    path: str  # as Werkzeug reads it, such as /api/v1/agents/<name>
    does: Action  # what a caller asks for
    summary: str
    handler: Callable[..., Answer]
    action: str | None = None  # by which the audit knows it; None: it changes nothing, or is audited elsewhere
    body: type[Body] | None = None
    reads_body: bool = True  # else the function reads the body by itself, and `body` only describes it
    answer: Any = None  # the type of the answer that went well; None: it follows a convention of another project
    status: int = 200  # of that answer; a dry run has 200
    kind: str = JSON
    query: tuple[Query, ...] = ()
    errors: Mapping[int, str] = field(factory=dict)  # titles of problems of its own, by their status
    paged: bool = False  # it takes `limit` and `cursor`
    replaces: bool = False  # it heeds If-Match
    secret: bool = False  # its answer holds a secret, which is kept nowhere
    streams: bool = False  # its answer has no end of its own, and a client that hangs up ends it
    checks_caller: bool = False  # it checks itself what a caller without a token shows
    any_slash: bool = False  # a slash at the end of the path makes no difference

    @property
    def name(self) -> str:
        """Return the name of the route, such as `GET /api/v1/agents`; no other route has it."""
        return f"{self.method} {self.path}"

    @property
    def scope(self) -> str | None:
        """Return the scope that a caller needs; None: the route is open to all, without a token."""
        return self.does.scope

    @property
    def agent_parameter(self) -> str:
        """Return the name of the part of the path that is the name of an agent or host; empty if none is."""
        found = AGENT_IN_PATH.search(self.path)
        return "" if found is None else found[1] or found[2]

    @property
    def is_write(self) -> bool:
        """Return True if the route may change something."""
        return self.method not in ("GET", "HEAD")

    @property
    def is_page(self) -> bool:
        """Return True for a page of a browser: without a session it leads to the login, and OpenAPI leaves it out."""
        return self.kind == HTML

    @property
    def is_foreign(self) -> bool:
        """Return True if the route follows a convention of another project, which describes it."""
        return self.answer is None

    @property
    def has_dry_run(self) -> bool:
        """Return True if `dry_run` makes the route only say what would happen."""
        return self.is_write and not self.is_foreign

    @property
    def has_idempotency_key(self) -> bool:
        """Return True if a request that is sent twice with one Idempotency-Key is done once."""
        return self.method == "POST" and not self.streams and not self.is_foreign


class Routes:
    """Collects the routes of one module, in the order in which they are declared."""

    def __init__(self) -> None:
        self._routes: list[Route] = []

    def __iter__(self) -> Iterator[Route]:
        return iter(self._routes)

    def get(
        self, path: str, does: str | None, summary: str, *, answer: Any, kind: str = JSON,
        query: tuple[Query, ...] = (), errors: Mapping[int, str] | None = None, paged: bool = False,
        streams: bool = False,
    ) -> Callable[[Handler[P]], Handler[P]]:  # fmt: skip
        """Declare a route that reads."""
        return self._add("GET", path, does, summary, answer=answer, kind=kind, query=query, errors=errors or {},
                         paged=paged, streams=streams)  # fmt: skip

    def page(
        self, path: str, does: str | None, summary: str, *, query: tuple[Query, ...] = ()
    ) -> Callable[[Handler[P]], Handler[P]]:
        """Declare a page of HTML, which is no part of the API's description. `does` None: it is open to all."""
        return self._add("GET", path, does, summary, kind=HTML, query=query)

    def post(
        self, path: str, does: str, summary: str, *, body: type[B], answer: Any, kind: str = JSON, status: int = 200,
        action: str | None = None, errors: Mapping[int, str] | None = None, replaces: bool = False,
        secret: bool = False, streams: bool = False,
    ) -> Callable[[BodyHandler[B, P]], BodyHandler[B, P]]:  # fmt: skip
        """Declare a route that does something; its function gets the body as its class."""
        return self._add("POST", path, does, summary, body=body, answer=answer, kind=kind, status=status,
                         action=action, errors=errors or {}, replaces=replaces, secret=secret,
                         streams=streams)  # fmt: skip

    def post_raw(
        self, path: str, does: str, summary: str, *, body: type[Body], answer: Any, status: int, action: str,
        errors: Mapping[int, str] | None = None, replaces: bool = False,
    ) -> Callable[[Handler[P]], Handler[P]]:  # fmt: skip
        """Declare a route with a function that reads the body by itself; `body` says in OpenAPI what it may hold."""
        return self._add("POST", path, does, summary, body=body, reads_body=False, answer=answer, status=status,
                         action=action, errors=errors or {}, replaces=replaces)  # fmt: skip

    def put(
        self, path: str, does: str, summary: str, *, body: type[B], answer: Any, action: str,
        errors: Mapping[int, str] | None = None,
    ) -> Callable[[BodyHandler[B, P]], BodyHandler[B, P]]:  # fmt: skip
        """Declare a route that replaces a document, and heeds If-Match."""
        return self._add("PUT", path, does, summary, body=body, answer=answer, action=action, errors=errors or {},
                         replaces=True)  # fmt: skip

    def foreign(
        self, methods: str, path: str, does: str | None, summary: str, *, action: str | None = None,
        checks_caller: bool = False, any_slash: bool = False,
    ) -> Callable[[Handler[P]], Handler[P]]:  # fmt: skip
        """Declare a route of another project's convention, once for each of the methods (`"GET POST"`)."""

        def declare(handler: Handler[P]) -> Handler[P]:
            for method in methods.split():
                self._add(method, path, does, summary, action=action, checks_caller=checks_caller,
                          any_slash=any_slash)(handler)  # fmt: skip
            return handler

        return declare

    def _add(self, method: str, path: str, does: str | None, summary: str, **more: Any) -> Callable[[H], H]:
        action = named(does, more.get("checks_caller", False))

        def declare(handler: H) -> H:
            self._routes.append(Route(method=method, path=path, does=action, summary=summary, handler=handler, **more))
            return handler

        return declare
