"""Tests the limits of clients of the HTTP API: connections, time to send a request, unread answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from klein import Klein
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionAborted
from twisted.internet.task import Clock, Cooperator
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from helen.web import answers, lines
from helen.web.answers import refuse_error
from helen.web.connections import paced_answers
from helen.web.connections.clients import (
    HEAD_SECONDS,
    MAX_CLIENTS,
    STRANGERS_OF_ADDRESS,
    STRANGERS_OF_NETWORK,
    network_of,
)
from helen.web.connections.paced_answers import TAKE_SECONDS, Write, write_pieces, write_rows
from helen.web.site import REQUEST_SECONDS, QuietSite


class Slow(Resource):
    """Answer later, when the test says so."""

    isLeaf = True

    def render(self, request: object) -> int:
        return NOT_DONE_YET


@pytest.fixture
def site() -> QuietSite:
    """Provide a site on a clock of its own."""
    made = QuietSite(Slow())
    made.reactor = Clock()
    return made


def connect(site: QuietSite, host: str = "") -> Any:
    """Connect a client, and return its channel, or None for a closed socket."""
    channel = site.buildProtocol(IPv4Address("TCP", host, 40_000) if host else None)
    if channel is not None:
        channel.stage_transport = Transport()
        channel.makeConnection(channel.stage_transport)
    return channel


class Transport(StringTransport):
    """Mark the connection as cut when it is aborted; `cut` tells its channel, as the reactor does a turn later."""

    is_cut = is_told = False

    def abortConnection(self) -> None:
        self.is_cut = True


def cut(channels: list[Any]) -> list[int]:
    """Return which channels were cut, and tell them that their connections are lost."""
    gone = [at for at, channel in enumerate(channels) if channel.stage_transport.is_cut]
    for at in gone:
        if not channels[at].stage_transport.is_told:
            channels[at].stage_transport.is_told = True
            channels[at].connectionLost(Failure(ConnectionAborted()))
    return gone


HEAD = b"GET /api/v1/status HTTP/1.1\r\nhost: localhost\r\n\r\n"


def ask(channel: Any, is_let_in: bool = True) -> Any:
    """Send a request, which the gate lets in or not; it is not answered yet."""
    channel.dataReceived(HEAD)
    request = channel._channel.requests[-1]
    request.connection.is_let_in = is_let_in or request.connection.is_let_in
    request.connection.busy += is_let_in
    return request


def answer(request: Any) -> None:
    request.connection.busy -= 1
    request.finish()


def test_256_clients_of_a_site(site: QuietSite) -> None:
    """While all 256 clients are busy the next one is closed, and one that goes makes room."""
    inside = [connect(site, f"192.{at}.2.1") for at in range(MAX_CLIENTS)]
    assert None not in inside
    for channel in inside:
        ask(channel)
    assert connect(site, "198.51.100.1") is None
    inside[0].connectionLost(None)
    assert connect(site, "198.51.100.1") is not None
    assert cut(inside) == []
    for channel in inside[1:]:
        channel.connectionLost(None)


def test_the_oldest_stranger_goes(site: QuietSite) -> None:
    """Silent and refused clients make room for newcomers first, then idle ones, and never busy ones (F55)."""
    inside = [connect(site, f"192.{at}.2.1") for at in range(MAX_CLIENTS)]
    busy, idle = [ask(inside[at]) for at in range(100)], [ask(inside[at]) for at in range(100, 150)]
    refused = [ask(inside[at], is_let_in=False) for at in range(150, 200)]
    for request in idle:
        answer(request)
    for request in refused:
        request.finish()
    newcomers = [connect(site, f"198.51.{at}.1") for at in range(106)]
    assert cut(inside) == list(range(150, 256))
    for channel in newcomers:
        ask(channel)
    late = []
    for at in range(50):
        late.append(connect(site, f"203.0.{at}.1"))
        ask(late[-1])
    assert cut(inside) == list(range(100, 256))
    assert connect(site, "203.1.1.1") is None
    assert cut(newcomers) + cut(late) == []
    answer(busy[0])
    assert connect(site, "203.1.1.1") is not None
    assert cut(inside)[:2] == [0, 100]
    assert len(site._clients) == MAX_CLIENTS


def test_an_address_before_its_network(site: QuietSite) -> None:
    """An address above its share makes room for itself, then its network does, and others keep their places (F55)."""
    good = connect(site, "203.0.113.9")
    ours = [connect(site, "192.0.2.1") for _ in range(STRANGERS_OF_ADDRESS)]
    assert cut(ours) == []
    ours += [connect(site, "192.0.2.1") for _ in range(3)]
    assert cut(ours) == [0, 1, 2]
    ask(ours[3])
    ours.append(connect(site, "192.0.2.1"))
    assert cut(ours) == [0, 1, 2]  # one that was let in is no stranger
    rest = [connect(site, f"192.0.2.{10 + at}") for at in range(STRANGERS_OF_NETWORK - STRANGERS_OF_ADDRESS)]
    assert cut(ours) == [0, 1, 2]
    rest.append(connect(site, "192.0.2.250"))
    assert cut(ours) == [0, 1, 2, 4]
    assert cut([good]) == cut(rest) == []


def test_silent_sockets_of_one_address_that_come_again(site: QuietSite) -> None:
    """Silent sockets of one address that come again leave room for a client of another address (F55)."""
    for _ in range(5 * MAX_CLIENTS):
        assert connect(site, "192.0.2.1") is not None
    assert len(site._clients) == STRANGERS_OF_ADDRESS
    for host in ("192.0.2.2", "203.0.113.9"):
        good = connect(site, host)
        connect(site, "192.0.2.1")
        ask(good)
        assert cut([good]) == []


@pytest.mark.parametrize(("seconds", "ended"), [(HEAD_SECONDS - 0.5, False), (HEAD_SECONDS, True)])
@pytest.mark.parametrize("begin", [b"", b"GET /api/v1/status HTTP/1.1\r\nhost: loc"], ids=["nothing", "half a head"])
def test_a_request_that_does_not_come(site: QuietSite, begin: bytes, seconds: float, ended: bool) -> None:
    """The head of a request has ten seconds, also if a letter comes now and then (F55)."""
    channel = connect(site)
    channel.dataReceived(begin)
    for _ in range(int(seconds / 0.5)):
        site.reactor.advance(0.5)
        if begin and not channel.stage_transport.is_cut:
            channel.dataReceived(b"x")
    assert channel.stage_transport.is_cut is ended
    channel.connectionLost(None)
    assert site.reactor.getDelayedCalls() == []


def test_the_next_request_of_a_connection(site: QuietSite) -> None:
    """The next request of a connection may begin late, then has ten seconds for its head, and more for its body."""
    channel = connect(site)
    first = ask(channel)
    site.reactor.advance(30.0)
    answer(first)
    site.reactor.advance(50.0)
    channel.dataReceived(b"POST /x HTTP/1.1\r\n")
    site.reactor.advance(HEAD_SECONDS - 1.0)
    channel.dataReceived(b"host: localhost\r\ncontent-length: 3\r\n\r\n")
    for _ in range(3):
        site.reactor.advance(REQUEST_SECONDS - 1.0)
        assert not channel.stage_transport.is_cut
        channel.dataReceived(b"x")
    site.reactor.advance(REQUEST_SECONDS - 1.0)
    channel.connectionLost(None)


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.77", "192.0.2.0/24"), ("::ffff:192.0.2.77", "192.0.2.0/24"),
        ("2001:db8:1:2:3::9", "2001:db8:1:2::/64"), ("fe80::1%eth0", "fe80::/64"), ("", ""),
    ],
)  # fmt: skip
def test_networks(address: str, network: str) -> None:
    """The network of an address is its /24 or /64."""
    assert network_of(address) == network


class Reader:
    """Play a request whose client takes bytes when told."""

    def __init__(self) -> None:
        self.aborted, self.written = False, 0
        # As Twisted's own transports keep what the kernel hasn't taken.
        self.transport = SimpleNamespace(dataBuffer=b"", offset=0, _tempDataLen=0, transport=None)
        self._finished: Deferred[None] = Deferred()

    def cut(self) -> None:
        self.aborted = True

    def setHeader(self, _name: str, _value: str) -> None:
        return None

    def notifyFinish(self) -> Deferred[None]:
        return self._finished

    def write(self, data: bytes) -> None:
        self.written += len(data)
        self.transport._tempDataLen += len(data)

    def take_all(self) -> None:
        self.transport._tempDataLen = 0


def line(length: int) -> dict[str, Any]:
    """Return a document that is a line of `length` bytes."""
    return {"x": "y" * (length - len('{"x": ""}\n'))}


@pytest.mark.parametrize("beyond", [0, 1])
def test_a_client_that_does_not_read(monkeypatch: pytest.MonkeyPatch, beyond: int) -> None:
    """A client with more than MAX_UNREAD bytes unread is cut off, to the byte, and that line is not written."""
    monkeypatch.setattr(lines, "MAX_UNREAD", 10_000)
    reader = Reader()
    write = lines.Lines(reader).write  # type: ignore[arg-type]
    for _ in range(9):
        write(line(1_000))
    write(line(1_000 + beyond))
    assert (reader.aborted, reader.written) == ((False, 10_000), (True, 9_000))[beyond]


def test_a_client_that_reads_late_is_not_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that reads late is not cut off, since taken bytes do not count."""
    monkeypatch.setattr(lines, "MAX_UNREAD", 10_000)
    reader = Reader()
    write = lines.Lines(reader).write  # type: ignore[arg-type]
    for _ in range(5):
        for _ in range(9):
            write(line(1_000))
        reader.take_all()
    assert (reader.aborted, reader.written) == (False, 45_000)


@pytest.mark.parametrize(
    ("length", "status"),
    [("9" * 18, 413), ("9" * 19, 400), ("9" * 5_000, 400), ("-1", 400), ("0" * 40, 400), ("x", 400)],
)
def test_a_length_that_is_no_number(
    site: QuietSite, caplog: pytest.LogCaptureFixture, length: str, status: int
) -> None:
    """A content-length that is no number is refused at once, without a traceback in the log."""
    channel = connect(site, "192.0.2.1")
    channel.dataReceived(f"POST /login HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n".encode())
    assert channel.stage_transport.value().startswith(f"HTTP/1.1 {status} ".encode())
    assert channel.stage_transport.disconnecting


def test_one_of_256_that_takes_nothing_of_its_answer(site: QuietSite) -> None:
    """A client that takes nothing of its answer is cut by the clock of the site, since it would be busy for ever."""
    channel = connect(site, "192.0.2.1")
    request = ask(channel)
    write_rows(request, "rows", range(3), lambda thing: {"n": thing})
    assert channel.stage_transport.producer is not None
    request.channel.pauseProducing()
    site.reactor.advance(TAKE_SECONDS - 0.1)
    assert cut([channel]) == []
    site.reactor.advance(0.1)
    assert cut([channel]) == [0]


@pytest.mark.parametrize(
    ("version", "sent"), [(b"HTTP/1.1", b"\r\nd\r\n<head></head>\r\n"), (b"HTTP/1.0", b"\r\n<head></head>")]
)
def test_an_answer_that_fails_in_the_middle_is_cut_off(
    site: QuietSite, monkeypatch: pytest.MonkeyPatch, version: bytes, sent: bytes
) -> None:
    """An answer that fails in the middle is cut off without an end, and logged: half a page would look whole."""
    logged, steps = list[str](), list[Any]()
    monkeypatch.setattr(answers.log, "failure", lambda text, failure, **names: logged.append(text.format(**names)))
    monkeypatch.setattr(paced_answers, "cooperate", Cooperator(scheduler=lambda call: steps.append(call)).cooperate)

    def pieces(write: Write, is_gone: Callable[[], bool]) -> Iterator[None]:
        write(b"<head></head>")
        raise ValueError("a template is wrong")
        yield

    app = Klein()
    app.route("/", branch=True)(lambda request: write_pieces(request, pieces, whole=False))
    app.handle_errors(Exception)(refuse_error)
    site.resource = app.resource()
    channel = connect(site, "192.0.2.1")
    channel.dataReceived(HEAD.replace(b"HTTP/1.1", version))
    request = channel._channel.requests[-1]
    steps.pop()()
    assert channel.stage_transport.value().endswith(sent)
    assert channel._channel._requestProducer is None
    assert (request.code, logged) == (500, ["the HTTP API: the answer to GET /api/v1/status is cut off"])
    assert cut([channel]) == [0]
