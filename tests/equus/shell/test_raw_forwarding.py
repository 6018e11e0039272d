"""Test forwarding that OpenSSH's client never asks for: impossible destinations, destinations that never answer, and
ends.
"""

from __future__ import annotations

import socket
import struct
import subprocess
from collections.abc import Iterator

import pytest
from openssh import PATIENCE
from raw_ssh import CLOSE, NOT_OPENED, OPENED, RawClient
from ssh_stage import Door, door, wait_until_gone
from twisted.conch.ssh.common import NS

pytestmark = pytest.mark.integration
MOST = 2**32 - 1


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with door(tmp_path_factory.mktemp("raw"), forward=True) as made:
        yield made


@pytest.fixture
def client(stage: Door) -> Iterator[RawClient]:
    """Yield a client that has logged in."""
    made = RawClient(stage.port)
    made.log_in("root", stage.key)
    yield made
    made.close()


def forward(host: bytes, port: int) -> bytes:
    return NS(host) + struct.pack(">L", port) + NS(b"127.0.0.1") + struct.pack(">L", 1)


@pytest.mark.parametrize(("host", "port"), [
    (b"127.0.0.1", 70_000), (b"127.0.0.1", MOST), (b"\xff\xfe", 1), (b"a" * 300, 1), (b"127.0.0.1\0", 1), (b"", 1),
])  # fmt: skip
def test_destinations_that_there_are_none_of(client: RawClient, host: bytes, port: int) -> None:
    """An impossible destination closes its channel, and the connection goes on."""
    client.open(7, MOST, 32_768, b"direct-tcpip", forward(host, port))
    client.wait_for(CLOSE)
    client.open(8, MOST, 32_768, b"direct-tcpip", forward(host, port)[:-6])
    client.wait_for(CLOSE)
    assert client.open(9, MOST, 32_768)[0] == OPENED


def test_destinations_that_never_answer(client: RawClient) -> None:
    """Channels that are closed at once leave no more than ten connections on their way."""
    with socket.create_server(("127.0.0.1", 0), backlog=1) as full:
        address = full.getsockname()
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:  # until the kernel answers no more
            filler.setblocking(False)
            filler.connect_ex(address)
        answers = []
        for number in range(12):
            answer, channel = client.open(number, MOST, 32_768, b"direct-tcpip", forward(b"127.0.0.1", address[1]))
            answers.append(answer)
            if answer == OPENED:
                client.sendPacket(CLOSE, struct.pack(">L", channel))
                client.wait_for(CLOSE)
        assert answers == [OPENED] * 10 + [NOT_OPENED] * 2
        for filler in fillers:
            filler.close()


def test_an_input_that_ends_before_the_connection_is_made(stage: Door) -> None:
    """An input that ends before the connection is made reaches the destination whole, and the answer comes back."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE)
        words = stage.ssh("-W", f"localhost:{listener.getsockname()[1]}")
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(b"question")
            process.stdin.close()
            target, _ = listener.accept()
            with target:
                target.settimeout(PATIENCE)
                got = b""
                while data := target.recv(100):
                    got += data
                target.sendall(b"answer to " + got)
                target.shutdown(socket.SHUT_WR)
                assert process.stdout.read() == b"answer to question"
    wait_until_gone([stage.processes[-1].pid])
