"""The door for agents: accepts connections, counts strangers, and looks at everybody's deadlines once a tick."""

from __future__ import annotations

import ipaddress
from collections import Counter
from functools import lru_cache
from typing import Any

from twisted.internet.protocol import ServerFactory
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.protocols.tls import TLSMemoryBIOFactory, TLSMemoryBIOProtocol

from helen.connection import AgentConnection, House
from helen.outgoing import let_go

TICK_SECONDS = 0.5  # deadlines are 5 s and more; 10,000 connections take some milliseconds of it
MAX_STRANGERS = 200  # connections of one /24 (or /64) that have not said hello: a rack behind one address fits


@lru_cache(4_096)  # a fleet that comes back comes from few networks, one address at a time
def network_of(host: str) -> str:
    """What counts as one place: the /24 of an IPv4 address, the /64 of an IPv6 one."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    mapped = getattr(address, "ipv4_mapped", None) or address
    return str(ipaddress.ip_network((mapped, 24 if mapped.version == 4 else 64), strict=False))


class AgentDoor(ServerFactory):
    """A factory of connections. Strangers are those that are not admitted yet."""

    noisy = False
    log = Logger()

    def __init__(self, reactor: Any, house: House, encrypted: bool = True) -> None:
        self.connections: set[AgentConnection] = set()
        self.turned_away = 0
        self._house = house
        self._encrypted = encrypted
        self._strangers: Counter[str] = Counter()
        self._tick = LoopingCall(self.sweep)
        self._tick.clock = reactor

    def startFactory(self) -> None:
        self._tick.start(TICK_SECONDS, now=False)

    def stopFactory(self) -> None:
        if self._tick.running:
            self._tick.stop()

    def buildProtocol(self, addr: Any) -> AgentConnection | None:
        """None (a closed socket) for one stranger too many from one place."""
        place = network_of(getattr(addr, "host", "unix"))
        if self._strangers[place] >= MAX_STRANGERS:
            self.turned_away += 1
            return None
        connection = AgentConnection(self._house, self._encrypted)
        connection.factory = self
        return connection

    def arrived(self, connection: AgentConnection) -> None:
        self.connections.add(connection)
        self._strangers[network_of(connection.address)] += 1

    def no_stranger(self, connection: AgentConnection) -> None:
        """It has been admitted, or it has gone before that."""
        place = network_of(connection.address)
        self._strangers[place] -= 1
        if self._strangers[place] <= 0:
            del self._strangers[place]

    def gone(self, connection: AgentConnection) -> None:
        if connection in self.connections:
            self.connections.discard(connection)
            if not connection.admitted:
                self.no_stranger(connection)

    def sweep(self) -> None:
        """Once a tick. What goes wrong with one connection ends that one: the tick must go on for all others."""
        clocks = self._house.clocks()
        for connection in list(self.connections):
            try:
                connection.sweep(clocks.steady, clocks.wall)
            except Exception:
                self.log.failure("a connection's deadlines")
                connection.drop("a fault of Helen's; her log has it")


class AgentTLS(TLSMemoryBIOProtocol):  # type: ignore[misc]
    """Leaves nothing for the garbage collector: what an agent didn't read would else lie in a cycle, for hours."""

    def _tlsShutdownFinished(self, reason: Any) -> None:
        super()._tlsShutdownFinished(reason)
        if reason is not None:
            reason.cleanFailure()  # its traceback holds the frame that holds it

    def connectionLost(self, reason: Any) -> None:
        super().connectionLost(reason)
        self._producer = None
        let_go(self)


class TLSDoor(TLSMemoryBIOFactory):  # type: ignore[misc]
    """TLS in front of a door. Connections join their own writes, so Twisted's timer for that is left out."""

    protocol = AgentTLS
    noisy = False

    def __init__(self, creator: Any, door: AgentDoor) -> None:
        super().__init__(creator, False, door)

    def buildProtocol(self, addr: Any) -> Any:
        """Twisted's own would wrap a None, and fail at the first byte instead of closing the socket."""
        inner = self.wrappedFactory.buildProtocol(addr)
        return None if inner is None else self.protocol(self, inner)
