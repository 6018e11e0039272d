"""Tests `helen tunnel` through a real Helen to an agent that echoes, and every way in which it ends."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import IO, Any

import pytest
from helen_running import Running, environment, wait_until
from web_client import Web, ask

from equus_protocol import messages as m
from equus_protocol.conversation import Conversation, Role
from equus_protocol.tunnel_streams import TunnelStreams

pytestmark = pytest.mark.integration
HELEN = [sys.executable, "-c", "from helen.cli.main import main; main(prog_name='helen')"]


class Echo:
    """Is the local side of a tunnel that sends back what comes."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.came = 0

    def write(self, data: bytes) -> None:
        self.came += len(data)
        self.stream.read(data)

    def pauseProducing(self) -> None:
        self.stream.choke()

    def resumeProducing(self) -> None:
        self.stream.unchoke()

    def loseConnection(self) -> None:
        pass


class ScriptedAgent(threading.Thread):
    """Is an agent without TLS that says what it is told to: `answer` is `echo`, or the reason of a close."""

    def __init__(self, address: str, name: str, kinds: list[str]) -> None:
        super().__init__(daemon=True)
        host, _, port = address.rpartition(":")
        self.name_, self.kinds, self.answer = name, kinds, "echo"
        self.socket = socket.create_connection((host, int(port)))
        self.ours = Conversation(Role.EQUUS)
        self.streams = TunnelStreams(self.ours, self.say, lambda: True, lambda call: self.soon.append(call))
        self.soon: list[Any] = []
        self.pongs = 0
        self.closed: list[str] = []

    def say(self, message: m.Message) -> None:
        self.socket.sendall(self.ours.send(message))

    def run(self) -> None:
        self.say(m.Hello(2, f"kit/1;name={self.name_}"))
        while data := self.socket.recv(65_536):
            self.ours.feed(data)
            while (message := self.ours.next_message()) is not None:
                self.hear(message)
            while self.soon:
                self.soon.pop(0)()

    def hear(self, message: m.Message) -> None:
        if isinstance(message, m.Schedule):
            self.say(m.Loaded("none", json.dumps({"tunnels": self.kinds, "host": {"os": "kit"}}).encode()))
        elif isinstance(message, m.Ping):
            self.say(m.Pong(message.message_id))
        elif isinstance(message, m.Tunnel):
            stream = self.streams.add(message.message_id)
            stream.on_end = self.closed.append
            if self.answer == "echo":
                stream.attach(Echo(stream))
            else:
                stream.close(self.answer)
        elif isinstance(message, m.Bytes | m.Window | m.Close):
            self.streams.heard(message)


@pytest.fixture(scope="module")
def helen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(tmp_path_factory.mktemp("tunnels"), "--insecure-plaintext").up()
    try:
        yield running
    finally:
        running.end()


@pytest.fixture(scope="module")
def agent(helen: Running) -> Iterator[ScriptedAgent]:
    made = ScriptedAgent(helen.run["agents"], "web-1", ["ssh"])
    with made.socket:
        made.start()
        wait_until(lambda: is_ready(helen, "web-1"), "agent that has reported")
        yield made
        with contextlib.suppress(OSError):
            made.socket.shutdown(socket.SHUT_RDWR)
        made.join(60)


def is_ready(helen: Running, name: str) -> bool:
    """Say whether Helen has read the agent's load report."""
    answer = ask(helen, "GET", f"/api/v1/agents/{name}")
    return answer.status == 200 and answer.json["host"] == {"os": "kit"}


def tunnel(helen: Running, name: str, data: bytes = b"", *more: str) -> subprocess.CompletedProcess[bytes]:
    words = [*HELEN, "tunnel", name, *(more or ("--state", str(helen.state)))]
    return subprocess.run(words, input=data, capture_output=True, timeout=120, env=environment(), check=False)


@contextlib.contextmanager
def start(helen: Running, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a tunnel that is open: a word has gone through it and come back."""
    words = [*HELEN, "tunnel", "web-1", *(more or ("--state", str(helen.state)))]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"hello")
        process.stdin.flush()
        assert process.stdout.read(5) == b"hello"
        yield process


def write(pipe: IO[bytes], data: bytes) -> None:
    pipe.write(data)
    pipe.flush()


def audit(helen: Running, action: str) -> list[dict[str, Any]]:
    return [row for row in ask(helen, "GET", "/api/v1/audit?limit=100").json["audit"] if row["action"] == action]


def test_bytes_go_there_and_back(helen: Running, agent: ScriptedAgent) -> None:
    """More bytes than every window and buffer hold come back, on the socket and over TCP with a token."""
    data = bytes(range(256)) * 12_000
    web = Web(helen)
    for more in ((), ("--url", f"http://localhost:{web.port}", "--token", web.token)):
        with start(helen, *more) as process:
            assert process.stdin is not None and process.stdout is not None
            writer = threading.Thread(target=write, args=(process.stdin, data))
            writer.start()
            assert process.stdout.read(len(data)) == data
            writer.join(60)
            process.stdin.close()
            assert process.wait(60) == 0
    assert wait_until(lambda: len(agent.closed) >= 2 and agent.closed, "end of both")[-1] == "done"


def test_the_audit_has_who_and_how_much(helen: Running, agent: ScriptedAgent) -> None:
    """The audit has an entry at the beginning, in case Helen dies, and one at the end with bytes and the reason."""
    with start(helen) as process:
        wait_until(lambda: audit(helen, "tunnel"), "entry of the beginning")
        before = len(audit(helen, "tunnel-end"))
        process.communicate(timeout=60)
    ends = wait_until(lambda: (rows := audit(helen, "tunnel-end")) and len(rows) > before and rows, "entry of the end")
    newest = max(ends, key=lambda row: row["at"])
    assert newest["actor"] == "operator"
    assert newest["subject"].startswith("web-1 ssh ")
    assert newest["subject"].endswith(" s, 5 bytes there, 5 back: done")


@pytest.mark.parametrize(("name", "answer", "status", "said"), [
    ("web-1", "denied", 1, b"web-1 lets nobody in: its policy has no [shell]"),
    ("web-1", "busy", 1, b"web-1 has as many tunnels open as its policy allows"),
    ("web-9", "echo", 3, b"no agent is called 'web-9'"),
])  # fmt: skip
def test_refusals(helen: Running, agent: ScriptedAgent, name: str, answer: str, status: int, said: bytes) -> None:
    """A refusal is a sentence on standard error, with the exit status of the page of commands."""
    agent.answer = answer
    try:
        result = tunnel(helen, name)
    finally:
        agent.answer = "echo"
    assert (result.returncode, result.stdout) == (status, b"")
    assert said in result.stderr


def test_a_request_without_an_upgrade(helen: Running, agent: ScriptedAgent) -> None:
    """A request without an upgrade is told what to send, and the connection goes on as any other."""
    answer = ask(helen, "POST", "/api/v1/agents/web-1/tunnel", {"kind": "ssh"})
    assert answer.problem[:2] == (426, "upgrade required")
    assert ask(helen, "POST", "/api/v1/agents/web-1/tunnel", {"kind": "ssh", "dry_run": True}).json["targets"] == 1


def test_a_token_that_is_revoked_ends_its_tunnel(helen: Running, agent: ScriptedAgent) -> None:
    """A token that is revoked ends its tunnel at once, as it ends every stream; a reading token opens none."""
    port = Web(helen).port
    made = ask(helen, "POST", "/api/v1/web-tokens", {"name": "ops", "scopes": ["operate"]}).json
    with start(helen, "--url", f"http://localhost:{port}", "--token", made["token"]) as process:
        assert ask(helen, "POST", "/api/v1/web-tokens/ops/revoke", {}).status == 200
        assert process.wait(60) == 0
    reading = ask(helen, "POST", "/api/v1/web-tokens", {"name": "look", "scopes": ["read"]}).json
    refused = tunnel(helen, "web-1", b"", "--url", f"http://localhost:{port}", "--token", reading["token"])
    assert (refused.returncode, refused.stdout) == (1, b"")
    assert b"lacks the scope `operate`" in refused.stderr


def test_an_agent_that_goes_ends_its_tunnels(helen: Running, agent: ScriptedAgent) -> None:
    """The caller's side ends, and the audit says why."""
    with start(helen) as process:
        agent.socket.shutdown(socket.SHUT_RDWR)
        assert process.wait(60) == 0
    wait_until(
        lambda: any("connection-lost" in row["subject"] for row in audit(helen, "tunnel-end")), "entry with the reason"
    )
