"""A client's connection to the broker network on Twisted: performs what negotiation.py wants. See worker.py, client.py.

It owns one DEALER at a time, its monitor and one timer.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import msgspec
from twisted.logger import Logger

from scale0 import frames as wire
from scale0 import options as opt
from scale0.frames import S0, Nonsense
from scale0.negotiation import Became, Configured, Dial, Effect, Negotiation, State, Target, Tell
from scale0.options import Fault
from scale0.reader import CurveClient, Kind, Network, Sent, Socket, SocketError
from scale0.zap import Origin

LINGER = 300  # ms that DISCONNECT has to reach the wire


@attrs.frozen
class Keys:
    """The own CURVE pair, as keys.load_pair reads it."""

    public: str
    secret: str = attrs.field(repr=False)


class Link:
    """What a worker and a client have in common.

    heard(command, options, body)      each command that is not the negotiation's
    changed(state, why, code)          the state of the session
    configured(document)               a [ CLIENT CONFIG ], as a tree of plain JSON values
    """

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        role: str,
        identity: str,
        brokers: Sequence[str | Target],
        heard: Callable[[str, Any, Sequence[bytes]], None],
        changed: Callable[[State, str, int], None],
        configured: Callable[[dict[str, Any]], None],
        keys: Keys | None = None,
        interval: float | None = None,
    ) -> None:
        if not brokers:
            raise ValueError("name at least one broker, such as tcp://127.0.0.1:5555")
        targets = [b if isinstance(b, Target) else Target(b) for b in brokers]
        self.negotiation = Negotiation(role, identity, targets, random.Random(), interval)
        self._reactor, self._keys = reactor, keys
        self._heard, self._changed, self._configured = heard, changed, configured
        self._socket: Socket | None = None
        self._wake: Any = None
        self.document: dict[str, Any] = {}
        self.dropped = 0  # messages of the broker's that could not be read

    @property
    def state(self) -> State:
        return self.negotiation.state

    def start(self) -> None:
        self._perform(self.negotiation.start(time.monotonic()))

    def stop(self) -> None:
        self._perform(self.negotiation.leave())
        if self._wake is not None and self._wake.active():
            self._wake.cancel()
        if self._socket is not None:
            self._socket.close(LINGER)
            self._socket = None

    def tell(self, command: str, options: dict[str, Any], body: Sequence[bytes] = ()) -> bool:
        """Send a command; False if it could not even be kept for later."""
        if self._socket is None:
            return False
        return self._socket.send(wire.scale0(S0, command, opt.encode(options), body), hold=True) is Sent.OK

    def ready_said(self) -> None:
        self._perform(self.negotiation.ready_said(time.monotonic()))

    # ------------------------------------------------------------------------------------- events

    def _received(self, frames: list[bytes], origin: Origin) -> None:
        try:
            message = wire.parse(frames)
            o = opt.decode(message.command, message.options, message.version, opt.TO_CLIENT)
        except (Nonsense, Fault) as e:
            self.dropped += 1
            self._log.debug("a message of the broker's was dropped: {fault}", fault=str(e))
            return
        self._perform(self.negotiation.heard(message.command, o, message.body, time.monotonic(), time.time()))
        self._heard(message.command, o, message.body)

    def _watched(self, event: str, endpoint: str) -> None:
        if event == "handshake":
            self._perform(self.negotiation.handshake(time.monotonic(), time.time()))
        elif event in ("disconnected", "retried"):
            self._perform(self.negotiation.disconnected(time.monotonic()))
        elif event == "refused":
            self._perform(self.negotiation.refused(time.monotonic()))

    def _tick(self) -> None:
        self._wake = None
        self._perform(self.negotiation.tick(time.monotonic(), time.time()))

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Dial(target):
                    self._dial(target)
                case Tell(command, options):
                    self.tell(command, options)
                case Configured(document, _, _):
                    self._apply(document)
                case Became(state, why, code):
                    self._changed(state, why, code)
        self._sleep()

    def _sleep(self) -> None:
        if self._wake is not None and self._wake.active():
            self._wake.cancel()
        self._wake = None
        if (due := self.negotiation.due) is not None:
            self._wake = self._reactor.callLater(max(0.0, due - time.monotonic()), self._tick)

    def _dial(self, target: Target) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        security = CurveClient(self._keys.public, self._keys.secret, target.key) if self._keys and target.key else None
        socket = None
        try:
            socket = Network.of(self._reactor).socket(Kind.DEALER, self._received, security=security)
            socket.watch(self._watched)
            socket.connect(target.endpoint)
        except SocketError as e:
            if socket is not None:
                socket.close()
            self._log.error("{fault}", fault=str(e))
        else:
            self._socket = socket

    def _apply(self, document: bytes | None) -> None:
        """The negotiation asked for JSON, and learns of the other brokers before anybody else does."""
        if document is not None:
            try:
                self.document = msgspec.json.decode(document, type=dict)
            except msgspec.MsgspecError as e:
                self._log.error("the broker's configuration cannot be read: {fault}", fault=str(e))
                return
            groups = self.document.get("group_config", [])
            self.negotiation.know(groups, self.document.get("prefered_broker", ""))
        self._configured(self.document)
