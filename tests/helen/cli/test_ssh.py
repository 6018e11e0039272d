"""Tests `helen ssh` with a real Helen and a real agent, and with a hostile Helen, which OpenSSH itself refuses."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shlex
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openssh
import pytest
from helen_running import environment, wait_until
from openssh import PATIENCE
from ssh_fleet import HELEN, Fleet
from ssh_stage import Door, door, resident
from web_client import Web, ask

from helen.cli.base.host_keys import alias

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    made = Fleet(tmp_path_factory.mktemp("ssh"))
    try:
        yield made
    finally:
        made.end()


def test_a_command_on_the_machine_of_an_agent(fleet: Fleet) -> None:
    """The first login keeps the host key and tells its fingerprint; all bytes and the exit status arrive."""
    every = bytes(range(256)) * 4_000
    done = fleet.ssh("root@web-1", *fleet.options(), "cat; exit 7", data=every)
    assert (done.returncode, done.stdout) == (7, every), done.stderr
    shown = ask(fleet.helen, "GET", "/api/v1/agents/web-1").json["shell"]["host_key"]
    assert fleet.known.read_text() == f"{alias('web-1')} {shown}\n"
    assert b"web-1 has the host key SHA256:" in done.stderr
    again = fleet.ssh("root@web-1", *fleet.options(), "echo again")
    assert (again.stdout, again.stderr) == (b"again\n", b"")
    listed = openssh.run([*HELEN, "agents", "--state", str(fleet.helen.state), "web-1"], b"", environment())
    fingerprint = done.stderr.split()[6].rstrip(b",")
    assert b"its host key is " + fingerprint in listed.stdout


def test_scp_by_a_config_of_ones_own(fleet: Fleet, tmp_path: Path) -> None:
    """scp works with `helen tunnel` as ProxyCommand, by the configuration of docs/shell.rst."""
    fleet.ssh("root@web-1", *fleet.options(), "true")
    sent = tmp_path / "sent"
    sent.write_bytes(os.urandom(3_000_000))
    config = fleet.config(tmp_path)
    subprocess.run(
        ["scp", "-q", "-F", str(config), str(sent), f"root@web-1:{tmp_path}/there"], check=True, timeout=PATIENCE,
        env=environment(),
    )  # fmt: skip
    assert (tmp_path / "there").read_bytes() == sent.read_bytes()


def test_rsync(fleet: Fleet, tmp_path: Path) -> None:
    """rsync copies a tree in both directions, and only the changed file the second time."""
    fleet.ssh("root@web-1", *fleet.options(), "true")
    sent, there, back = tmp_path / "sent", tmp_path / "there", tmp_path / "back"
    (sent / "folder").mkdir(parents=True)
    for number in range(20):
        (sent / "folder" / f"file {number}").write_bytes(os.urandom(50_000))
    shell = shlex.join(["ssh", "-F", str(fleet.config(tmp_path))])
    for one, other in ((f"{sent}/", f"root@web-1:{there}"), (f"root@web-1:{there}/", str(back))):
        subprocess.run(["rsync", "-a", "-e", shell, one, other], check=True, timeout=PATIENCE, env=environment())
    for number in range(20):
        name = f"folder/file {number}"
        assert (back / name).read_bytes() == (sent / name).read_bytes()
    (sent / "folder" / "file 3").write_bytes(b"other")
    words = ["rsync", "-a", "-i", "-e", shell, f"{sent}/", f"root@web-1:{there}"]
    told = subprocess.run(words, check=True, capture_output=True, timeout=PATIENCE, env=environment()).stdout
    assert [line.split(b" ", 1)[1] for line in told.splitlines() if line.startswith(b"<f")] == [b"folder/file 3"]


def test_a_reader_that_stops_costs_neither_helen_nor_the_agent_memory(fleet: Fleet) -> None:
    """A program that writes at full speed is stopped by the windows of a reader that stops, without memory of Helen
    or the agent."""
    at = ["--state", str(fleet.helen.state), "--known-hosts", str(fleet.known)]
    words = [*HELEN, "ssh", *at, "root@web-1", *fleet.options(), "cat /dev/zero"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as process:
        try:
            assert process.stdout is not None and len(process.stdout.read(10_000_000)) == 10_000_000
            pids = (fleet.helen.run["pid"], fleet.agent.process.pid)
            before = [resident(pid) for pid in pids]
            time.sleep(5)
            more = [(resident(pid) - held) // 1_048_576 for pid, held in zip(pids, before, strict=True)]
            assert max(more) < 64, more  # Helen's first segment takes some by itself; a stream without windows hundreds
            assert fleet.ssh("root@web-1", *fleet.options(), "echo on").stdout == b"on\n"
        finally:
            process.kill()


def test_what_is_refused(fleet: Fleet, tmp_path: Path) -> None:
    """Another fingerprint, a name that ssh would take for an option and an unknown agent are refused, and no key is
    kept."""
    at = ["--known-hosts", str(tmp_path / "known")]
    done = fleet.ssh(*at, "--fingerprint", "SHA256:other", "root@web-1", "true")
    assert done.returncode == 1
    assert b"and --fingerprint says SHA256:other: do not log in" in done.stderr
    for name in ("root@-oProxyCommand=x", "-x@web-1", "root@web 1", "root@"):
        assert fleet.ssh(*at, "--", name).returncode == 2
    assert fleet.ssh(*at, "root@web-9", "true").returncode == 3
    assert not (tmp_path / "known").exists()


def with_terminal(words: list[str], answer: bytes) -> tuple[int, bytes]:
    """Run a program that asks on its terminal; return its exit status and what it said."""
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            words, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment()
        )
        os.write(ours, answer)
        said, _ = process.communicate(timeout=PATIENCE)
        return process.returncode, said
    finally:
        os.close(ours)
        os.close(theirs)


def test_who_vouches_for_a_host_key_behind_a_url(fleet: Fleet, tmp_path: Path) -> None:
    """Behind a URL a host key is kept only with a copy of Helen's CA, or after a full yes on a terminal."""
    web = Web(fleet.helen)
    known = tmp_path / "known"
    at = [*HELEN, "ssh", "--url", f"http://localhost:{web.port}", "--token", web.token, "--known-hosts", str(known)]
    to = ["root@web-1", *fleet.options(), "echo in"]
    refused = openssh.run([*at, *to], b"yes\n", environment())
    assert (refused.returncode, refused.stdout) == (1, b"")
    assert b"nobody but Helen vouches for it" in refused.stderr
    for answer in (b"\n", b"y\n"):
        status, said = with_terminal([*at, *to], answer)
        assert (status, b"is not trusted, so nothing was sent" in said) == (1, True)
    other = tmp_path / "other.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-subj", "/CN=x", "-keyout", "/dev/null"]
    subprocess.run([*words, "-out", str(other)], check=True, capture_output=True, timeout=PATIENCE)
    done = openssh.run([*at, "--ca", str(other), *to], b"", environment())
    assert (done.returncode, b"not signed by the CA of this Helen" in done.stderr) == (1, True)
    assert not known.exists()
    status, said = with_terminal([*at, *to], b"yes\n")
    assert (status, said.endswith(b"in\n")) == (0, True)
    known.unlink()
    done = openssh.run([*at, "--ca", str(fleet.helen.state / "ca" / "ca.pem"), *to], b"", environment())
    assert (done.returncode, done.stdout) == (0, b"in\n")
    assert openssh.run([*at, *to], b"", environment()).stdout == b"in\n", "it is known from then on"


def test_a_policy_that_changes_ends_sessions(fleet: Fleet) -> None:
    """A policy without [shell] ends open sessions at the next SIGHUP and lets no new one in."""
    at = ["--state", str(fleet.helen.state), "--known-hosts", str(fleet.known)]
    words = [*HELEN, "ssh", *at, "root@web-1", *fleet.options(), "echo in; sleep 1000"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None and process.stdout.read(3) == b"in\n"
        fleet.policy.write_text("")
        fleet.agent.process.send_signal(signal.SIGHUP)
        assert process.wait(PATIENCE) == 255
    try:
        done = fleet.ssh("root@web-1", *fleet.options(), "true")
        assert done.returncode == 255
        assert b"web-1 lets nobody in: its policy has no [shell]" in done.stderr
    finally:
        fleet.policy.write_text(fleet.text)
        fleet.agent.process.send_signal(signal.SIGHUP)
    wait_until(lambda: fleet.ssh("root@web-1", *fleet.options(), "true").returncode == 0, "agent that lets people in")


# ------------------------------------------------------------------------------------------------ a hostile Helen


class HostileHelen:
    """Serve HTTP with any statement on an agent, and carry a tunnel to any place with any change of its bytes."""

    def __init__(self, to: Door, says: str, spoil: Any = None) -> None:
        self.to, self.says, self.spoil = to, says, spoil or (lambda number, data: data)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.threads: list[threading.Thread] = []
        self._run(self._accept)

    def _run(self, call: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=call, args=arguments, daemon=True)
        self.threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                self._run(self._answer, client)

    def _answer(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            head = b""  # and the body, which may come by itself
            while not (head.startswith(b"GET") and head.endswith(b"\r\n\r\n")) and not head.endswith(b"}"):
                if not (more := client.recv(1)):
                    return
                head += more
            if b"/tunnel" not in head.split(b"\r\n")[0]:
                body = json.dumps({"shell": {"host_key": self.says, "signature": "", "certificate": ""}}).encode()
                client.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
                return
            client.sendall(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: equus-tunnel\r\n\r\n")
            with socket.create_connection(("127.0.0.1", self.to.port)) as server:
                self._run(self._carry, client, server, lambda number, data: data)
                self._carry(server, client, self.spoil)

    def _carry(self, one: socket.socket, other: socket.socket, spoil: Any) -> None:
        number = 0
        with contextlib.suppress(OSError):
            while data := one.recv(1_024):
                other.sendall(spoil(number, data))
                number += 1
        for each in (one, other):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in list(self.threads):
            thread.join(PATIENCE)


def flipped(number: int, data: bytes) -> bytes:
    """Flip one bit of the tenth piece and of all that follow."""
    return data if number < 10 else bytes([*data[:-1], data[-1] ^ 1])


def repeated(number: int, data: bytes) -> bytes:
    return data if number != 10 else data + data


def cut_out(number: int, data: bytes) -> bytes:
    return data if number != 10 else b""


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Door, Door]]:
    """Provide the SSH server of web-1, and a foreign one that would accept the same key."""
    folders = tmp_path_factory.mktemp("true"), tmp_path_factory.mktemp("false")
    with door(folders[0]) as true, door(folders[1]) as false:
        false.keys.write_text(true.keys.read_text())
        yield true, false


def through(hostile: HostileHelen, known: Path, machine: Door, *more: str) -> subprocess.CompletedProcess[bytes]:
    try:
        at = ["--url", hostile.url, "--token", "x", "--known-hosts", str(known), *more, "root@web-1"]
        words = openssh.options(machine.key)
        return openssh.run([*HELEN, "ssh", *at, *words, "head -c 1000000 /dev/zero"], b"", environment())
    finally:
        hostile.close()


def test_another_machine_in_the_place_of_the_agent(machines: tuple[Door, Door], tmp_path: Path) -> None:
    """OpenSSH refuses a host key that differs from the known one, and nothing of the session is sent."""
    true, false = machines
    known = tmp_path / "known"
    known.write_text(f"{alias('web-1')} {true.host.line}\n")
    done = through(HostileHelen(false, false.host.line), known, true)
    assert (done.returncode, done.stdout) == (255, b"")
    assert b"Host key verification failed" in done.stderr
    assert known.read_text() == f"{alias('web-1')} {true.host.line}\n"


def test_the_first_time_a_signature_is_wanted(machines: tuple[Door, Door], tmp_path: Path) -> None:
    """A first host key without the signature of the agent's certificate is not kept, unless its fingerprint is
    given."""
    true, false = machines
    known, wanted = tmp_path / "known", ("--fingerprint", true.host.fingerprint)
    done = through(HostileHelen(false, false.host.line), known, true)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"it is not signed with the key of its certificate: read it on the machine" in done.stderr
    done = through(HostileHelen(false, false.host.line), known, true, *wanted)
    assert (done.returncode, done.stdout) == (1, b"")
    done = through(HostileHelen(false, true.host.line), known, true, *wanted)
    assert (done.returncode, done.stdout) == (255, b""), "it says the true key, and carries to another machine"
    for line in ("ssh-rsa AAAA", "ssh-ed25519 AAAA\nother ssh-ed25519 AAAA", "ssh-ed25519 *", ""):
        done = through(HostileHelen(false, line), tmp_path / "none", true)
        assert (done.returncode, done.stdout) == (1, b"")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("spoil", [flipped, repeated, cut_out])
def test_bytes_that_are_changed_on_the_way(machines: tuple[Door, Door], tmp_path: Path, spoil: Any) -> None:
    """ssh ends a session whose bytes are changed, repeated or missing on the way, and passes on no false byte."""
    true, _ = machines
    known = tmp_path / "known"
    known.write_text(f"{alias('web-1')} {true.host.line}\n")
    done = through(HostileHelen(true, true.host.line, spoil), known, true)
    assert done.returncode == 255
    assert done.stdout == bytes(len(done.stdout))
    assert len(done.stdout) < 1_000_000
