"""Test messages of a client that OpenSSH's never sends: windows, packets, services and ends that would harm the
server.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from openssh import PATIENCE, keygen
from raw_ssh import CLOSE, DATA, FAILURE, NOT_OPENED, OPENED, SERVICE_REQUEST, STDERR, WINDOW, RawClient
from ssh_stage import Door, children, door, resident, server_of
from twisted.conch.ssh import transport
from twisted.conch.ssh.common import NS
from twisted.conch.ssh.keys import Key
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from equus.shell.permits import Access, Permit
from equus.shell.server import TRIES, Server
from equus.shell.server_transport import MOST_BLOCKED, PACKET, Transport

pytestmark = pytest.mark.integration
MIB = 1_048_576
MOST = 2**32 - 1


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """Yield a host that lets one key in as root, and the same key as `recordings`."""
    folder = tmp_path_factory.mktemp("raw")
    access = Access(("root",), str(folder / "authorized_keys"), None, str(folder / "id.pub"))
    with door(folder, access=access) as made:
        yield made


@pytest.fixture
def client(stage: Door) -> Iterator[RawClient]:
    """Yield a client that has logged in."""
    made = RawClient(stage.port)
    made.log_in("root", stage.key)
    yield made
    made.close()


@pytest.fixture(params=["root", "recordings"])
def anybody(request: pytest.FixtureRequest, stage: Door) -> Iterator[RawClient]:
    """Yield a client that has logged in, once as a person and once as an auditor."""
    made = RawClient(stage.port)
    made.log_in(request.param, stage.key)
    yield made
    made.close()


def wait_until_blocked(server: int, most: int) -> None:
    """Wait until the only program of a server writes no more and both sleep, and check the server's memory."""
    [program] = children(server)
    until = time.monotonic() + PATIENCE
    quiet, before = 0, b""
    while quiet < 10:
        assert time.monotonic() < until, "the program is never blocked"
        assert resident(server) < most
        time.sleep(0.1)
        now = Path(f"/proc/{program}/io").read_bytes()
        quiet = quiet + 1 if now == before and is_asleep(server) and is_asleep(program) else 0
        before = now


def is_asleep(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_window_without_an_end(stage: Door, client: RawClient, stream: str) -> None:
    """A window of four gibibytes that nobody reads stops the program, and the server's memory stays small."""
    server = server_of(stage.processes[-1])
    before = resident(server)
    _, channel = client.open(0, MOST, 32_768)
    client.run(channel, f"exec cat /dev/zero >&{stream}".encode())
    client.sendPacket(WINDOW, struct.pack(">2L", channel, MOST))
    client.wait_for(DATA, STDERR)
    wait_until_blocked(server, before + 16 * MIB)
    got = 0
    while got < 20 * MIB:  # then it goes on
        got += len(client.wait_for(DATA, STDERR)[1])


def test_packets_without_a_byte(anybody: RawClient) -> None:
    """A channel with packets below 256 bytes is refused, because empty ones would be sent without an end."""
    for size in (0, 1, 255):
        answer, reason = anybody.open(0, MOST, size)
        assert (answer, reason) == (NOT_OPENED, 4)
    assert anybody.open(0, MOST, 256)[0] == OPENED


def test_channels_without_an_end(anybody: RawClient) -> None:
    """Ten channels are open at once, for a person and for an auditor, and a closed one makes room."""
    answers = [anybody.open(number, 0, 32_768) for number in range(12)]
    assert [answer for answer, _ in answers] == [OPENED] * 10 + [NOT_OPENED] * 2
    assert answers[-1][1] == 4
    anybody.sendPacket(CLOSE, struct.pack(">L", answers[3][1]))
    anybody.wait_for(CLOSE)
    assert anybody.open(12, 0, 32_768)[0] == OPENED


def test_a_channel_that_is_closed_before_its_output_was_taken(stage: Door, client: RawClient) -> None:
    """A channel that the client closes before it took the output is closed on both sides, and its program ends."""
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
    """A second request for a login ends the connection, because it would count tries and time anew."""
    client.sendPacket(SERVICE_REQUEST, NS(b"ssh-userauth"))
    assert b"one login for each connection" in client.rest()[-1][1]
    early = RawClient(stage.port)
    for _ in range(2):
        early.sendPacket(SERVICE_REQUEST, NS(b"ssh-userauth"))
    assert b"one login for each connection" in early.rest()[-1][1]
    early.close()


def test_keys_are_changed_after_a_login(stage: Door, client: RawClient) -> None:
    """A client may change keys after a login as often as it likes, gets its answers afterwards, and is cut if it does
    so before.
    """
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


def test_a_program_waits_while_keys_are_changed(stage: Door, client: RawClient) -> None:
    """A program is blocked while keys are changed, so that its output does not fill the server's memory, and goes on
    afterwards.
    """
    server = server_of(stage.processes[-1])
    before = resident(server)
    _, channel = client.open(0, MOST, 32_768)
    client.run(channel, b"exec cat /dev/zero")
    client.wait_for(DATA)
    offers: list[bytes] = []
    client.ssh_KEXINIT = offers.append  # type: ignore[method-assign, assignment]
    client.is_secure = False
    client.sendKexInit()
    while not offers:
        client.read()
    wait_until_blocked(server, before + 16 * MIB)
    transport.SSHClientTransport.ssh_KEXINIT(client, offers[0])
    while not client.is_secure:
        client.read()
    client.heard.clear()
    client.wait_for(DATA)


@pytest.mark.parametrize("size", [0, 9, 32_768])
def test_what_waits_for_a_change_of_keys(size: int) -> None:
    """Packets that wait for a change of keys are counted with their overhead, and a client is cut when they are too
    many.
    """
    server, wire = Transport(), StringTransport()
    server.transport = wire
    server.currentEncryptions = transport.SSHCiphers(*[b"none"] * 4)
    server.currentEncryptions.setKeys(*[b""] * 6)
    server._keyExchangeState, server._blockedByKeyExchange = server._KEY_EXCHANGE_REQUESTED, []
    for _ in range(MOST_BLOCKED // (size + PACKET)):
        server.sendPacket(DATA, bytes(size))
    server.sendPacket(transport.MSG_IGNORE, bytes(size))  # goes out, so it is not counted
    assert not wire.disconnecting
    server.sendPacket(DATA, bytes(size))
    assert wire.disconnecting


def test_packets_behind_the_end(stage: Door, tmp_path: Path) -> None:
    """A login behind one key too many, in the same read, counts for nothing, nor does any packet behind it."""
    wrong = keygen(tmp_path / "wrong")
    client = RawClient(stage.port)
    together: list[bytes] = []
    send, client.write = client.write, together.append
    client.sendPacket(SERVICE_REQUEST, NS(b"ssh-userauth"))
    for _ in range(TRIES + 1):
        client.show_key("root", wrong)
    client.ask_for_login("root", stage.key)
    send(b"".join(together))
    heard = client.rest()
    assert [number for number, _ in heard].count(FAILURE) == TRIES
    assert heard[-1][0] == transport.MSG_DISCONNECT and b"too many bad auths" in heard[-1][1]
    client.close()


def test_a_login_has_its_time(tmp_path: Path) -> None:
    """The time for a login counts from the first byte on, and cuts a client that says nothing or only changes keys."""
    with door(tmp_path, login=2.0) as stage:
        with socket.create_connection(("127.0.0.1", stage.port), PATIENCE) as silent:
            heard = b""
            while data := silent.recv(65_536):
                heard += data
        assert b"nobody has logged in within 2 s" in heard
        changing = RawClient(stage.port)
        assert b"nobody has logged in within 2 s" in changing.rest()[-1][1]
        changing.close()


def test_a_login_ends_its_time(stage: Door) -> None:
    """A login ends the time that a client has for it, and a client without a login is cut by it."""
    blob = Key.fromFile(str(stage.key)).public().blob()
    for is_in, ends in ((False, [b"nobody has logged in within 60 s"]), (True, [])):
        clock, said = Clock(), Said()
        server = Server(stage.settings, clock, time.time, lambda: None)
        server._connection = said
        if is_in:
            server.let_in("root", Permit("x", blob), blob)
        clock.pump([1.0] * 61)
        assert said.reasons == ends


class Said:
    """Stand in for a connection, and keep the reasons for which it was ended."""

    def __init__(self) -> None:
        self.reasons: list[bytes] = []

    def sendDisconnect(self, _code: int, reason: bytes) -> None:
        self.reasons.append(reason)
