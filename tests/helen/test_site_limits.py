"""What clients of the HTTP API can hold: connections, time to send a request, answers that they don't read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.web.resource import Resource

from helen.web import api, jobs
from helen.web.site import MAX_CLIENTS, REQUEST_SECONDS, QuietSite


@pytest.fixture
def site() -> QuietSite:
    """On a clock of its own."""
    made = QuietSite(Resource())
    made.reactor = Clock()
    return made


def connect(site: QuietSite, transport: StringTransport | None = None) -> Any:
    """A client, or None for a closed socket."""
    channel = site.buildProtocol(None)
    if channel is not None:
        channel.makeConnection(transport or StringTransport())
    return channel


def test_256_clients_of_a_site(site: QuietSite) -> None:
    """The next one is a closed socket; whoever goes makes room for one."""
    inside = [connect(site) for _ in range(MAX_CLIENTS)]
    assert None not in inside
    assert connect(site) is None
    inside[0].connectionLost(None)
    assert connect(site) is not None
    assert connect(site) is None
    for channel in inside[1:]:
        channel.connectionLost(None)


@pytest.mark.parametrize(("seconds", "ended"), [(REQUEST_SECONDS - 0.5, False), (REQUEST_SECONDS, True)])
def test_a_request_that_does_not_come(site: QuietSite, seconds: float, ended: bool) -> None:
    """Half a head, and then silence: a minute."""
    transport = StringTransport()
    channel = connect(site, transport)
    channel.dataReceived(b"GET /api/v1/status HTTP/1.1\r\nhost: loc")
    site.reactor.advance(seconds)
    assert transport.disconnecting is ended
    channel.connectionLost(None)


class Reader:
    """A request whose client takes what it is told to take."""

    def __init__(self) -> None:
        self.aborted, self.written = False, 0
        # As Twisted's own transports keep what the kernel hasn't taken.
        self.transport = SimpleNamespace(
            dataBuffer=b"", offset=0, _tempDataLen=0, transport=None, abortConnection=self._abort
        )
        self._finished: Deferred[None] = Deferred()

    def _abort(self) -> None:
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
    """A document that is a line of so many bytes."""
    return {"x": "y" * (length - len('{"x": ""}\n'))}


# A question of `helen run`, and a job that is followed.
WRITERS = {
    api: lambda reader: api.Question(SimpleNamespace(), reader)._write,
    jobs: lambda reader: jobs.Lines(reader).write,
}


@pytest.mark.parametrize("beyond", [0, 1])
@pytest.mark.parametrize("module", WRITERS, ids=["run", "job"])
def test_one_who_asks_and_does_not_read(monkeypatch: pytest.MonkeyPatch, module: Any, beyond: int) -> None:
    """All that waits counts, to the byte: with one more he is cut off, and that line is not written."""
    monkeypatch.setattr(module, "MAX_UNREAD", 10_000)
    reader = Reader()
    write = WRITERS[module](reader)
    for _ in range(9):
        write(line(1_000))
    write(line(1_000 + beyond))
    assert (reader.aborted, reader.written) == ((False, 10_000), (True, 9_000))[beyond]


@pytest.mark.parametrize("module", WRITERS, ids=["run", "job"])
def test_one_who_reads_late_is_not_cut_off(monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
    """What was taken no longer counts."""
    monkeypatch.setattr(module, "MAX_UNREAD", 10_000)
    reader = Reader()
    write = WRITERS[module](reader)
    for _ in range(5):
        for _ in range(9):
            write(line(1_000))
        reader.take_all()
    assert (reader.aborted, reader.written) == (False, 45_000)
