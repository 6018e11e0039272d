"""Keeps one connection to some Helen: dials, waits, dials the next. What is said on it is agent.py's business.

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

from equus.connection import Connection
from equus.route import Route
from equus.settings import Server
from equus.trust import Trust, explain

CONNECT_WITHIN = 20.0  # seconds for one address to answer


@implementer(IStreamClientEndpoint)
class Dial:
    """The endpoint that ClientService connects to: wherever the route points at that moment."""

    log = Logger(namespace="equus.link")

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


class Link:
    """`make` builds the Connection for a dial; `failed` hears that nobody could be reached."""

    def __init__(
        self,
        reactor: Any,
        route: Route,
        trust: Callable[[Server], Trust | None],
        make: Callable[[], Connection],
        failed: Callable[[], None],
    ) -> None:
        self.dial = Dial(reactor, route, trust, failed)
        self._service = ClientService(self.dial, _Greeter(make), lambda attempt: route.delay, reactor)

    @property
    def server(self) -> Server:
        """The one that was dialled last."""
        return self.dial.server

    @property
    def trouble(self) -> str | None:
        """Why whoever answered there was not believed to be Helen."""
        return self.dial.trust.trouble if self.dial.trust else None

    def start(self) -> None:
        self._service.startService()

    def stop(self) -> Deferred[None]:
        """Fires when the connection, if there is one, has ended."""
        return self._service.stopService()


class _Greeter(Factory):
    """One Connection for each time that somebody answers."""

    noisy = False

    def __init__(self, make: Callable[[], Connection]) -> None:
        self._make = make

    def buildProtocol(self, addr: Any) -> Connection:
        return self._make()
