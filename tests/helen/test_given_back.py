"""Tests that the memory of an ended object is freed at once: megabytes that nobody read must not wait for the garbage
collector.
"""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tls_client import ClientTLS
from twisted.internet.address import UNIXAddress
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.test.iosim import FakeTransport, IOPump, connect
from twisted.web.resource import Resource

from helen.identity.tls import ServerTLS
from helen.keys import ca_files
from helen.queries.live_queries import LiveQueries
from helen.sessions.fair_turns import FairTurns
from helen.sessions.listener import AgentTLS, TLSListener
from helen.sessions.unsent_bytes import release, unsent
from helen.web.site import QuietSite


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    """Turn the collector off, so that only reference counts free anything."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Quiet(Protocol):
    def connectionLost(self, reason: Any = None) -> None:
        """Log nothing."""


class Buffering:
    """Keeps what the kernel doesn't take, as Twisted's transports do."""

    def __init__(self) -> None:
        self.dataBuffer, self.offset = b"x" * 100, 40
        self._tempDataBuffer, self._tempDataLen = [b"y" * 7], 7


def both_ends(tmp_path: Path) -> tuple[AgentTLS, IOPump]:
    """Return a server's end whose handshake is done, and what carries its bytes."""
    material = ca_files.prepare(tmp_path, ["localhost"], time.time())
    clock = Clock()
    outer = TLSListener(ServerTLS(material), Factory.forProtocol(Quiet), FairTurns(clock, clock.seconds))
    server = outer.buildProtocol(None)
    client = TLSMemoryBIOFactory(ClientTLS(material.bundle), True, Factory.forProtocol(Quiet)).buildProtocol(None)
    pump = connect(server, FakeTransport(server, True), client, FakeTransport(client, False))
    pump.flush()
    return server, pump


@pytest.mark.adversary(47)
def test_an_aborted_connection(tmp_path: Path) -> None:
    """An aborted connection is freed, although the failure's traceback would hold the frame that holds it."""
    server, pump = both_ends(tmp_path)
    server.wrappedProtocol.transport.write(b"nobody reads this" * 10_000)
    server.dataReceived(b"no TLS at all")
    server.connectionLost(ConnectionError())
    left = weakref.ref(server)
    pump.server = pump.serverIO = server.transport.protocol = None  # the test's own ties
    del server
    assert left() is None


@pytest.mark.adversary(46)
def test_what_was_not_sent() -> None:
    """The buffers of an ended transport are empty, whoever still looks at it."""
    lower = Buffering()
    lower.protocol = upper = type("Upper", (), {"_appSendBuffer": [b"z" * 9], "transport": lower})()
    assert unsent(upper, 0) == 9 + 60 + 7
    release(upper)
    assert unsent(upper, 5) == 0


@pytest.mark.parametrize("hangs_up", [False, True])
def test_a_question(hangs_up: bool) -> None:
    """The caller and the question hold each other, and both are free when it has ended."""

    class Asker:
        def __init__(self, runs: LiveQueries) -> None:
            self.ended = 0
            self.run = runs.start("disk", [("web-1", lambda: None)] * (not hangs_up), b"{}", 9.0, self.heard, self.end)

        def heard(self, _target: object) -> None:
            """Answer that the target is offline."""

        def end(self) -> None:
            self.ended += 1

    runs = LiveQueries(lambda *_: 1, lambda *_: None, print)
    asker = Asker(runs)
    if hangs_up:
        runs.abandon(asker.run)
    assert (asker.ended, len(runs)) == (1, 0)
    left = weakref.ref(asker)
    del asker
    assert left() is None


def test_a_client_of_the_api() -> None:
    """The channel of a client that has gone is freed at once."""
    site = QuietSite(Resource())
    channel = site.buildProtocol(UNIXAddress(None))
    channel.makeConnection(StringTransport())
    left = weakref.ref(channel)
    channel.connectionLost(ConnectionError())
    del channel
    assert (left(), len(site._clients)) == (None, 0)
