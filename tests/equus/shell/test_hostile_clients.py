"""Test hostile clients of the SSH server, before a login and after one: what they get, and what they cost the host."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve
from openssh import PATIENCE
from ssh_stage import Door, door, resident, server_of, wait_until_gone

from equus.shell.permits import Access

pytestmark = pytest.mark.integration
MIB = 1_048_576


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with door(tmp_path_factory.mktemp("hostile"), forward=True) as made:
        yield made


def offered(stage: Door) -> dict[str, list[str]]:
    """Return what the server offers, as OpenSSH's client has read it."""
    done = stage.run("-vv", "-o", "LogLevel=DEBUG2", "-o", "Compression=yes", "true")
    assert done.returncode == 0
    _, _, peer = done.stderr.decode().partition("peer server KEXINIT proposal")
    lines = [line.removeprefix("debug2: ").split(": ", 1) for line in peer.splitlines() if line.startswith("debug2: ")]
    return {name: said.split(",") for name, said in (line for line in lines if len(line) == 2)}


def test_only_methods_that_are_good_today(stage: Door) -> None:
    """The server offers neither compression, which unpacks a small packet to a gibibyte, nor SHA-1, MD5 or CBC."""
    found = offered(stage)
    assert found["compression ctos"] == found["compression stoc"] == ["none"]
    assert all(name.endswith("-ctr") for name in found["ciphers ctos"])
    assert all(name.startswith("hmac-sha2-") for name in found["MACs stoc"])
    begins = ("mlkem768x25519-sha256", "curve25519-sha256", "ecdh-sha2-nistp", "ext-info-s", "kex-strict-s")
    assert all(name.startswith(begins) for name in found["KEX algorithms"])
    assert "curve25519-sha256" in found["KEX algorithms"]
    assert found["host key algorithms"] == ["ssh-ed25519"]


@pytest.mark.parametrize("said", [
    b"GET / HTTP/1.1\r\n\r\n", b"x" * 100_000, b"SSH-2.0-x\r\n" + b"\xff" * 5_000, b"SSH-1.5-x\r\n",
    b"SSH-2.0-x\r\n" + bytes(64),
])  # fmt: skip
def test_noise_before_a_login(stage: Door, said: bytes) -> None:
    """Noise before a login ends the connection and its process."""
    before = len(stage.processes)
    with socket.create_connection(("127.0.0.1", stage.port), PATIENCE) as client:
        client.sendall(said)
        client.shutdown(socket.SHUT_WR)
        while client.recv(65_536):
            pass
    [process] = stage.processes[before:]
    assert process.wait(PATIENCE) == 0


def test_a_destination_that_takes_nothing_costs_no_memory(stage: Door) -> None:
    """A destination that takes nothing costs no memory, and neither does a client that takes nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE)
        words = stage.ssh("-W", f"127.0.0.1:{listener.getsockname()[1]}")
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            try:
                target, _ = listener.accept()
                with target:
                    server = server_of(stage.processes[-1])
                    assert process.stdin is not None and process.stdout is not None
                    before = resident(server)
                    flood(process.stdin.fileno())
                    assert resident(server) < before + 16 * MIB
                    flood(target.fileno())
                    assert resident(server) < before + 24 * MIB
            finally:
                process.kill()


def flood(descriptor: int, data: bytes = bytes(65_536)) -> None:
    """Write until nothing is taken any more for some seconds, at most 64 MiB."""
    os.set_blocking(descriptor, False)
    refused = threading.Event()
    rest = b""
    for _ in range(64 * 16):
        for _ in range(30):
            try:
                rest = rest or data
                rest = rest[os.write(descriptor, rest) :]
                break
            except BlockingIOError:
                refused.wait(0.1)
        else:
            return


def test_packets_without_an_end_before_a_login(stage: Door) -> None:
    """Packets without an end before a login do not let memory grow, although the client reads no answer."""
    packet = struct.pack(">IBB", 12, 10, 192) + bytes(10)  # of a kind that there is not
    with socket.create_connection(("127.0.0.1", stage.port), PATIENCE) as client:
        client.sendall(b"SSH-2.0-x\r\n")
        assert client.recv(3) == b"SSH"
        server = server_of(stage.processes[-1])
        before = resident(server)
        flood(client.fileno(), packet * 4_096)
        assert resident(server) < before + 16 * MIB
    wait_until_gone([server])


def test_a_client_that_reads_nothing_can_not_stay(tmp_path: Path) -> None:
    """A client that reads nothing is ended at the longest time of a session."""
    with door(tmp_path, most=20.0) as made:
        words = made.ssh("echo in; sleep 2; cat /dev/zero")
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None and process.stdout.read(3) == b"in\n"
                process.send_signal(signal.SIGSTOP)
                assert made.processes[-1].wait(PATIENCE) == 0
            finally:
                process.kill()


def test_what_a_login_may_not_ask_for(stage: Door) -> None:
    """A login gets neither the caller's agent and display, nor a port of this host that leads to the caller."""
    assert stage.run("-A", "echo ${SSH_AUTH_SOCK:-none} ${DISPLAY:-none}").stdout == b"none none\n"
    done = stage.run("-R", "0:127.0.0.1:1", "-o", "ExitOnForwardFailure=yes", "true")
    assert (done.returncode, done.stdout) == (255, b"")


def test_the_keys_of_the_server_are_out_of_reach(tmp_path: Path) -> None:
    """A user who is not root cannot read the host key, the settings, the memory or the open files of the server."""
    with door(tmp_path) as stage:
        command = (
            "/bin/sh", "-c", "p=$PPID; for file in mem maps environ fd/3; do cat /proc/$p/$file >/dev/null 2>&1 && echo"
            f" $file; done; cat {tmp_path}/ssh_host_key.pem 2>/dev/null; echo end",
        )  # fmt: skip
        stage.settings = evolve(stage.settings, command=command, access=Access(("nobody",), str(stage.keys)))
        assert stage.run("x", user="nobody").stdout == b"end\n"


def test_a_client_that_says_nothing(stage: Door) -> None:
    """A client that says nothing and goes leaves no process."""
    with socket.create_connection(("127.0.0.1", stage.port), PATIENCE) as client:
        assert client.recv(3) == b"SSH"
        process = stage.processes[-1]
    wait_until_gone([process.pid])
