"""In front of every route: who calls, whether the table lets them, and only then the route itself.

On TCP the Host header must be one of ours, so that no page of somebody else's can reach the API under a name that it
has pointed at this machine, and a token must be shown. A request that came through carries its `caller`.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any, Protocol

from twisted.web.resource import IResource
from werkzeug.exceptions import HTTPException
from zope.interface import implementer

from helen.web.access import KEEPER, NOBODY, OWNER, Caller
from helen.web.described import BY_KEY
from helen.web.problems import Problem, refuse_problem
from helen.web.table import Route

if TYPE_CHECKING:
    from helen.web.site import Parts

PREFIX = b"Bearer "


class Door(Protocol):
    """Who is it that comes in here?"""

    def caller(self, request: Any, is_open: bool) -> Caller:
        """`is_open`: the page is for everybody. Raises Problem."""
        ...


class ControlDoor:
    """The Unix socket: whoever may open it may everything."""

    def caller(self, request: Any, is_open: bool) -> Caller:
        return OWNER


class WebDoor:
    """TCP: a name of ours, and a token."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def caller(self, request: Any, is_open: bool) -> Caller:
        if is_open and not request.getHeader(b"authorization"):
            return NOBODY  # probes come by address, and learn nothing here that a stranger could use
        if not self._is_our_name(request):
            raise Problem(421, "refused", "Host is not one of this Helen's names: give it with --name")
        given = request.getHeader(b"authorization") or b""
        if not given.startswith(PREFIX) or not hmac.compare_digest(given[len(PREFIX) :], self._parts.token.encode()):
            request.setHeader("www-authenticate", 'Bearer realm="helen"')
            raise Problem(401, "refused", "send `Authorization: Bearer TOKEN`; the token lies in STATE/web.token")
        return KEEPER

    def _is_our_name(self, request: Any) -> bool:
        host = (request.getHeader(b"host") or b"").decode("ascii", "replace").rpartition("@")[2].lower()
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        ours = {"localhost", "127.0.0.1", "[::1]", *(n.lower() for n in self._parts.helen.settings.names)}
        web = self._parts.helen.settings.web
        return name in ours or (web is not None and name in (web[0], f"[{web[0]}]"))


@implementer(IResource)
class Gate:
    """Lets requests through that somebody may make."""

    isLeaf = True

    def __init__(self, parts: Parts, door: Door) -> None:
        self._parts = parts
        self._door = door
        self._inner = parts.api.app.resource()

    def getChildWithDefault(self, name: bytes, request: Any) -> Any:
        return self

    def putChild(self, path: bytes, child: Any) -> None:
        raise NotImplementedError("the API is one resource")

    def render(self, request: Any) -> Any:
        route = self._route(request)
        request.notifyFinish().addBoth(lambda _: self._parts.helen.telemetry.requests.count(f"{request.code // 100}xx"))
        try:
            request.caller = self._door.caller(request, route is not None and route.scope is None)
            if route is not None:
                self._judge(request.caller, route.scope)
        except Problem as problem:
            return refuse_problem(request, problem)
        return self._inner.render(request)

    def _judge(self, caller: Caller, scope: str | None) -> None:
        if not caller.may(scope):
            name = "this token" if caller.token is None else f"the token {caller.token!r}"
            raise Problem(403, "scope missing", f"{name} lacks the scope `{scope}`: `helen web-token add` makes others")

    def _route(self, request: Any) -> Route | None:
        """The row of the table; None where nothing is, and the application says so itself."""
        path = b"/" + b"/".join(request.postpath)
        method = request.method.decode("ascii", "replace")
        try:
            text = path.decode()
            rule, _ = self._parts.api.app.url_map.bind("helen").match(text, method, return_rule=True)
        except (HTTPException, UnicodeDecodeError):
            return None
        found = BY_KEY.get(("GET" if method == "HEAD" else method, rule.rule))
        return found or Route(method, rule.rule, "admin", "not described")
