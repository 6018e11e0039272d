"""Serves the TLS connections of all agents from one epoll set of its own, which is one reader of the reactor.

Twisted's transport costs 44 us for a result, this 13 to 15: the reactor looks at one descriptor, and a connection's
bytes go from the kernel to its protocol and back in one call. Agents whose handshake is done come before those that
shake hands and before those that knock: a flood of strangers delays strangers. While agents flood, strangers take
turns with all else that works long (helen.turn_rotation).
"""

from __future__ import annotations

import errno
import math
import select
import socket
from collections import deque
from typing import Any

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import IReadDescriptor
from twisted.logger import Logger
from zope.interface import implementer

from helen.sessions.fair_turns import FairTurns
from helen.sessions.hub_transport import HubTransport

EVENTS = 256  # connections of one look: some milliseconds of work
LOOKS = 20  # times what a look took, until the next one while agents wait
LOOK_MOST = 0.001  # seconds between two looks, however long one took: it may have waited for the interpreter
CALM_LOOK = 0.010  # seconds between two while agents wait and none floods: 4 ms cost a fifth of a result
STRANGERS = 0.0005  # seconds for them in a turn, the last one of them on top: a handshake takes more
ACCEPTS = 4  # connections in one turn: each costs half a millisecond before its first byte
REST_SECONDS = 1.0  # without a descriptor or memory for another connection, none is accepted for so long
_READS = select.EPOLLIN
_WRITES = select.EPOLLOUT
_BROKEN = select.EPOLLHUP | select.EPOLLERR
_SHORT_OF = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


@implementer(IReadDescriptor)
class TLSHub:
    """Accepts on a port of Twisted that does not read itself, and has what a port is asked for.

    `creator` makes the TLS state of a connection (ServerTLS), `listener` its protocol (AgentListener).
    """

    log = Logger()

    def __init__(self, reactor: Any, port: Any, creator: Any, listener: Any, turns: FairTurns) -> None:
        port.stopReading()
        self._steady = turns.steady
        self._reactor, self._port = reactor, port
        self._creator, self._listener, self._turns = creator, listener, turns
        self._host = port.getHost()
        self._epoll = select.epoll()
        self._knocking = port.fileno()
        self._is_accepting = False
        self._has_knocked = False
        self._is_stopped = False  # nobody else is let in
        self._is_lost = False  # the reactor gives no further turns
        self._rest: Any = None
        self._transports: dict[int, HubTransport] = {}
        self._events: dict[HubTransport, int] = {}  # what each is waited for
        self._turn = 0  # counts the turns
        self._new: deque[tuple[HubTransport, int]] = deque()  # agents of whom something came in this turn
        self._waiting: dict[HubTransport, int] = {}  # agents that are heavy
        self._late: dict[HubTransport, int] = {}  # others of an earlier turn, whose bytes were not read yet
        self._look_at = 0.0  # by the clock of the turns: no earlier while agents wait
        self._strangers: dict[HubTransport, int] = {}
        self._is_greeting = False  # strangers have asked for a turn in the rotation
        self._has_shaken = False  # the last such turn was for a handshake
        self._is_asking = False  # heavy agents have asked for a turn in the rotation
        self._ended: deque[tuple[Any, tuple[Any, ...]]] = deque()  # calls that tell protocols of their end
        self._telling: Any = None  # the call that makes them
        reactor.addReader(self)

    def __len__(self) -> int:
        return len(self._transports)

    # ---------------------------------------------------------------------------------------------- as a port

    def startReading(self) -> None:
        """Accept connections."""
        if not self._is_accepting and not self._is_stopped:
            self._is_accepting = True
            self._epoll.register(self._knocking, _READS)

    def stopReading(self) -> None:
        """Accept none for now: they wait in the kernel."""
        if self._is_accepting:
            self._is_accepting = self._has_knocked = False
            self._epoll.unregister(self._knocking)

    def stopListening(self) -> Any:
        """Close the port. Connections that are open stay, and the hub ends with the last of them."""
        self.stopReading()
        self._is_stopped = True
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
        self._end_if_empty()
        return self._port.stopListening()

    def getHost(self) -> Any:
        """Return the address that agents connect to."""
        return self._host

    # ---------------------------------------------------------------------------------------------- as a reader

    def fileno(self) -> int:
        """Return the descriptor of the set, -1 when it is closed."""
        return -1 if self._epoll.closed else int(self._epoll.fileno())

    def logPrefix(self) -> str:
        """Return the name that Twisted's log has for this reader."""
        return "hub"

    def connectionLost(self, reason: Any) -> None:
        """End everything: the reactor has stopped, or the set itself has failed."""
        self.stopReading()
        self._is_stopped = self._is_lost = True
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        self._tell(math.inf)
        for transport in list(self._transports.values()):
            transport.abortConnection()
        self._end_if_empty()

    def doRead(self) -> None:
        """Serve those that have bytes or room, until this turn's time is over.

        Among those that sent something now, the one that was served longest ago comes first. Heavy ones wait, as do all
        that this turn has no time for: an agent that seldom says anything does not wait for a hundred that always do.
        While an agent floods, heavy ones have a turn in the rotation. While none does, one of them is served in each
        turn, and the kernel is asked again each CALM_LOOK only, since a look finds all of a thousand agents that
        wait.
        """
        until = self._turns.begin()
        self._turn += 1
        if not (self._waiting or self._late) or self._look_at <= self._steady():
            self._look()
        self._serve_new(until)
        self._serve_waiting(until)
        self._late.update(self._new)
        self._new.clear()
        if (self._strangers or self._has_knocked) and not self._ended:  # one that comes back finds itself gone
            self._greet_soon()

    def _serve_new(self, until: float) -> None:
        new, serve, steady = self._new, self._serve, self._steady
        while new:
            serve(*new.popleft())
            if steady() >= until:
                return

    def _serve_waiting(self, until: float) -> None:
        """Serve a late one and, while none floods, a heavy one in any case; others of both kinds if there is time.

        Late ones have said little: with a turn in the rotation for each, a thousand that spoke at once would wait for
        seconds.
        """
        is_pressed = self._turns.rotation.is_pressed()
        if self._waiting and is_pressed:
            self._ask()
        elif self._waiting:
            self._serve(*_first(self._waiting))
        while self._late:
            self._serve(*_first(self._late))
            if self._steady() >= until:
                return
        while self._waiting and not is_pressed and self._steady() < until:
            self._serve(*_first(self._waiting))

    def _ask(self) -> None:
        """Ask for a turn in the rotation for the heavy ones."""
        if not self._is_asking:
            self._is_asking = True
            self._turns.rotation.soon(self._serve_one)

    def _serve_one(self) -> None:
        """Serve the heavy one that has waited longest, in the turn of those."""
        self._is_asking = False
        if self._waiting:
            self._serve(*_first(self._waiting))

    def _look(self) -> None:
        """Ask the kernel who has bytes or room. A look takes a twentieth of the time until the next one at most."""
        began = self._steady()
        waiting, late, new = self._waiting, self._late, list[tuple[HubTransport, int]]()
        for descriptor, event in self._epoll.poll(0, EVENTS):
            transport = self._transports.get(descriptor)
            if transport is None:
                self._has_knocked = True
            elif transport.is_stranger:
                self._strangers[transport] = event
            elif transport in late:
                late[transport] = event
            elif transport.is_heavy:
                waiting[transport] = event
            else:
                new.append((transport, event))
        self._new.extend(sorted(new, key=_served_at))
        now = self._steady()
        is_pressed = now < self._turns.rotation.pressed_until
        self._look_at = now + (min(LOOK_MOST, LOOKS * (now - began)) if is_pressed else CALM_LOOK)

    def _greet_soon(self) -> None:
        """Serve strangers now, or while agents flood when it is their turn."""
        rotation = self._turns.rotation
        if self._steady() >= rotation.pressed_until:
            self._serve_strangers()
        elif not self._is_greeting:
            self._is_greeting = True
            rotation.soon(self._greet)

    def _greet(self) -> None:
        """Go on with one handshake or accept one connection, by turns if both wait."""
        self._is_greeting = False
        if self._strangers and not (self._has_knocked and self._has_shaken):
            self._has_shaken = True
            self._serve(*_first(self._strangers))
        elif self._has_knocked:
            self._has_knocked = self._has_shaken = False
            self._accept(1)

    def _serve_strangers(self) -> None:
        """Go on with handshakes, then accept; one of each in any turn: busy agents would else shut them out."""
        until = self._steady() + STRANGERS
        while self._strangers:
            self._serve(*_first(self._strangers))
            if self._steady() >= until or not self._turns.has_time():
                break
        if self._has_knocked:
            self._has_knocked = False
            self._accept(ACCEPTS)

    def _serve(self, transport: HubTransport, event: int) -> None:
        """Let a connection read or write. A fault with one ends that one."""
        transport.served_at = self._turn
        try:
            if event & _READS:
                transport.read()
            elif event & _BROKEN:
                transport.abortConnection()
            if event & _WRITES and transport.is_writing:
                transport.write_on()
        except Exception:
            self.log.failure("a connection of {address}", address=transport.address)
            transport.abortConnection()

    # ---------------------------------------------------------------------------------------------- connections

    def _accept(self, most: int) -> None:
        for _ in range(most):
            try:
                connected, address = self._port.socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _SHORT_OF:
                    self._take_a_rest(error)
                    return
                continue  # it has gone already
            try:
                self._take(connected, address)
            except Exception:  # of this one; raised here, it would have the reactor end the hub
                self.log.failure("a connection of {address}", address=address)
                connected.close()
            if not self._turns.has_time():
                return

    def _take(self, connected: socket.socket, address: tuple[Any, ...]) -> None:
        connected.setblocking(False)
        kind = IPv6Address if connected.family == socket.AF_INET6 else IPv4Address
        peer = kind("TCP", *address)
        protocol = self._listener.buildProtocol(peer)
        if protocol is None:
            connected.close()
            return
        transport = HubTransport(self, connected, self._creator, peer, self._host)
        self._epoll.register(transport.descriptor, _READS)  # first: it may raise, for want of memory
        self._transports[transport.descriptor] = transport
        self._events[transport] = _READS
        try:
            transport.connect(protocol)
        except Exception:
            self.log.failure("a connection of {address}", address=peer)
            transport.abortConnection()

    def _take_a_rest(self, error: OSError) -> None:
        """Accept nothing for a second: a descriptor that can't be had would else be asked for without a pause."""
        self.log.warn(
            "no further agent is let in for {seconds:g} s: {error}. Raise LimitNOFILE of the unit, or ulimit -n",
            seconds=REST_SECONDS, error=error.strerror,
        )  # fmt: skip
        self.stopReading()
        self._rest = self._reactor.callLater(REST_SECONDS, self._go_on)

    def _go_on(self) -> None:
        self._rest = None
        self.startReading()

    def watch(self, transport: HubTransport) -> None:
        """Wait for what the transport wants now."""
        wanted = (_READS if transport.is_reading else 0) | (_WRITES if transport.is_writing else 0)
        if self._events.get(transport, wanted) != wanted:
            self._events[transport] = wanted
            self._epoll.modify(transport.descriptor, wanted)

    def forget(self, transport: HubTransport) -> None:
        """Wait for nothing of it any more: before its descriptor is closed, which may be another's at once."""
        if self._transports.pop(transport.descriptor, None) is not None:
            self._events.pop(transport, None)
            self._strangers.pop(transport, None)
            self._waiting.pop(transport, None)
            self._late.pop(transport, None)
            self._epoll.unregister(transport.descriptor)
        self._end_if_empty()

    def call_later(self, function: Any, *given: Any) -> None:
        """Call the function in a later turn of the reactor, at once if there are no more.

        A hundred agents that vanish in one turn are told in several: each takes a third of a millisecond.
        """
        self._ended.append((function, given))
        if self._is_lost:
            self._tell(math.inf)
        elif self._telling is None:
            self._telling = self._reactor.callLater(0, self._tell_some)

    def _tell_some(self) -> None:
        self._tell(self._steady() + self._turns.rotation.slice_seconds())
        self._telling = self._reactor.callLater(0, self._tell_some) if self._ended else None

    def _tell(self, until: float) -> None:
        """Make the calls that wait, at least one, until this moment of the clock of the turns."""
        while self._ended:
            function, given = self._ended.popleft()
            try:
                function(*given)
            except Exception:
                self.log.failure("the end of a connection")
            if self._steady() >= until:
                return

    def _end_if_empty(self) -> None:
        if self._is_stopped and not self._transports and not self._epoll.closed:
            self._reactor.removeReader(self)
            self._epoll.close()


def _served_at(found: tuple[HubTransport, int]) -> int:
    return found[0].served_at


def _first(waiting: dict[HubTransport, int]) -> tuple[HubTransport, int]:
    transport = next(iter(waiting))
    return transport, waiting.pop(transport)
