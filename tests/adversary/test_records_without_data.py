"""Test Twisted's TLS with peers whose records hold no data, at each place that uses it: agents, pages, and Equus."""

from __future__ import annotations

import contextlib
import hashlib
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from raw_records import RawRecords, recorded
from tls_talk import Side
from twisted.internet.error import ConnectionLost
from twisted.internet.protocol import Factory
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure

from equus.identity.identity import Token
from equus.link.trust import by_token
from equus.settings import Server
from groundwork.tls_records import ANSWERS_MOST, OVERHEAD_MOST, PART, CarefulConnection
from helen.identity.tls import ServerTLS
from helen.keys import ca_files
from helen.web.connections.web_tls import WebTLS

UPDATE = 27  # bytes of a change of keys, and of its answer


class Peer:
    """Stand in for the other end: the handshake by the standard library, and the records by hand from there on.

    `side` is the protocol of our end, `wire` its transport.
    """

    def __init__(self, folder: Path, creator: Any, is_server: bool) -> None:
        factory = TLSMemoryBIOFactory(creator, is_server, Factory.forProtocol(Side), clock=Clock())
        self.ours: Any = factory.buildProtocol(None)
        self.side, self.wire = self.ours.wrappedProtocol, StringTransport()
        self._into, self._out_of = ssl.MemoryBIO(), ssl.MemoryBIO()
        log = folder / "secrets"
        if is_server:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(folder / "server.pem")
            context.num_tickets = 0  # they are records as well, and would be counted
        else:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        tls = recorded(context, log).wrap_bio(self._into, self._out_of, server_side=is_server)
        self.ours.makeConnection(self.wire)
        for _ in range(6):
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
            self.say(self._out_of.read())
            self._into.write(self.wire.value())
            self.wire.clear()
        assert self.side.shaken
        cipher = tls.cipher()
        assert cipher is not None
        self.records = RawRecords(log, cipher[0], is_server)

    def say(self, data: bytes) -> None:
        """Have our end hear these bytes, unless it has hung up."""
        if data and not self.wire.disconnecting:
            self.ours.dataReceived(data)


@pytest.fixture(params=["agents", "pages", "Equus"])
def meet(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Peer]:
    """Make connections of one of the places that use Twisted's TLS."""
    material = ca_files.prepare(tmp_path, ["localhost"], time.time())
    key = material.server_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = [each.public_bytes(Encoding.PEM) for each in (material.server, material.ca)]
    (tmp_path / "server.pem").write_bytes(key + b"".join(chain))
    (tmp_path / "web.crt").write_bytes(chain[0])
    (tmp_path / "web.key").write_bytes(key)

    def make() -> Peer:
        if request.param == "Equus":
            token = Token(hashlib.sha256(material.ca.public_bytes(Encoding.DER)).hexdigest(), "secret")
            return Peer(tmp_path, by_token(Server("localhost", 4166, "localhost"), token), is_server=True)
        creator = (
            ServerTLS(material) if request.param == "agents" else WebTLS((tmp_path / "web.crt", tmp_path / "web.key"))
        )
        return Peer(tmp_path, creator, is_server=False)

    return make


@pytest.mark.parametrize("asks", [True, False])
def test_many_changes_of_keys_in_one_chunk(
    meet: Callable[[], Peer], monkeypatch: pytest.MonkeyPatch, asks: bool
) -> None:
    """Many changes of keys in one chunk end the connection before TLS gets all of them, which would hold the
    reactor.
    """
    peer = meet()
    peer.say(peer.records.record(b"hello"))
    assert peer.side.received == b"hello"
    fed: list[int] = []
    real = CarefulConnection._feed
    monkeypatch.setattr(CarefulConnection, "_feed", lambda connection: real(connection) and not fed.append(PART))
    peer.say(b"".join(peer.records.key_update(asks) for _ in range(2_400)))
    assert peer.wire.disconnecting
    assert len(fed) * PART <= OVERHEAD_MOST + PART


def test_changes_of_keys_one_by_one(meet: Callable[[], Peer]) -> None:
    """A peer that asks for changes of keys one by one, and reads no answer, is cut after some."""
    peer = meet()
    for _ in range(2 * ANSWERS_MOST // UPDATE):
        peer.say(peer.records.record(b"hello") + peer.records.key_update())
    assert peer.wire.disconnecting
    assert peer.side.received.startswith(b"hello" * (ANSWERS_MOST // UPDATE))
    assert len(peer.wire.value()) <= ANSWERS_MOST + 3 * UPDATE


def test_honest_records(meet: Callable[[], Peer]) -> None:
    """Changes of keys now and then, long records in pieces and single letters are heard as they were sent."""
    peer = meet()
    said = b""
    for number in range(ANSWERS_MOST // UPDATE):
        said += b"%d," % number
        peer.say(peer.records.key_update() + peer.records.record(b"%d," % number))
    stream = b"".join(peer.records.record(b"x" * 16_384) for _ in range(20))
    for at in range(0, len(stream), 5_000):
        peer.say(stream[at : at + 5_000])
    peer.say(b"".join(peer.records.record(b"y") for _ in range(2_500)))
    assert peer.side.received == said + b"x" * 16_384 * 20 + b"y" * 2_500
    assert not peer.wire.disconnecting


@pytest.mark.parametrize(
    ("left", "heard"), [(b"", b"hello"), (b"a word", b"helloa word"), (None, b"hello")], ids=["nothing", "all", "part"]
)
def test_a_peer_that_goes_without_a_word(meet: Callable[[], Peer], left: bytes | None, heard: bytes) -> None:
    """The end of a peer without a word is reported, whether TLS has had all bytes, some, or a part of a record."""
    peer = meet()
    peer.say(peer.records.record(b"hello"))
    if left is None:
        peer.say(peer.records.record(b"never whole")[:-3])
    elif left:
        peer.say(peer.records.record(left))
    assert peer.side.end is None
    peer.ours.connectionLost(Failure(ConnectionLost()))
    assert (peer.side.received, type(peer.side.end)) == (heard, ConnectionLost)
