"""In front of every route: who calls, whether the table lets them, and only then the route itself.

On TCP the Host header must be one of ours, so that no page of somebody else's can reach the API under a name that it
has pointed at this machine, and a token must be shown. A request that came through carries its `caller`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

from twisted.logger import Logger
from twisted.web.resource import IResource
from werkzeug.exceptions import HTTPException
from zope.interface import implementer

from helen.records import AuditEntry, audit
from helen.web.access import NOBODY, OWNER, Caller, credential
from helen.web.described import BY_KEY
from helen.web.once import Once
from helen.web.problems import Problem, refuse_problem
from helen.web.table import Route

if TYPE_CHECKING:
    from helen.web.site import Parts

TELL_TOKEN = "send `Authorization: Bearer TOKEN`; the token lies in STATE/web.token"


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
        request.setHeader("www-authenticate", 'Bearer realm="helen"')
        given = credential(request)
        if not given:
            raise Problem(401, "refused", TELL_TOKEN)
        caller = self._parts.api.tokens.caller(given.encode(), time.time())
        request.responseHeaders.removeHeader("www-authenticate")
        return caller

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
    log = Logger()

    def __init__(self, parts: Parts, door: Door) -> None:
        self._parts = parts
        self._door = door
        self._inner = parts.api.app.resource()
        self._once = Once(parts.helen.store, self._inner)

    def getChildWithDefault(self, name: bytes, request: Any) -> Any:
        return self

    def putChild(self, path: bytes, child: Any) -> None:
        raise NotImplementedError("the API is one resource")

    def render(self, request: Any) -> Any:
        request.is_dry_run, request.subject = False, ""
        route = self._route(request)
        request.notifyFinish().addBoth(lambda _: self._done(request, route))
        try:
            request.caller = self._caller(request, route)
            if route is not None:
                self._judge(request, request.caller, route.scope)
        except Problem as problem:
            return refuse_problem(request, problem)
        request.is_shielded = route is not None and route.is_write and not route.streams
        keyed = request.method == b"POST" and request.getHeader(b"idempotency-key") is not None
        if keyed and route is not None and not route.own:  # whose callers have no names: their ids are looked at there
            return self._once.render(request, route)
        return self._inner.render(request)

    def _caller(self, request: Any, route: Route | None) -> Caller:
        try:
            return self._door.caller(request, route is not None and route.scope is None)
        except Problem as problem:
            if route is None or not route.own or problem.status != 401:
                raise
            request.responseHeaders.removeHeader(b"www-authenticate")
            return NOBODY  # what was shown is no token: the route may know it

    def _judge(self, request: Any, caller: Caller, scope: str | None) -> None:
        if caller.may(scope):
            return
        if caller is NOBODY:
            raise Problem(401, "refused", TELL_TOKEN)
        self.log.info("{actor} lacks {scope} for {path}", actor=caller.actor, scope=scope, path=request.path.decode())
        request.setHeader("www-authenticate", f'Bearer realm="helen", error="insufficient_scope", scope="{scope}"')
        said = f"the token {caller.token!r} lacks the scope `{scope}`: `helen web-token add` makes one that has it"
        raise Problem(403, "scope missing", said)

    def _done(self, request: Any, route: Route | None) -> None:
        """The answer is out, or nobody wants it any more. Deeds are written into the audit, with who did them."""
        self._parts.helen.telemetry.requests.count(f"{request.code // 100}xx")
        if route is None or route.action is None or request.is_dry_run or request.code >= 400:
            return
        at = getattr(request.getClientAddress(), "host", "control.sock")
        entry = AuditEntry(time.time(), request.caller.actor, route.action, request.subject[:200], at)
        written = self._parts.helen.store.call(audit, entry)
        written.addErrback(lambda failure: self.log.error("the audit: {why}", why=failure.getErrorMessage()))

    def _route(self, request: Any) -> Route | None:
        """The row of the table; None where nothing is, and the application says so itself."""
        path = b"/" + b"/".join(request.postpath)
        method = request.method.decode("ascii", "replace")
        try:
            text = path.decode()
            rule, given = self._parts.api.app.url_map.bind("helen").match(text, method, return_rule=True)
        except (HTTPException, UnicodeDecodeError):
            return None
        request.subject = "/".join(str(value) for value in given.values())
        found = BY_KEY.get(("GET" if method == "HEAD" else method, rule.rule))
        return found or Route(method, rule.rule, "admin", "not described")
