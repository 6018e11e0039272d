"""Connects a client or a worker to the broker network on Twisted: carries out the effects of negotiation.py.

A Connection owns one DEALER at a time, its monitor and one timer. worker.py and client.py stand on it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import attrs
import msgspec
from twisted.logger import Logger

from scale0.config.keys import KeyFault
from scale0.endpoint.effects import Configured, Dial, Effect, SendCommand, State, StateChanged, Target
from scale0.endpoint.negotiation import Negotiation
from scale0.wire import frames as wire
from scale0.wire import options as opt
from scale0.wire.endpoints import leaves_machine
from scale0.wire.frames import S0, MalformedMessage
from scale0.wire.options import Fault
from scale0.wire.reader import CurveClient, Kind, Network, Sent, Socket, SocketError
from scale0.wire.zap import Origin

LINGER = 300  # ms that DISCONNECT has to reach the wire
OF_KEYS = (401, 403)  # refusals that other keys may end
KEYS_AGAIN = 5.0  # seconds between two looks at the files of keys that a broker has refused


@attrs.frozen
class Keys:
    """Holds the own CURVE pair, as keys.load_pair reads it."""

    public: str
    secret: str = attrs.field(repr=False)

    def security(self, target: Target) -> CurveClient | None:
        """Return the keys for a connection to this broker; None if its key is not known: then without CURVE."""
        return CurveClient(self.public, self.secret, target.key) if target.key else None


class KeyRing(Protocol):
    """Gives the keys for each connection; Keys are the same for ever, another ring may read files anew."""

    def security(self, target: Target) -> CurveClient | None:
        """Return the keys for a connection to this broker; None: without CURVE. Raises KeyFault if there are none."""


class Connection:
    """Keeps a session with some broker, for a worker or a client, and calls back:

    received(command, options, body)   for each command of the broker
    changed(state, why, code)          when the state of the session changes
    configured(document)               with the configuration for this client, a tree of plain JSON values
    """

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        role: str,
        identity: str,
        brokers: Sequence[str | Target],
        received: Callable[[str, Any, Sequence[bytes]], None],
        changed: Callable[[State, str, int], None],
        configured: Callable[[dict[str, Any]], None],
        keys: KeyRing | None = None,
        interval: float | None = None,
    ) -> None:
        """Make a connection that is not started.

        `interval` is the wanted time between heartbeats in seconds. Raises ValueError if `brokers` is empty.
        """
        if not brokers:
            raise ValueError("name at least one broker, such as tcp://127.0.0.1:5555")
        targets = [b if isinstance(b, Target) else Target(b) for b in brokers]
        self.negotiation = Negotiation(role, identity, targets, random.Random(), interval)
        self._reactor, self._keys = reactor, keys
        self._on_command, self._on_change, self._on_config = received, changed, configured
        self._socket: Socket | None = None
        self._wake: Any = None
        self._given = frozenset(targets)
        self._security: CurveClient | None = None  # of the last socket
        self._is_guarded = False  # a connection was CURVE, so the others of this network are
        self._key_look: Any = None
        self.trouble = "there is no connection to a broker yet"  # the reason for which there is no session, else empty
        self.document: dict[str, Any] = {}
        self.dropped = 0  # messages of the broker that could not be read

    @property
    def state(self) -> State:
        """Return the state of the negotiation."""
        return self.negotiation.state

    def start(self) -> None:
        """Connect to the first broker."""
        self._perform(self.negotiation.start(time.monotonic()))

    def stop(self) -> None:
        """End the session with DISCONNECT."""
        self._perform(self.negotiation.leave())
        if self._key_look is not None and self._key_look.active():
            self._key_look.cancel()

    def _hang_up(self) -> None:
        """Close the socket, once DISCONNECT had LINGER to reach the wire."""
        if self._socket is not None:
            self._socket.close(LINGER)
            self._socket = None

    def tell(self, command: str, options: dict[str, Any], body: Sequence[bytes] = ()) -> bool:
        """Send a command; return False if it could not even be kept for later."""
        if self._socket is None:
            return False
        return self._socket.send(wire.scale0(S0, command, opt.encode(options), body), hold=True) is Sent.OK

    def ready_sent(self) -> None:
        """Become active, as the worker has sent READY."""
        self._perform(self.negotiation.ready_sent(time.monotonic()))

    # ------------------------------------------------------------------------------------- events

    def _received(self, frames: list[bytes], origin: Origin) -> None:
        try:
            message = wire.parse(frames)
            o = opt.decode(message.command, message.options, message.version, opt.TO_CLIENT)
        except (MalformedMessage, Fault) as e:
            self.dropped += 1
            self._log.debug("a message of the broker was dropped: {fault}", fault=str(e))
            return
        self._perform(self.negotiation.received(message.command, o, message.body, time.monotonic(), time.time()))
        self._on_command(message.command, o, message.body)

    def _watched(self, event: str, endpoint: str) -> None:
        if event == "handshake":
            self._perform(self.negotiation.handshake(time.monotonic(), time.time()))
        elif event in ("disconnected", "retried"):
            self._perform(self.negotiation.disconnected(time.monotonic()))
        elif event == "refused":
            self._perform(self.negotiation.refused(time.monotonic()))

    def _tick(self) -> None:
        self._perform(self.negotiation.tick(time.monotonic(), time.time()))

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Dial(target):
                    self._dial(target)
                case SendCommand(command, options):
                    self.tell(command, options)
                case Configured(document, _, _):
                    self._apply(document)
                case StateChanged(state, why, code):
                    if state in (State.LOST, State.BACKOFF, State.STOPPED):
                        self._hang_up()  # nothing that a lost broker has sent counts any more
                    self._note(state, why, code)
                    self._on_change(state, why, code)
        self._sleep()

    def _sleep(self) -> None:
        if self._wake is not None and self._wake.active():
            self._wake.cancel()
        if (due := self.negotiation.due) is not None:
            self._wake = self._reactor.callLater(max(0.0, due - time.monotonic()), self._tick)

    def _dial(self, target: Target) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        socket = None
        try:
            self._security = self._security_for(target)
            socket = Network.of(self._reactor).socket(Kind.DEALER, self._received, security=self._security)
            socket.watch(self._watched)
            socket.connect(target.endpoint)
        except (SocketError, KeyFault) as e:
            if socket is not None:
                socket.close()
            self._log.error("{fault}", fault=str(e))
            self._perform(self.negotiation.failed(str(e), time.monotonic()))
        else:
            self._socket = socket

    def _security_for(self, target: Target) -> CurveClient | None:
        """Return the keys for a connection, None without CURVE. Raises KeyFault if it has to be CURVE and cannot.

        A network under CURVE is not left for a broker of which its configuration names no key: anything may be there.
        """
        if self._keys is None:
            return None
        security = self._keys.security(target)
        if security is None and target not in self._given and (self._is_guarded or leaves_machine(target.endpoint)):
            raise KeyFault(
                f"{target.endpoint}: group_config names no public_key of the broker {target.identity or 'there'}, so it"
                " is not called; without CURVE anything may answer. Add its public_key to the brokers' configuration"
            )
        self._is_guarded = self._is_guarded or security is not None
        return security

    def _note(self, state: State, why: str, code: int) -> None:
        """Keep the reason for which there is no session, and look out for other keys if the broker refuses these."""
        if state is State.ACTIVE:
            self.trouble = ""
        elif why:
            target = self.negotiation.target
            self.trouble = f"{target.endpoint}: {why}" if target is not None else why
        if state is State.STOPPED and code in OF_KEYS and not isinstance(self._keys, Keys | None):
            self._key_look = self._reactor.callLater(KEYS_AGAIN, self._look_at_keys)

    def _look_at_keys(self) -> None:
        """Call the broker again once the files hold other keys than those that it has refused."""
        target = self.negotiation.target
        assert self._keys is not None
        assert target is not None
        try:
            if self._keys.security(target) != self._security:
                self._perform(self.negotiation.start(time.monotonic()))
                return
        except KeyFault as e:
            self.trouble = str(e)
        self._key_look = self._reactor.callLater(KEYS_AGAIN, self._look_at_keys)

    def _apply(self, document: bytes | None) -> None:
        """Read a configuration, for which JSON was asked; the negotiation learns the other brokers first."""
        if document is not None:
            try:
                self.document = msgspec.json.decode(document, type=dict)
            except msgspec.MsgspecError as e:
                self._log.error("the broker's configuration cannot be read: {fault}", fault=str(e))
                return
            groups = self.document.get("group_config", [])
            self.negotiation.set_known_brokers(groups, self.document.get("prefered_broker", ""))
        self._on_config(self.document)
