"""Test Debian's NRPE daemon without a certificate and in the clear, and a daemon of version 2."""

from __future__ import annotations

import socket
import struct
import threading
import zlib
from collections.abc import Callable, Iterator

import pytest
from attrs import frozen
from conftest import Check
from ports import free_port
from servers import Home, program

CONFIG = """server_port={port}
server_address=127.0.0.1
allowed_hosts=127.0.0.1
nrpe_user=nobody
nrpe_group=nogroup
pid_file={folder}/pid
command[good]=/bin/echo "OK - all is well | load=1.5;2;3;0 '/var lib'=80%;90;95"
command[bad]=/bin/sh -c "echo CRITICAL - it is down; echo and long; exit 2"
command[long]=/bin/sh -c "head -c 3000 /dev/zero | tr '\\0' x"
"""


@frozen
class Daemons:
    """Hold the port of a daemon with TLS and no certificate, as Debian has it, and that of one in the clear."""

    tls: int
    clear: int


@pytest.fixture(scope="module")
def daemons(home: Home) -> Daemons:
    found = {}
    for name, options in (("tls", ()), ("clear", ("-n",))):
        folder, port = home.folder(f"nrpe-{name}"), free_port()
        settings = home.write(folder / "nrpe.cfg", CONFIG.format(port=port, folder=folder))
        server = home.start(program("nrpe", "nagios-nrpe-server"), "-c", settings, "-f", *options, folder=folder)
        server.listening(port)
        found[name] = port
    return Daemons(**found)


@pytest.fixture(scope="module")
def check(checking: Callable[..., Check]) -> Check:
    return checking()


def test_a_daemon_without_a_certificate(daemons: Daemons, check: Check) -> None:
    found = check("nrpe", port=daemons.tls, command="good")
    assert (found.status, found.summary) == ("ok", "OK - all is well"), found
    assert found.metrics == {"load": 1.5, "good{label=/var lib}": 80}, found
    found = check("nrpe", port=daemons.tls, command="bad")
    assert (found.status, found.summary, found.document["output"]) == (
        "critical",
        "CRITICAL - it is down",
        "and long\n",
    )
    found = check("nrpe", port=daemons.tls, command="none")
    assert (found.status, "Command 'none' not defined" in found.summary) == ("unknown", True), found
    found = check("nrpe", port=daemons.tls, command="good", tls="on", version="4")
    assert (found.status, "handshake failure" in found.summary) == ("critical", True), found


def test_in_the_clear(daemons: Daemons, check: Check) -> None:
    """Texts longer than a packet of version 2 are read in the clear, and arguments, which Debian's daemon refuses, are
    critical.
    """
    found = check("nrpe", port=daemons.clear, command="long", tls="off")
    assert found.status == "ok", found
    found = check("nrpe", port=daemons.clear, command="long", tls="off", version="2")
    assert found.status == "ok", found
    found = check("nrpe", port=daemons.tls, command="args", arguments=["one"])
    assert (found.status, "hangs up without an answer" in found.summary) == ("critical", True), found


@pytest.fixture
def old() -> Iterator[int]:
    """Serve as a daemon of before 2016, which knows version 2 alone and hangs up on others, and yield its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30.0)

        def serve() -> None:
            for _ in range(2):
                connection, _ = listener.accept()
                with connection:
                    connection.settimeout(30.0)
                    head = connection.recv(65_536)
                    if head[:2] == b"\0\2":
                        body = struct.pack("!hhIh", 2, 2, 0, 1) + b"WARNING - old".ljust(1_026, b"\0")
                        connection.sendall(body[:4] + struct.pack("!I", zlib.crc32(body)) + body[8:])

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(30.0)


def test_an_old_daemon_is_asked_again(old: int, check: Check) -> None:
    found = check("nrpe", port=old, command="good", tls="off")
    assert (found.status, found.summary) == ("warning", "WARNING - old"), found
