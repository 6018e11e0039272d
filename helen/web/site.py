"""Where the API is served: STATE/control.sock for whoever may read the state directory, TCP for holders of a token.

Here are connections and requests, and how much of them is kept in memory. Who may what is helen/web/gate.py's.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, succeed
from twisted.web.resource import IResource
from twisted.web.server import Request, Site

from helen.web.api import Api
from helen.web.bodies import MAX_BODY
from helen.web.gate import ControlDoor, Gate, WebDoor
from helen.web.problems import problem
from helen.web.tokens import WebTokens, load_token

if TYPE_CHECKING:
    from helen.tap import Helen

MAX_CLIENTS = 256  # connections of one site: each may have a request of MAX_BODY in memory
REQUEST_SECONDS = 60  # that a client may take to send its request


class Parts:
    """What the sites share."""

    def __init__(self, helen: Helen) -> None:
        self.helen = helen
        master = load_token(helen.state / "web.token")
        self.api = Api(helen, WebTokens(helen.store, helen.web_tokens, master, helen.streams.cut_token))


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

    is_shielded = False  # what it asks for is done to its end, even if whoever asked hangs up
    _is_refused = False
    _held: list[bytes] | None = None
    _release: Callable[[bytes], Deferred[Any]] = staticmethod(succeed)

    def hold(self, release: Callable[[bytes], Deferred[Any]]) -> None:
        """The answer is kept back until what `release` returns for it has fired."""
        self._held, self._release = [], release

    def write(self, data: bytes) -> None:
        if self._held is None:
            super().write(data)
        else:
            self._held.append(data)

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

    def connectionLost(self, reason: Any) -> None:
        """A deed goes on without whoever asked; those that wait for the end of it are told at its end."""
        if not self.is_shielded:
            super().connectionLost(reason)
            return
        waiting, self.notifications, content, self.content = self.notifications, [], self.content, None
        super().connectionLost(reason)
        self.notifications, self.content = waiting, content

    def finish(self) -> None:
        if self._held is not None:
            body, self._held = b"".join(self._held), None
            self._release(body).addBoth(lambda _: (self.write(body), self.finish()))
            return
        if not self._disconnected:
            super().finish()
            return
        self.finished = 1
        waiting, self.notifications = self.notifications, []
        for each in waiting:
            each.callback(None)


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
            del channel.connectionLost  # a cycle: the channel would wait for the garbage collector, its body with it
            lost(reason)

        channel.connectionLost = gone
        self._clients += 1
        return channel

    def log(self, request: Any) -> None:
        """Nothing."""


def control_site(parts: Parts) -> Site:
    """For the Unix socket: the file's mode is the guard."""
    return QuietSite(Gate(parts, ControlDoor()))


def web_site(parts: Parts) -> Site:
    """For TCP."""
    return QuietSite(Gate(parts, WebDoor(parts)))
