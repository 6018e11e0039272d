"""Accepts connections of agents, with TLS or without, and looks at the deadlines of all of them once a tick."""

from __future__ import annotations

from collections import deque
from typing import Any

from twisted.internet.protocol import ServerFactory, connectionDone
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.protocols.tls import TLSMemoryBIOFactory, TLSMemoryBIOProtocol

from helen.sessions.connection import AgentConnection, Clocks, ConnectionOwner
from helen.sessions.fair_turns import FairTurns
from helen.sessions.open_connections import OpenConnections
from helen.sessions.stranger_lines import StrangerLines
from helen.sessions.unsent_bytes import release

ACCEPTS = 4  # connections in one turn, 24 while more wait: each costs half a millisecond before its first byte
TICK_SECONDS = 0.5  # deadlines are 5 s and more; 10,000 connections take some milliseconds of it
SWEEP_SECONDS = 0.003  # of one turn: to end a connection takes 0.2 ms, and a network that fails ends thousands


class AgentListener(ServerFactory):
    """Makes a connection for each agent that comes; the owner puts it into `connections`."""

    noisy = False
    log = Logger()

    def __init__(
        self, reactor: Any, owner: ConnectionOwner, connections: OpenConnections, encrypted: bool = True
    ) -> None:
        self._owner, self._connections, self._encrypted = owner, connections, encrypted
        self.stranger_lines = StrangerLines()
        self._tick = LoopingCall(self.sweep)
        self._tick.clock = self._reactor = reactor
        self._unswept: deque[AgentConnection] = deque()  # whose deadlines are still to be looked at
        self._next_turn: Any = None
        self._port: Any = None

    def startFactory(self) -> None:
        """Begin to look at deadlines."""
        self._tick.start(TICK_SECONDS, now=False)

    def stopFactory(self) -> None:
        """End it."""
        if self._tick.running:
            self._tick.stop()
        self._unswept.clear()
        if self._next_turn is not None:
            self._next_turn.cancel()
            self._next_turn = None

    def accepts_on(self, port: Any) -> None:
        """Accept some connections in a turn, not hundreds: Twisted's Port takes 20 more with each turn of a flood."""
        self._port = port

    def buildProtocol(self, addr: Any) -> AgentConnection | None:
        """Return a connection; for one stranger too many another one goes. None (no room at all) closes the socket."""
        if self._port is not None:
            self._port.numberAccepts = ACCEPTS
        if not self._connections.make_room(getattr(addr, "host", "unix")):
            return None
        connection = AgentConnection(self._owner, self._encrypted)
        connection.factory = self
        return connection

    def sweep(self) -> None:
        """Look at every deadline, in turns. A look that is not over by the next tick goes on instead of it."""
        if not self._unswept:
            self._unswept.extend(self._connections)
            self._sweep_on()

    def _sweep_on(self) -> None:
        self._next_turn, clocks = None, self._owner.clocks()
        until = self._owner.steady() + SWEEP_SECONDS
        while self._unswept:
            self._sweep_one(self._unswept.popleft(), clocks)
            if self._unswept and self._owner.steady() >= until:
                self._next_turn = self._reactor.callLater(0, self._sweep_on)
                return

    def _sweep_one(self, connection: AgentConnection, clocks: Clocks) -> None:
        """Look at its deadlines. A fault with one connection ends that one: the tick must go on for all others."""
        if connection not in self._connections:  # it has ended since the look began
            return
        try:
            connection.sweep(clocks.steady, clocks.wall)
        except Exception:
            self.log.failure("a connection's deadlines")
            connection.drop("a fault of Helen's; its log has it")


class AgentTLS(TLSMemoryBIOProtocol):
    """Lets handshakes wait for their turn: one takes milliseconds, and a flood of them would delay every agent.

    It leaves nothing for the garbage collector: what an agent didn't read would else lie in a cycle, for hours.
    """

    factory: TLSListener
    transport: Any
    has_spoken = False
    is_trusted = False  # the handshake is done
    _waiting = b""  # bytes of a handshake that waits for its turn

    def dataReceived(self, data: bytes) -> None:
        """Take bytes at once from an agent, and from a stranger when there is time."""
        if self.is_trusted:
            super().dataReceived(data)
            return
        self.has_spoken = True
        self.is_trusted = bool(self._handshakeDone)
        if self.is_trusted or (not self._waiting and self.factory.has_time()):
            super().dataReceived(data)
            return
        self._waiting += data
        self.transport.pauseProducing()
        self.factory.later(self)

    def listen(self) -> None:
        """Go on with a handshake that has waited."""
        data, self._waiting = self._waiting, b""
        if data and self.transport is not None:
            self.transport.resumeProducing()
            super().dataReceived(data)

    def flush(self) -> None:
        """Write nothing: what is said waits with the connection behind."""

    def _tlsShutdownFinished(self, reason: Any) -> None:
        super()._tlsShutdownFinished(reason)
        if reason is not None:
            reason.cleanFailure()  # its traceback holds the frame that holds it

    def connectionLost(self, reason: Any = connectionDone) -> None:
        """Give back what the transport still holds."""
        self._waiting = b""
        self.factory.forget(self)
        super().connectionLost(reason)
        self._producer = None
        release(self)


class TLSListener(TLSMemoryBIOFactory):
    """Puts TLS in front of a listener. Connections join their own writes, so Twisted's timer for that is left out."""

    protocol = AgentTLS
    noisy = False

    def __init__(self, creator: Any, listener: Any, turns: FairTurns) -> None:
        super().__init__(creator, False, listener)
        self.has_time, self.later, self.forget = turns.has_time, turns.later, turns.forget

    def buildProtocol(self, addr: Any) -> Any:
        """Return None where the listener does; Twisted's own would wrap it, and fail at the first byte."""
        inner = self.wrappedFactory.buildProtocol(addr)
        return None if inner is None else self.protocol(self, inner)
