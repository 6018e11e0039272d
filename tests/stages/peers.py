"""Plays foreign peers: an agent of a few lines in a thread, a broker process, and clients made of raw
frames.

The frames are those of RFC 7, RFC 18 and docs/scale0.rst, written by hand: nothing of scale0 is used here.
"""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

import zmq
from helen_running import TWISTD, Program, wait_until
from ports import free_port

from equus_protocol import messages as m
from equus_protocol.conversation import Conversation, Role

ENDS = ("frontend", "backend", "peer", "config_pub")  # of a broker, each with a port of its own
PATIENCE = 60.0  # seconds; only what is broken comes near it
DENIED = b'{"status": "unknown", "reason": "denied", "summary": "not on this machine"}'


def answer(agent: str, args: bytes) -> bytes:
    """Return the answer of the check `echo`: spaced as no encoder of ours does it, so that bytes which were written
    anew show.
    """
    return b'{ "status" : "ok",  "summary":"%s %s" }' % (agent.encode(), args.replace(b'"', b"'"))


class Agent:
    """Answers `echo` and `denied`; hangs up at `hangup`; says nothing to `silence`. Speaks version 2 when it comes."""

    def __init__(self, address: str, name: str) -> None:
        host, _, port = address.rpartition(":")
        self.name = name
        self.asked: list[tuple[str, bytes]] = []
        self.cancelled: list[int] = []
        self.orders: dict[str, dict[str, Any]] = {}
        self.servers: list[bytes] = []
        self.closed = threading.Event()
        self._conversation = Conversation(Role.EQUUS)
        self._socket = socket.create_connection((host, int(port)), PATIENCE)
        self._socket.settimeout(None)
        self._say(m.Hello(2, f"0.1.0;name={name}"))
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()

    def _say(self, message: m.Message) -> None:
        self._socket.sendall(self._conversation.send(message))

    def _live(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._socket.recv(65_536):
                self._conversation.feed(data)
                while (message := self._conversation.next_message()) is not None:
                    self._hear(message)
        self.closed.set()

    def _hear(self, message: m.Message) -> None:
        if isinstance(message, m.Ping):
            self._say(m.Pong(message.message_id))
        elif isinstance(message, m.Cancel):
            self.cancelled.append(message.message_id)
        elif isinstance(message, m.Servers):
            self.servers.append(message.blob)
        elif isinstance(message, m.Check):
            self.asked.append((message.name, message.args))
            if message.name == "echo":
                self._say(m.Result(message.message_id, message.name, answer(self.name, message.args)))
            elif message.name == "equus:once":
                self._say(m.Result(message.message_id, message.name, self._obey(message.args)))
            elif message.name == "denied":
                self._say(m.Result(message.message_id, message.name, DENIED))
            elif message.name == "hangup":
                self._socket.shutdown(socket.SHUT_RDWR)

    def _obey(self, blob: bytes) -> bytes:
        """Take an order, once; whether it is signed well is judged by the real agents and not here."""
        order = json.loads(json.loads(blob)["order"]["signed"])
        if order["id"] in self.orders:
            return b'{"status": "unknown", "reason": "denied", "summary": "has run here already"}'
        self.orders[order["id"]] = order
        return json.dumps({"status": "ok", "summary": f"{order['check']} {order['args']}", "check": "disk"}).encode()

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE)
        self._socket.close()


class Broker:
    """Runs `twistd scale0` on free ports; `again` starts it anew on those that it had."""

    def __init__(self, folder: Path, **config: Any) -> None:
        folder.mkdir()
        self.folder = folder
        self._file, self._run_file = folder / "broker.json", folder / "state" / "run.json"
        self._file.write_text(broker_config(folder.name, **config))
        self.configure(**{f"{name}_port": free_port() for name in ENDS})
        self._start()

    def _start(self) -> None:
        words = [*TWISTD, "-n", "--pidfile=", "scale0", "--config", str(self._file), "--insecure-network"]
        self.program = Program([*words, "--state", str(self.folder / "state")], self.folder / "broker.log")

    def up(self) -> Broker:
        wait_until(self._is_up, "broker")
        self.run = json.loads(self._run_file.read_text())
        return self

    def again(self) -> Broker:
        """Start the broker after its end, on the ports that it had."""
        self._start()
        return self.up()

    def configure(self, **config: Any) -> None:
        """Write settings for the broker's next start."""
        self._file.write_text(json.dumps(json.loads(self._file.read_text()) | config))

    def _is_up(self) -> bool:
        assert self.program.process.poll() is None, self.program.said
        with contextlib.suppress(OSError, ValueError):
            return bool(json.loads(self._run_file.read_text())["pid"] == self.program.process.pid)
        return False

    def end(self) -> None:
        self.program.end()


ELSEWHERE = b'[{"address":"h9.example:4166"}]'


def broker_config(identity: str, **more: Any) -> str:
    """Return a broker's configuration, with a list of Helens for agents unless something else is asked for."""
    document = {"name": "servers", "content": base64.b64encode(ELSEWHERE).decode()}
    ports = {"frontend_port": 0, "backend_port": 0, "default_heartbeat_interval": 1.0}
    return json.dumps({"identity": identity, **ports, **(more or {"documents": [document]})})


class Asker:
    """Is a DEALER at a broker's frontend: a client of RFC 7, of RFC 18, or of Scale0."""

    def __init__(self, endpoint: str, curve: tuple[bytes, bytes, bytes] | None = None) -> None:
        self.socket = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        if curve is not None:
            self.socket.curve_publickey, self.socket.curve_secretkey, self.socket.curve_serverkey = curve
        self.socket.connect(endpoint)
        self._numbers = iter(range(1, 1_000))

    def read(self, within: float = PATIENCE) -> list[bytes]:
        assert self.socket.poll(1_000 * within), "no answer"
        return self.socket.recv_multipart()

    def mdp1(self, service: str, *body: bytes) -> list[bytes]:
        """Return the body of the reply to a request of RFC 7."""
        self.socket.send_multipart([b"", b"MDPC01", service.encode(), *body])
        frames = self.read()
        assert frames[:3] == [b"", b"MDPC01", service.encode()], frames
        return frames[3:]

    def mdp2(self, service: str, *body: bytes) -> list[bytes]:
        """Return the body of the FINAL that answers a request of RFC 18."""
        self.socket.send_multipart([b"MDPC02", b"\1", service.encode(), *body])
        frames = self.read()
        assert frames[:3] == [b"MDPC02", b"\3", service.encode()], frames
        return frames[3:]

    def has(self, service: str) -> bool:
        """Say by mmi.service of RFC 8 whether the broker has a service."""
        return self.mdp1("mmi.service", service.encode()) == [b"200"]

    def wait_for(self, *services: str, there: bool = True) -> float:
        """Return how long it took until all of them were there, or none was."""
        began = time.monotonic()
        for service in services:
            wait_until(lambda service=service: self.has(service) is there, f"change of {service}")
        return time.monotonic() - began

    def say(self, command: bytes, options: dict[str, Any], *body: bytes) -> None:
        self.socket.send_multipart([b"SCALE0", b"\1", command, json.dumps(options).encode(), *body])

    def ask(self, service: str, *body: bytes, **options: Any) -> str:
        number = f"r{next(self._numbers)}"
        self.say(b"REQUEST", {"id": number, "service": service, **options}, *body)
        return number

    def final(self, about: str) -> tuple[int, str, list[bytes]]:
        """Return code, reason and body of the FINAL about this request; all else that a broker says is passed over."""
        while True:
            frames = self.read()
            options = json.loads(frames[3])
            if frames[:3] == [b"SCALE0", b"\1", b"FINAL"] and options["id"] == about:
                return options["code"], options.get("reason", ""), frames[4:]

    def end(self) -> None:
        self.socket.close()


class Rpc:
    """Is a client of ZeroTask on a DEALER, with JSON-RPC written by hand."""

    def __init__(self, endpoint: str, curve: tuple[bytes, bytes, bytes] | None = None, name: str | None = None) -> None:
        self.socket = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        if curve is not None:
            self.socket.curve_publickey, self.socket.curve_secretkey, self.socket.curve_serverkey = curve
        self.socket.connect(endpoint)
        self._numbers = iter(range(1, 1_000))
        self.name = self.call("client_connect", client_id=name)

    def call(self, method: str, /, **params: Any) -> Any:
        """Return the result of a call; an error object comes back whole."""
        number = next(self._numbers)
        request = {"jsonrpc": "2.0", "method": f"zerotask.broker.{method}", "params": params, "id": number}
        self.socket.send_multipart([b"", json.dumps(request).encode()])
        while True:
            assert self.socket.poll(1_000 * PATIENCE), f"no answer to {method}"
            told = json.loads(self.socket.recv_multipart()[-1])
            if told.get("id") == number:
                return told.get("result", told.get("error"))

    def submit(self, method: str, params: Any) -> str:
        return str(self.call("client_new_task", client_id=self.name, method=method, params=params))

    def status(self, task_id: str) -> Any:
        return self.call("client_task_status", client_id=self.name, task_id=task_id)

    def result(self, task_id: str) -> Any:
        return self.call("client_task_result", client_id=self.name, task_id=task_id, wait=PATIENCE)

    def end(self) -> None:
        self.socket.close()
