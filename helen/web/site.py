"""Serves the API: on STATE/control.sock for its owner, on TCP for holders of a token.

Here is how many connections there may be. helen/web/gate.py decides what a caller may do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, ensureDeferred, succeed
from twisted.internet.interfaces import IAddress
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel, Request, _GenericHTTPChannelProtocol
from twisted.web.iweb import INonQueuedRequestFactory
from twisted.web.resource import Resource
from twisted.web.server import Site
from zope.interface import directlyProvides

from helen.parts import Parts
from helen.storage.web_session_rows import WebSession
from helen.storage.web_token_rows import WebToken
from helen.web.connections.clients import Client, Clients, nothing
from helen.web.gate import ControlDoor, Gate, Pages, TcpDoor
from helen.web.past.recalled_strips import RecalledStrips
from helen.web.request import ApiRequest
from helen.web.routes.changes import past_changes
from helen.web.routes.registry import application
from helen.web.web_parts import WebParts

log = Logger()
MAX_DIGITS = 18  # of a Content-Length
REQUEST_SECONDS = 60  # of silence in the middle of a request, or between two of them


class Web:
    """Serves the API of one Helen on the Unix socket and on TCP; both share tokens, streams and routes."""

    def __init__(
        self, parts: Parts, tokens: tuple[WebToken, ...], sessions: tuple[WebSession, ...] = (),
        pages: Pages | None = None,
    ) -> None:  # fmt: skip
        self._parts = WebParts.of(parts, tokens, sessions)
        self._pages = pages
        self._app = application(self._parts, () if pages is None else pages.routes)
        self._recalled_strips = RecalledStrips(
            parts.reactor, self._parts.row_feed, lambda question: past_changes(self._parts, question)
        )
        self._recalling: Deferred[None] = succeed(None)

    def control_site(self) -> Site:
        """Return the site of the Unix socket: the mode of its file is the guard."""
        return QuietSite(Gate(self._parts, self._app, ControlDoor(), self._pages))

    def tcp_site(self) -> Site:
        """Return the site of TCP, for holders of a token."""
        return QuietSite(Gate(self._parts, self._app, TcpDoor(self._parts), self._pages))

    def sweep(self, now: float) -> None:
        """End the streams of tokens that have expired, and sessions and links that are over. `now`: unix seconds."""
        self._parts.tokens.sweep(now)
        self._parts.browsers.sweep(now)
        self._parts.links.sweep(now)

    def start(self) -> None:
        """Begin to keep the rows of boards, and to read what their strips lack of the time before."""
        self._parts.row_feed.start()
        self._recalling = ensureDeferred(self._recalled_strips.read())
        self._recalling.addErrback(lambda failure: failure.trap(CancelledError) and None)
        self._recalling.addErrback(lambda failure: log.failure("the strips of the time before this start", failure))

    def stop(self) -> None:
        """End all event streams, and questions that are not answered yet."""
        self._recalling.cancel()
        self._parts.row_feed.stop()
        self._parts.query_processes.stop()
        self._parts.streams.stop()


class CarefulChannel(HTTPChannel):
    """Refuses a Content-Length that Python reads no number of, which Twisted would log a traceback for."""

    def headerReceived(self, line: bytes) -> bool:
        """Take a header. False: it can't be one, and the client has been told."""
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and len(value.strip()) > MAX_DIGITS:
            self._respondToBadRequestAndDisconnect()
            return False
        return bool(super().headerReceived(line))


def careful_channel(site: Site) -> _GenericHTTPChannelProtocol:
    """Return the protocol of a new connection."""
    return _GenericHTTPChannelProtocol(CarefulChannel())


class QuietSite(Site):
    """Logs no line for a request: the API is polled, and what matters is in the audit."""

    protocol = careful_channel
    noisy = False
    displayTracebacks = False

    def __init__(self, resource: Gate | Resource) -> None:
        super().__init__(resource, requestFactory=ApiRequest, timeout=REQUEST_SECONDS)
        self._clients = Clients()
        self._most_body = resource.most_body if isinstance(resource, Gate) else ApiRequest.most_body

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """Return a channel for a new connection; None, which closes it, where all others are busy."""
        client = Client(str(getattr(addr, "host", "")))
        if not self._clients.add(client):
            return None
        channel = super().buildProtocol(addr)
        channel.requestFactory = self._requests_of(client)
        client.wait_for_head(self.reactor.callLater)
        make, lost = channel.makeConnection, channel.connectionLost

        def keep_transport(transport: Any) -> None:
            client.cut = transport.abortConnection
            del channel.makeConnection
            make(transport)

        def count_gone(reason: Failure) -> None:
            self._clients.remove(client)
            # Cycles, in which the channel would wait for the garbage collector, its body with it.
            del channel.connectionLost
            client.cut = nothing
            lost(reason)

        channel.makeConnection, channel.connectionLost = keep_transport, count_gone
        return channel

    def _requests_of(self, client: Client) -> Callable[[HTTPChannel], ApiRequest]:
        def begin(channel: HTTPChannel) -> ApiRequest:
            """Return the request whose first line is here."""
            request = ApiRequest(channel)
            request.connection = client
            request.most_body = self._most_body
            client.drop_body()
            client.wait_for_head(self.reactor.callLater)
            return request

        directlyProvides(begin, INonQueuedRequestFactory)
        return begin

    def log(self, request: Request) -> None:
        """Log nothing."""
