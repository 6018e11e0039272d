"""Runs the hub without a reactor: clients of TLS on sockets of this process, and turns that the test gives."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import define, field
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from patience import Patience
from tls_talk import leaf
from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import IHandshakeListener
from twisted.internet.protocol import Protocol
from twisted.internet.task import Clock
from zope.interface import implementer

from helen.identity.tls import ServerTLS
from helen.keys import ca_files
from helen.sessions.hub_transport import HubTransport

PATIENCE = 60.0  # seconds; only a fault comes near it
VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


class ReactorClock(Clock):
    """Is a reactor's clock, and keeps its readers."""

    def __init__(self) -> None:
        super().__init__()
        self.readers: set[Any] = set()

    def addReader(self, reader: Any) -> None:
        self.readers.add(reader)

    def removeReader(self, reader: Any) -> None:
        self.readers.discard(reader)


class Client:
    """Is the peer's end of TLS. `heard` is decrypted; `has_heard_end`: TLS has ended, `has_ended`: the socket has."""

    def __init__(self, connected: socket.socket, context: ssl.SSLContext) -> None:
        self.socket = connected
        connected.setblocking(False)
        self._into, self._out_of = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._into, self._out_of, server_hostname="localhost")
        self.is_trusted = self.has_heard_end = self.has_ended = self.was_reset = False
        self.heard = b""

    def say(self, data: bytes) -> None:
        """Encrypt; `records` has what comes out of it."""
        self._tls.write(data)

    def records(self) -> bytes:
        """Return what has to go to Helen, once."""
        return self._out_of.read()

    def hello(self) -> bytes:
        """Begin the handshake, and return its first bytes."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
        return self.records()

    def put(self, data: bytes) -> None:
        assert self.socket.send(data) == len(data)

    def step(self) -> None:
        """Take what has come, shake hands, decrypt, and send what TLS has to say."""
        self._receive()
        try:
            if not self.is_trusted:
                self._tls.do_handshake()
                self.is_trusted = True
            while part := self._tls.read(65_536):
                self.heard += part
            self.has_heard_end = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            self.has_ended = True
        if records := self.records():
            self.put(records)

    def _receive(self) -> None:
        try:
            data = self.socket.recv(1 << 20)
        except BlockingIOError:
            return
        except ConnectionError:
            self.was_reset = self.has_ended = True
            return
        if data:
            self._into.write(data)
        else:
            self._into.write_eof()
            self.has_ended = True

    def end_tls(self) -> None:
        """Send the end of TLS, and do not wait for Helen's."""
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()
        self.put(self.records())

    def reset(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


@implementer(IHandshakeListener)
class Recorder(Protocol):
    """Writes down what a transport tells its protocol, which is also the producer. `on_data` may interfere."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.heard = b""
        self.on_data: Callable[[Recorder, bytes], None] = lambda recorder, data: None

    def connectionMade(self) -> None:
        self.transport.registerProducer(self, True)

    def handshakeCompleted(self) -> None:
        self.events.append("trusted")

    def dataReceived(self, data: bytes) -> None:
        self.heard += data
        self.on_data(self, data)

    recordReceived = dataReceived

    def connectionLost(self, reason: Any = None) -> None:
        self.events.append(f"lost: {reason.type.__name__}")

    def pauseProducing(self) -> None:
        self.events.append("pause")

    def resumeProducing(self) -> None:
        self.events.append("resume")

    def stopProducing(self) -> None:
        self.events.append("stop")


@define(slots=False)
class Place:
    """Stands in for the hub: it notes what a transport waits for, and has the calls of the next turn."""

    wanted: tuple[bool, bool] = (True, False)
    was_open: list[bool] = field(factory=list)  # whether the socket was, when it was forgotten
    calls: list[tuple[Any, ...]] = field(factory=list)

    def watch(self, transport: HubTransport) -> None:
        self.wanted = (transport.is_reading, transport.is_writing)

    def forget(self, transport: HubTransport) -> None:
        self.was_open.append(transport.getHandle().fileno() >= 0)

    def call_later(self, *call: Any) -> None:
        self.calls.append(call)

    def turn(self) -> None:
        calls, self.calls = self.calls, []
        for function, *given in calls:
            function(*given)


class Authority:
    """Holds a CA, Helen's side of TLS, and contexts of clients."""

    def __init__(self, folder: Path) -> None:
        self.material = ca_files.prepare(folder, ["localhost"], time.time())
        self.tls = ServerTLS(self.material)
        self._folder = folder
        now = time.time()
        self.shown, self._key = leaf(self.material, now - 60.0, now + 3_600.0)

    def context(self, version: ssl.TLSVersion = VERSIONS[-1], with_certificate: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = context.maximum_version = version
        context.load_verify_locations(cadata=self.material.ca.public_bytes(Encoding.PEM).decode())
        if with_certificate:
            shown = self._folder / "client.pem"
            key = self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            shown.write_bytes(self.shown.public_bytes(Encoding.PEM) + key)
            context.load_cert_chain(shown)
        return context


class Pair:
    """Holds one connection without a hub: Helen's end is on a socket pair, whose other end is the client."""

    def __init__(self, authority: Authority, version: ssl.TLSVersion = VERSIONS[-1], shaken: bool = True) -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self.place, self.protocol = Place(), Recorder()
        self.client = Client(theirs, authority.context(version))
        self.transport = HubTransport(self.place, ours, authority.tls, "peer", "host")
        self.transport.connect(self.protocol)
        if shaken:
            for _ in range(4):
                self.step()
            assert self.protocol.events == ["trusted"]
            self.protocol.events.clear()

    def close(self) -> None:
        self.client.socket.close()
        self.transport.abortConnection()

    def step(self) -> None:
        """Give each end one turn."""
        self.client.step()
        self.transport.read()
        if self.transport.is_writing:
            self.transport.write_on()
        self.place.turn()

    def step_until(self, condition: Callable[[], bool], most: int = 10_000) -> None:
        for _ in range(most):
            if condition():
                return
            self.step()
        raise AssertionError("it has not come to that")


def serve_until(hub: Any, clock: Clock, clients: list[Client], condition: Callable[[], bool]) -> None:
    """Give turns to a hub and to clients until something is true."""
    bound = Patience(PATIENCE)
    while not condition():
        assert bound.lasts(), "it has not come to that"
        if hub.fileno() >= 0 and select.select([hub.fileno()], [], [], 0)[0]:
            hub.doRead()
        clock.advance(0)
        for client in clients:
            if client.socket.fileno() >= 0 and not client.has_ended:
                client.step()


class StillPort:
    """Is a port of Twisted that does not read: the hub takes its socket."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=1_024)
        self.socket.setblocking(False)
        self.is_listening = True

    def fileno(self) -> int:
        return self.socket.fileno()

    def getHost(self) -> Any:
        return IPv4Address("TCP", *self.socket.getsockname())

    def stopReading(self) -> None:
        """Do nothing, since the port has never begun to read."""

    def stopListening(self) -> None:
        self.is_listening = False
        self.socket.close()
