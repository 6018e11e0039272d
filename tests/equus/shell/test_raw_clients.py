"""What a client can say that OpenSSH's never does: windows, packets, services and ends that would harm the server."""

from __future__ import annotations

import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from openssh import PATIENCE
from raw_ssh import CLOSE, DATA, NOT_OPENED, OPENED, SERVICE_REQUEST, WINDOW, RawClient
from ssh_stage import Door, door, resident, server_of, wait_until_gone
from twisted.conch.ssh.common import NS

pytestmark = pytest.mark.integration
MIB = 1_048_576
MOST = 2**32 - 1


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with door(tmp_path_factory.mktemp("raw"), forward=True) as made:
        yield made


@pytest.fixture
def client(stage: Door) -> Iterator[RawClient]:
    """One that has logged in."""
    made = RawClient(stage.port)
    made.log_in("root", stage.key)
    yield made
    made.close()


def settled(pid: int) -> int:
    """The memory of a process once it grows no more for a second, or is far too large."""
    held = resident(pid)
    while True:
        time.sleep(1.0)
        now = resident(pid)
        if now <= held or now > 300 * MIB:
            return now
        held = now


@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_window_without_an_end(stage: Door, client: RawClient, stream: str) -> None:
    """Four gibibytes are allowed, and nothing is read: the program is stopped, and the server keeps what fits."""
    server = server_of(stage.processes[-1])
    before = resident(server)
    _, channel = client.open(0, MOST, 32_768)
    client.run(channel, f"cat /dev/zero >&{stream}".encode())
    client.sendPacket(WINDOW, struct.pack(">2L", channel, MOST))
    assert settled(server) < before + 16 * MIB
    got = 0
    while got < 20 * MIB:  # then it goes on
        got += len(client.wait_for(DATA, 95)[1])


def test_packets_without_a_byte(client: RawClient) -> None:
    """A client that takes packets of no bytes would get them without an end: there is no such channel."""
    for size in (0, 1, 255):
        answer, reason = client.open(0, MOST, size)
        assert (answer, reason) == (NOT_OPENED, 4)
    assert client.open(0, MOST, 256)[0] == OPENED


def test_a_channel_that_is_closed_before_its_output_was_taken(stage: Door, client: RawClient) -> None:
    """It is closed on both sides, and its program ends: the client wants no more of it."""
    [before] = [children_of(server_of(stage.processes[-1]))]
    for number in range(12):  # more than there may be at once
        answer, channel = client.open(number, 100, 32_768)
        assert answer == OPENED
        client.run(channel, b"yes")
        client.wait_for(DATA)
        client.sendPacket(CLOSE, struct.pack(">L", channel))
        client.wait_for(CLOSE)
    server = server_of(stage.processes[-1])
    deadline = time.monotonic() + PATIENCE
    while children_of(server) != before:
        assert time.monotonic() < deadline, "a program goes on"
        time.sleep(0.05)


def children_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_one_login_for_each_connection(stage: Door, client: RawClient) -> None:
    """A service that is asked for again would count tries and time anew; after a login it would take its place."""
    client.sendPacket(SERVICE_REQUEST, NS(b"ssh-userauth"))
    assert b"one login for each connection" in client.rest()[-1][1]
    early = RawClient(stage.port)
    for _ in range(2):
        early.sendPacket(SERVICE_REQUEST, NS(b"ssh-userauth"))
    assert b"one login for each connection" in early.rest()[-1][1]
    early.close()


def test_keys_are_changed_after_a_login(stage: Door, client: RawClient) -> None:
    """As often as the client likes; before it once, and what is asked for after a change is answered."""
    for number in range(3):
        client.is_secure = False
        client.sendKexInit()
        while not client.is_secure:
            client.read()
        _, channel = client.open(number, MOST, 32_768)
        client.run(channel, b"echo on")
        assert client.wait_for(DATA)[1].endswith(b"on\n")
    early = RawClient(stage.port)
    early.sendKexInit()
    assert b"keys are changed after a login" in early.rest()[-1][1]
    early.close()


def test_a_login_has_its_time(tmp_path: Path) -> None:
    """From the first byte on: a client that says nothing, and one that only changes keys, go as one without a key."""
    with door(tmp_path, login=2.0) as stage:
        with socket.create_connection(("127.0.0.1", stage.port), PATIENCE) as silent:
            heard = b""
            while data := silent.recv(65_536):
                heard += data
        assert b"nobody has logged in within 2 s" in heard
        changing = RawClient(stage.port)
        assert b"nobody has logged in within 2 s" in changing.rest()[-1][1]
        changing.close()
        stays = RawClient(stage.port)
        stays.log_in("root", stage.key)
        _, channel = stays.open(0, MOST, 32_768)
        stays.run(channel, b"sleep 3; echo on")
        assert stays.wait_for(DATA)[1].endswith(b"on\n"), "a login ends the time"
        stays.close()


# ------------------------------------------------------------------------------------------------ forwarding


def forward(host: bytes, port: int) -> bytes:
    return NS(host) + struct.pack(">L", port) + NS(b"127.0.0.1") + struct.pack(">L", 1)


@pytest.mark.parametrize(("host", "port"), [
    (b"127.0.0.1", 70_000), (b"127.0.0.1", MOST), (b"\xff\xfe", 1), (b"a" * 300, 1), (b"127.0.0.1\0", 1), (b"", 1),
])  # fmt: skip
def test_destinations_that_there_are_none_of(client: RawClient, host: bytes, port: int) -> None:
    """The channel is closed, and the connection goes on."""
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
    """The destination gets all of it, and its end; then the answer comes back."""
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
