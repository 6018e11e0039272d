"""Test clients in memory, each with one question, one answer and an end, and Debian's check_nrpe with TLS and
without.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nrpe_packets import packet
from twisted.internet import reactor
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from equus.nrpe import server
from equus.nrpe.packets import Question
from equus.nrpe.server import LIFE, MOST, NrpeConnection, NrpeError, NrpeFactory, listen
from equus.nrpe_settings import NrpeSettings

CHECK_NRPE = Path("/usr/lib/nagios/plugins/check_nrpe")


class Line(StringTransport):
    """Remembers that it was aborted."""

    aborted = False

    def abortConnection(self) -> None:
        self.aborted = True


def echo(question: Question) -> tuple[int, str]:
    return 1, f"WARNING: {question.command} {question.version}"


@pytest.fixture
def client() -> Callable[[], tuple[NrpeConnection, Line]]:
    factory = NrpeFactory(Clock(), echo)

    def make() -> tuple[NrpeConnection, Line]:
        connection, line = factory.buildProtocol(None), Line()
        connection.makeConnection(line)
        return connection, line

    return make


Client = Callable[[], tuple[NrpeConnection, Line]]


def test_one_question_one_answer(client: Client) -> None:
    connection, line = client()
    connection.dataReceived(packet(4, b"disk")[:10])
    assert line.value() == b""
    connection.dataReceived(packet(4, b"disk")[10:])
    assert line.value()[16:] == b"WARNING: disk 4\0"
    assert line.disconnecting and not line.aborted
    connection.dataReceived(packet(4, b"more"))
    assert line.value()[16:] == b"WARNING: disk 4\0"


def test_garbage_ends_it_without_an_answer(client: Client) -> None:
    for data in (b"\x16\x03\x01" + b"x" * 40, b"GET / HTTP/1.0\r\n\r\n", packet(4, b"x", crc=1)):
        connection, line = client()
        connection.dataReceived(data)
        connection.dataReceived(packet(4, b"disk"))
        assert line.aborted and line.value() == b""


def test_a_silent_client_has_its_time(client: Client) -> None:
    connection, line = client()
    clock: Any = connection.factory.reactor
    clock.advance(LIFE - 1)
    connection.dataReceived(packet(4, b"disk")[:-1])
    assert not line.aborted
    clock.advance(1)
    assert line.aborted
    connection.connectionLost()
    assert not connection.factory._open and not clock.getDelayedCalls()


def test_silent_clients_keep_nobody_out(client: Client) -> None:
    """At most MOST clients are held, and the oldest silent one gives way to a new one."""
    lines = [client() for _ in range(MOST + 1)]
    assert [line.aborted for _, line in lines] == [True] + MOST * [False]
    lines[0][0].connectionLost()
    connection, line = lines[-1]
    connection.dataReceived(packet(2, b"disk"))
    assert b"WARNING: disk 2" in line.value()
    assert len(connection.factory._open) == MOST


@pytest.fixture
def files(authority: Any, tmp_path: Path) -> dict[str, Path]:
    found = {"ca": tmp_path / "ca.pem"}
    found["ca"].write_bytes(authority.pem)
    for name in ("server", "client"):
        found[name], found[f"{name}-key"] = tmp_path / f"{name}.pem", tmp_path / f"{name}.key"
        certificate, key = authority.server("127.0.0.1")
        found[name].write_bytes(certificate)
        found[f"{name}-key"].write_bytes(key)
    return found


def test_files_that_are_none(files: dict[str, Path], tmp_path: Path) -> None:
    """A faulty file is named with its fault, and no port is opened."""
    good = {"certificate": files["server"], "key": files["server-key"], "ca": files["ca"]}
    (tmp_path / "odd").write_text("odd")
    for name, path, why in (
        ("certificate", tmp_path / "odd", "odd holds no certificates in PEM"),
        ("ca", tmp_path / "odd", "odd holds no certificates in PEM"),
        ("key", tmp_path / "odd", "odd is no key in PEM"),
        ("key", files["client-key"], "or does not belong to"),
        ("ca", tmp_path / "gone", "gone can't be used: No such file"),
    ):
        with pytest.raises(NrpeError) as fault:
            listen(reactor, NrpeSettings("127.0.0.1", 0, **(good | {name: path})), echo)
        assert why in str(fault.value)


SERVER = """
import sys
from pathlib import Path
from twisted.internet import reactor
from equus.nrpe.server import listen
from equus.nrpe_settings import NrpeSettings

settings = NrpeSettings("127.0.0.1", 0, *map(Path, sys.argv[1:]))
port = listen(reactor, settings, lambda question: (1, f"WARNING: {question.command} {question.version}"))
print(port.getHost().port, flush=True)
reactor.callLater(60, reactor.stop)  # should nobody end it
reactor.run()
"""


@contextmanager
def served(*files: Path) -> Iterator[str]:
    """Start a server in a process of its own, and yield its port."""
    words = [sys.executable, "-c", SERVER, *map(str, files)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def ask(port: str, *options: object) -> tuple[int, str]:
    """Return what check_nrpe says, and its exit status."""
    assert CHECK_NRPE.exists(), "apt-get install nagios-nrpe-plugin"
    words = [CHECK_NRPE, "-t", "25", "-H", "127.0.0.1", "-p", port, *options]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.strip()


@pytest.mark.integration
def test_the_real_client_in_the_clear() -> None:
    with served() as port:
        for option, version in (("-2", 2), ("-3", 3), ("-t25", 4)):
            assert ask(port, "-n", option, "-c", "disk") == (1, f"WARNING: disk {version}")
        with pytest.raises(NrpeError, match="another program listens there"):
            listen(reactor, NrpeSettings("127.0.0.1", int(port)), echo)


@pytest.mark.integration
def test_the_real_client_needs_a_certificate(files: dict[str, Path]) -> None:
    own = ["-A", files["ca"], "-C", files["client"], "-K", files["client-key"]]
    with served(files["server"], files["server-key"], files["ca"]) as port:
        assert ask(port, *own, "-c", "disk") == (1, "WARNING: disk 4")
        for options in ([], ["-n"]):
            status, said = ask(port, *options, "-c", "disk")
            assert status != 1 and "WARNING: disk" not in said


def test_the_first_stranger_alone_is_logged(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(server.NrpeFactory, "log", SimpleNamespace(warn=lambda text, why: told.append(why)))
    for _ in range(3):
        client()[0].dataReceived(b"x" * 40)
    assert len(told) == 1
