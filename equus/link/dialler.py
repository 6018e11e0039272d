"""Keep one connection to some Helen: dial, wait, dial the next. The messages on it are for agent.py.

Twisted's ClientService does the dialling and waiting; route.py decides where, in which version and after how long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.application.internet import ClientService
from twisted.internet.defer import CancelledError, Deferred, maybeDeferred
from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS
from twisted.internet.error import ConnectingCancelledError
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from equus.link.connection import Connection
from equus.link.route import Route
from equus.link.trust import Trust, explain
from equus.settings import Server

CONNECT_WITHIN = 20.0  # seconds for one address to answer


@implementer(IStreamClientEndpoint)
class RouteEndpoint:
    """Connects ClientService to the server that the Route names at that moment.

    `trust` makes the TLS of an attempt, or None for plaintext. `failed` is called if a server can't be reached.
    """

    log = Logger()

    def __init__(
        self, reactor: Any, route: Route, trust: Callable[[Server], Trust | None], failed: Callable[[], None]
    ) -> None:
        self._reactor = reactor
        self._tell_failed = failed
        self._route = route
        self._make_trust = trust
        self.server = route.server
        self.trust: Trust | None = None

    def connect(self, factory: Any) -> Deferred[Any]:
        """Dial; a failure is logged and changes the Route before the returned Deferred fails."""
        self.server, self.trust = self._route.server, None
        return maybeDeferred(self._dial, factory).addErrback(self._failed)

    def _dial(self, factory: Any) -> Deferred[Any]:
        self.trust = self._make_trust(self.server)
        host = HostnameEndpoint(self._reactor, self.server.host, self.server.port, timeout=CONNECT_WITHIN)
        endpoint = host if self.trust is None else wrapClientTLS(self.trust, host)
        return endpoint.connect(factory)

    def _failed(self, failure: Failure) -> Failure:
        if not failure.check(CancelledError, ConnectingCancelledError):
            why = explain(failure)
            self.log.error("cannot reach {server}: {why}", server=self.server.address, why=why)
            self._route.ended(self._reactor.seconds())
            self._tell_failed()
        return failure

    def __repr__(self) -> str:
        return self.server.address


class Dialler:
    """Keeps the agent connected, one Connection at a time.

    `make` builds the Connection of an attempt; `trust` and `failed` are those of RouteEndpoint.
    """

    def __init__(
        self,
        reactor: Any,
        route: Route,
        trust: Callable[[Server], Trust | None],
        make: Callable[[], Connection],
        failed: Callable[[], None],
    ) -> None:
        self._endpoint = RouteEndpoint(reactor, route, trust, failed)
        self._service = ClientService(self._endpoint, _ConnectionFactory(make), lambda attempt: route.delay, reactor)

    @property
    def server(self) -> Server:
        """Return the server that was dialled last."""
        return self._endpoint.server

    @property
    def trouble(self) -> str | None:
        """Return why the peer of the last attempt was not believed to be Helen, or None."""
        return self._endpoint.trust.trouble if self._endpoint.trust else None

    def start(self) -> None:
        """Dial for the first time."""
        self._service.startService()

    def stop(self) -> Deferred[None]:
        """Stop dialling; the returned Deferred fires when the connection, if there is one, has ended."""
        return self._service.stopService()


class _ConnectionFactory(Factory):
    """Makes one Connection for each server that answers."""

    noisy = False

    def __init__(self, make: Callable[[], Connection]) -> None:
        self._make = make

    def buildProtocol(self, addr: Any) -> Connection:
        return self._make()
