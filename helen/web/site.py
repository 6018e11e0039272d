"""Where the API is served: STATE/control.sock for whoever may read the state directory, TCP for holders of the token.

The token lies in STATE/web.token (0600). On TCP the Host header must be one of ours, so that no page of somebody else's
can reach the API under a name that it has pointed at this machine.
"""

from __future__ import annotations

import hmac
import secrets
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twisted.web.resource import IResource
from twisted.web.server import Request, Site
from zope.interface import implementer

from helen.statedir import read_private, write_whole
from helen.web.api import Api
from helen.web.bodies import MAX_BODY
from helen.web.problems import problem, refuse

if TYPE_CHECKING:
    from helen.tap import Helen

TOKEN_BYTES = 32
MAX_CLIENTS = 256  # connections of one site: each may have a request of MAX_BODY in memory
REQUEST_SECONDS = 60  # that a client may take to send its request


class Parts:
    """What the sites share."""

    def __init__(self, helen: Helen) -> None:
        self.helen = helen
        self.api = Api(helen)
        self.token = load_token(helen.state / "web.token")


def load_token(path: Path) -> str:
    """The bearer token of the TCP side, made when it is missing. Blocks: at start only."""
    if not path.exists():
        write_whole(path, secrets.token_urlsafe(TOKEN_BYTES).encode() + b"\n")
    return read_private(path).decode().strip()


class BoundedRequest(Request):  # type: ignore[misc]
    """Keeps a body in memory, up to MAX_BODY; one that is announced or grows beyond it is refused and not read."""

    def gotLength(self, length: int | None) -> None:
        self.content = BytesIO()
        if length is not None and length > MAX_BODY:
            self._refuse()

    def handleContentChunk(self, data: bytes) -> None:
        if self.content.tell() + len(data) > MAX_BODY:
            self._refuse()
        elif not self._is_refused:
            self.content.write(data)

    _is_refused = False

    def _refuse(self) -> None:
        """While the request is still coming in there is no answer that Twisted would send."""
        if self._is_refused:
            return
        self._is_refused = True
        body = problem(413, "too large", f"a request holds at most {MAX_BODY} bytes")
        head = ("HTTP/1.1 413 Content Too Large", "content-type: application/problem+json", "connection: close")
        lines = "".join(f"{line}\r\n" for line in (*head, f"content-length: {len(body)}", ""))
        self.channel.transport.write(lines.encode() + body)
        self.channel.loseConnection()


class QuietSite(Site):  # type: ignore[misc]
    """Logs no line per request: the API is polled, and what matters is in the audit."""

    noisy = False
    displayTracebacks = False

    def __init__(self, resource: IResource) -> None:
        super().__init__(resource, requestFactory=BoundedRequest, timeout=REQUEST_SECONDS)
        self._clients = 0

    def buildProtocol(self, addr: Any) -> Any:
        """None (a closed socket) for one client too many."""
        if self._clients >= MAX_CLIENTS:
            return None
        channel = super().buildProtocol(addr)
        lost = channel.connectionLost

        def gone(reason: Any) -> None:
            self._clients -= 1
            lost(reason)

        channel.connectionLost = gone
        self._clients += 1
        return channel

    def log(self, request: Any) -> None:
        """Nothing."""


def control_site(parts: Parts) -> Site:
    """For the Unix socket: the file's mode is the guard."""
    return QuietSite(parts.api.app.resource())


def web_site(parts: Parts) -> Site:
    """For TCP."""
    return QuietSite(Guard(parts.api.app.resource(), parts))


@implementer(IResource)
class Guard:
    """Lets requests through that come under one of our names and carry the token."""

    isLeaf = True

    def __init__(self, inner: Any, parts: Parts) -> None:
        self._inner = inner
        self._parts = parts

    def getChildWithDefault(self, name: bytes, request: Any) -> Any:
        return self

    def putChild(self, path: bytes, child: Any) -> None:
        raise NotImplementedError("the API is one resource")

    def render(self, request: Any) -> Any:
        if not self._is_our_name(request):
            return self._refuse(request, 421, "Host is not one of this Helen's names: give it with --name")
        given = request.getHeader(b"authorization") or b""
        if not hmac.compare_digest(given, f"Bearer {self._parts.token}".encode()):
            request.setHeader("www-authenticate", 'Bearer realm="helen"')
            return self._refuse(request, 401, "send `Authorization: Bearer TOKEN`; the token lies in STATE/web.token")
        return self._inner.render(request)

    def _is_our_name(self, request: Any) -> bool:
        host = (request.getHeader(b"host") or b"").decode("ascii", "replace").rpartition("@")[2].lower()
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        ours = {"localhost", "127.0.0.1", "[::1]", *(n.lower() for n in self._parts.helen.settings.names)}
        web = self._parts.helen.settings.web
        return name in ours or (web is not None and name in (web[0], f"[{web[0]}]"))

    def _refuse(self, request: Any, status: int, detail: str) -> bytes:
        return refuse(request, status, "refused", detail)
