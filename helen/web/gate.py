"""Stands in front of every route: it finds the caller, decides if it may do what the route does, and writes the audit.

On TCP the Host header must be one of Helen's names, so that no foreign page can reach the API under a name that it has
pointed at this machine, and a token must be shown, or the cookie of a session (helen/web/login). A request that came
through carries its `caller`.
"""

from __future__ import annotations

import re
import time
from typing import Any, Protocol, cast

from klein import Klein
from twisted.logger import Logger
from twisted.web.iweb import IRequest
from twisted.web.resource import IResource
from werkzeug.exceptions import HTTPException
from zope.interface import implementer

from groundwork.authority import decide
from helen.storage.agent_rows import AuditEntry, audit
from helen.web.access import OWNER, STRANGER, Caller
from helen.web.answers import refuse
from helen.web.connections.web_tls import HSTS
from helen.web.etags import READS
from helen.web.idempotency import IdempotencyKeys
from helen.web.login.browser import check_csrf, cookie_of, demand_own_page, go_to_login, host_of
from helen.web.login.sessions import caller_of
from helen.web.problems import Problem, bad_request, problem_of, unauthorized
from helen.web.query import first_text
from helen.web.request import MAX_BODY, STRANGER_BODY, ApiRequest, credential
from helen.web.route import Route
from helen.web.routes.registry import BY_NAME
from helen.web.sight.limits import demand_review, limited, target_of
from helen.web.web_parts import WebParts, count_wrong_token

RESERVED = frozenset("api metrics livez readyz healthz ping nrdp v1 s public".split())  # first parts of paths, no pages
TELL_TOKEN = "send `Authorization: Bearer TOKEN`; the token lies in STATE/web.token"


class Pages(Protocol):
    """Describes the pages for browsers, helen.web.pages.registry, which stand above the API."""

    @property
    def routes(self) -> tuple[Route, ...]:
        """Return the routes of all pages."""

    def refuse(self, request: ApiRequest, problem: Problem) -> bytes:
        """Return the page that says what is wrong."""


class Door(Protocol):
    """Finds the caller on one kind of connection."""

    def caller(self, request: ApiRequest, route: Route | None) -> Caller:
        """Return the caller; `route` None: there is none. Raises Problem for a request that is not let in."""
        ...

    def most_body(self, request: ApiRequest) -> int:
        """Return how many bytes the body of a request may have, of which only the head is here."""
        ...


class ControlDoor:
    """Lets every client of the Unix socket in as the operator: the file's mode is the guard."""

    def caller(self, request: ApiRequest, route: Route | None) -> Caller:
        """Return the operator."""
        return OWNER

    def most_body(self, request: ApiRequest) -> int:
        """Return MAX_BODY: no stranger comes here."""
        return MAX_BODY


class TcpDoor:
    """Lets clients in on TCP that show one of Helen's names, and a token or the cookie of a session."""

    def __init__(self, parts: WebParts) -> None:
        self._parts = parts

    def caller(self, request: ApiRequest, route: Route | None) -> Caller:
        """Return the owner of the token, or of the session.

        Raises Problem for a foreign Host, a token or a cookie that opens nothing, and what a foreign page sends.
        """
        host, cookie = host_of(request), cookie_of(request)
        is_open, shows_token = route is not None and route.scope is None, bool(request.getHeader(b"authorization"))
        if cookie is not None and shows_token:
            raise bad_request("a request shows a token or the cookie of a session, not both")
        if is_open and not shows_token and (cookie is None or route is None or route.is_write or route.checks_caller):
            # Probes come by address, and learn nothing here that a stranger could use. Results from outside may come by
            # GET, which an image on a page of another port can send with our cookie: a cookie opens nothing there.
            return STRANGER
        if not self._is_our_name(host):
            raise Problem(421, "refused", "Host is not one of this Helen's names: give it with --name")
        if cookie is not None:
            return self._by_cookie(request, route, cookie, is_open)
        given = credential(request)
        if not given:
            raise unauthorized(TELL_TOKEN)
        return self._parts.tokens.caller(given.encode(), time.time())

    def most_body(self, request: ApiRequest) -> int:
        """Return MAX_BODY for a request that shows something good, STRANGER_BODY for another one.

        Its rights are looked at when it is here as a whole. NRDP has its key in the body.
        """
        path = request.target()
        if path.rstrip(b"/") == b"/nrdp" or self._is_ping(path):
            return MAX_BODY
        now, given = time.time(), credential(request)
        try:
            cookie = cookie_of(request)
            if cookie is not None:
                self._parts.browsers.find(cookie, now)
            elif not (given and self._parts.passive.knows_key(given)):
                self._parts.tokens.caller(given.encode(), now)
        except Problem:
            return STRANGER_BODY
        return MAX_BODY

    def _is_ping(self, path: bytes) -> bool:
        first, _, code = path.strip(b"/").partition(b"/")
        secret = code.decode("latin-1").partition("/")[0]
        pings = self._parts.pings
        return first == b"ping" and (pings.find(secret) is not None or pings.is_key(secret))

    def _by_cookie(self, request: ApiRequest, route: Route | None, cookie: str, is_open: bool) -> Caller:
        try:
            session = self._parts.browsers.find(cookie, time.time())
        except Problem:
            if is_open:
                return STRANGER
            raise
        if request.method not in READS:
            check_csrf(request, cookie)
        elif route is None or not route.is_page:
            demand_own_page(request)
        return caller_of(session)

    def _is_our_name(self, host: str) -> bool:
        host = host.lower()
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        settings = self._parts.live.settings
        ours = {"localhost", "127.0.0.1", "[::1]", *(each.lower() for each in settings.names)}
        web = settings.web
        return name in ours or (web is not None and name in (web[0], f"[{web[0]}]"))


@implementer(IResource)
class Gate:
    """Lets requests through to the application if their caller may make them."""

    isLeaf = True
    log = Logger()

    def __init__(self, parts: WebParts, app: Klein, door: Door, pages: Pages | None = None) -> None:
        self._parts = parts
        self._door = door
        self._pages = pages
        self._routes = BY_NAME | {route.name: route for route in (() if pages is None else pages.routes)}
        self._urls = app.url_map
        self._inner = app.resource()
        self._keys = IdempotencyKeys(parts.store, self._inner)

    def most_body(self, request: ApiRequest) -> int:
        """Return how many bytes the body of a request may have, of which only the head is here."""
        return self._door.most_body(request)

    def getChildWithDefault(self, name: bytes, request: ApiRequest) -> Gate:
        """Return the gate itself: it is one resource for all paths."""
        return self

    def putChild(self, path: bytes, child: object) -> None:
        """Raises NotImplementedError: nothing is served beside the API."""
        raise NotImplementedError("the API is one resource")

    def render(self, request: ApiRequest) -> Any:
        """Answer a request, or refuse it before its route is reached."""
        request.responseHeaders.removeHeader("server")  # whose version is no stranger's business
        request.setHeader("x-content-type-options", "nosniff")
        if request.isSecure():
            request.setHeader("strict-transport-security", HSTS)
        found = self._find(request)
        route = found if isinstance(found, Route) else None
        if self._pages is not None and (route.is_page if route is not None else _asks_for_page(request)):
            request.refuse_page = self._pages.refuse
        request.notifyFinish().addBoth(self._done, request, route)
        try:
            request.caller = self._caller(request, route)
            if route is not None:
                self._hold_to(request, request.caller, route)
        except Problem as problem:
            if route is not None and route.is_page and problem.status == 401:
                return go_to_login(request)
            return refuse(request, problem)
        self._let_in(request)
        if not isinstance(found, Route):
            return refuse(request, found)
        return self._render(request, found)

    def _let_in(self, request: ApiRequest) -> None:
        """Tell the connection that it is no stranger's any more, and that it is busy for as long as the request."""
        client = request.connection
        if client is None or request.caller is STRANGER:
            return
        client.is_let_in = True
        client.busy += 1

        def done(_: object) -> None:
            client.busy -= 1

        request.notifyFinish().addBoth(done)

    def _render(self, request: ApiRequest, route: Route) -> Any:
        if route.streams:
            self._parts.open_answers.add(request)
        request.is_shielded = route.is_write and not route.streams
        has_key = request.method == b"POST" and request.getHeader(b"idempotency-key") is not None
        if has_key and not route.checks_caller:  # whose callers have no names: it knows their ids
            return self._keys.render(request, route)
        return self._inner.render(cast(IRequest, request))  # which Twisted says in a way that mypy does not read

    def _caller(self, request: ApiRequest, route: Route | None) -> Caller:
        try:
            return self._door.caller(request, route)
        except Problem as problem:
            if problem.status != 401:
                raise
            if route is not None and route.checks_caller:
                return STRANGER  # what was shown is no token: the route may know it
            if credential(request):
                count_wrong_token(self._parts, request)
            raise

    def _hold_to(self, request: ApiRequest, caller: Caller, route: Route) -> None:
        """Raise Problem if the caller may not do this: it lacks the scope, or is limited to other agents.

        The agent is that of the path or of `?agent=`; those of a body are judged when it is read.
        """
        refusal, agent = decide(caller, route.does), request.agent or first_text(request, "agent")
        if refusal is None and agent:
            refusal = decide(caller, route.does, target_of(self._parts, agent))
        if refusal is None:
            demand_review(caller, route.does, route.name)
            return
        if caller is STRANGER:
            raise Problem(401, "refused", TELL_TOKEN)
        self.log.info("{why}, at {path}", why=refusal.why, path=request.path.decode())
        scope = refusal.scope
        if not scope:
            raise limited(refusal.why)
        detail = f"the token {caller.token!r} lacks the scope `{scope}`: `helen web-token add` makes one that has it"
        if caller.session is not None:
            detail = f"this session lacks the scope `{scope}`: `helen open --scope {scope}` begins one that has it"
        how = f'Bearer realm="helen", error="insufficient_scope", scope="{scope}"'
        raise Problem(403, "scope missing", detail, {"www-authenticate": how})

    def _done(self, _: object, request: ApiRequest, route: Route | None) -> None:
        """Count the request at its end, and write a command into the audit, with its caller."""
        if request.connection is not None:
            request.connection.drop_body()
        self._parts.telemetry.requests.count(f"{request.code // 100}xx")
        if route is None or route.action is None or request.is_dry_run or request.code >= 400:
            return
        at = getattr(request.getClientAddress(), "host", "control.sock")
        entry = AuditEntry(time.time(), request.caller.actor, route.action, request.subject[:200], at)
        written = self._parts.store.call(audit, entry)
        written.addErrback(lambda failure: self.log.error("the audit: {why}", why=failure.getErrorMessage()))

    def _find(self, request: ApiRequest) -> Route | Problem:
        """Return the route of a request, or why there is none."""
        if b"//" in request.path:  # Werkzeug would take it for another path
            meant = re.sub("//+", "/", request.path.decode("latin-1"))
            return Problem(404, "not found", f"nothing is here; perhaps {meant} is meant")
        path = b"/" + b"/".join(request.postpath or ())
        try:
            name, given = self._urls.bind("helen").match(path.decode(), request.method.decode("ascii", "replace"))
        except UnicodeDecodeError:
            return Problem(404, "not found", "nothing is here: the path is no UTF-8")
        except HTTPException as error:
            return problem_of(error) or Problem(404, "not found", "nothing is here")
        route = self._routes[name]
        request.subject = "/".join(str(value) for value in given.values())
        request.agent = str(given.get(route.agent_parameter, ""))
        return route


def _asks_for_page(request: ApiRequest) -> bool:
    """Return True if a path that is no route shall be answered with a page: a browser asks, and not for the API."""
    first = (request.postpath or [b""])[0].decode("latin-1")
    return first not in RESERVED and "text/html" in (request.getHeader(b"accept") or b"").decode("latin-1")
