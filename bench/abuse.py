#!/usr/bin/env python3
"""What people who mean harm cost Helen: sockets that say nothing, and an agent that doesn't read what it is sent.

    bench/abuse.py [--sockets 2000] [--mebibytes 200]

A Helen of its own on loopback. Silent sockets come from twenty networks, or all but 200 would be closed at once; an
honest agent's `ping` is timed before and while they are there. The deaf agent is sent questions of a mebibyte until it
is cut, and comes back, until so many mebibytes were meant for it; before that the same goes to one that reads, so that
what Helen takes for the questions themselves is not counted. Exit status 1 if a promise of docs/security.rst is broken.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from equus_protocol import messages as m
from equus_protocol.conversation import Conversation, Role
from helen.cli.client import Client, Failed

TWISTD = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "-n", "--pidfile="]
CHECK = 'return { summary = "Says a word", args = { word = { type = "string" } }, run = function() return "ok" end }\n'
MEBIBYTE = 1_048_576
QUESTION = 1_000_000  # bytes of args: as long as a blob may be, nearly
NETWORKS = 20


class Helen:
    """One of our own, and identities for it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder, folder / "state"
        checks = folder / "checks"
        checks.mkdir()
        (checks / "word.lua").write_text(CHECK)
        words = [*TWISTD, "helen", "--state", str(self.state), "--listen", "127.0.0.1:0", "--web", "off"]
        log = open(folder / "log", "wb")  # noqa: SIM115
        with log:
            self.process = subprocess.Popen([*words, "--checks", str(checks)], stdout=log, stderr=log)
        until = time.monotonic() + 60
        while not (self.state / "run.json").exists():
            if time.monotonic() > until or self.process.poll() is not None:
                raise SystemExit((folder / "log").read_text())
            time.sleep(0.05)
        host, _, port = json.loads((self.state / "run.json").read_text())["agents"].rpartition(":")
        self.address = (host, int(port))
        self.client = Client(self.state)

    def rss(self) -> float:
        """MiB of memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / MEBIBYTE

    def identity(self, name: str) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        csr = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
        body = {"name": name, "csr": csr.public_bytes(Encoding.PEM).decode()}
        issued = self.client.post("/api/v1/certificates", body)
        path = self.folder / f"{name}.pem"
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        path.write_text(private + issued["certificate"])
        context = ssl.create_default_context(cadata=issued["ca"])
        context.check_hostname = False
        context.load_cert_chain(path)
        return context


class Agent:
    """A connection that has said hello and heard Helen's first word."""

    def __init__(self, helen: Helen, context: ssl.SSLContext) -> None:
        raw = socket.create_connection(helen.address)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        self.socket = context.wrap_socket(raw)
        self.conversation = Conversation(Role.EQUUS)
        self.say(m.Hello(2, "bench"))
        self.hear(m.Schedule)

    def say(self, message: m.Message) -> None:
        self.socket.sendall(self.conversation.send(message))

    def hear(self, kind: type) -> m.Message:
        while True:
            while (message := self.conversation.next_message()) is not None:
                if isinstance(message, kind):
                    return message
            data = self.socket.recv(262_144)
            if not data:
                raise EOFError
            self.conversation.feed(data)

    def pings(self, seconds: float) -> list[float]:
        """Milliseconds from ping to pong, one after the other."""
        took, until = [], time.monotonic() + seconds
        while time.monotonic() < until:
            began = time.monotonic()
            self.say(m.Ping(1))
            self.hear(m.Pong)
            took.append((time.monotonic() - began) * 1_000)
            time.sleep(0.02)
        return took


def shown(took: list[float]) -> str:
    return f"p50 {statistics.median(took):.1f} ms, p99 {sorted(took)[int(len(took) * 0.99)]:.1f} ms ({len(took)} pings)"


def silent(helen: Helen, honest: Agent, count: int) -> bool:
    """Open them all, and wait until Helen has closed them all."""
    before, calm = helen.rss(), honest.pings(3.0)
    selector, opened = selectors.DefaultSelector(), {}
    for number in range(count):
        one = socket.socket()
        one.bind((f"127.0.{number % NETWORKS + 1}.1", 0))
        one.connect(helen.address)
        one.setblocking(False)
        opened[one] = time.monotonic()
        selector.register(one, selectors.EVENT_READ)
    under: list[float] = []
    pinging = threading.Thread(target=lambda: under.extend(honest.pings(8.0)))
    pinging.start()
    lasted, most, until = [], helen.rss(), time.monotonic() + 30
    while opened and time.monotonic() < until:
        most = max(most, helen.rss())
        for key, _ in selector.select(0.1):
            selector.unregister(key.fileobj)
            lasted.append(time.monotonic() - opened.pop(key.fileobj))  # type: ignore[call-overload]
            key.fileobj.close()  # type: ignore[union-attr]
    pinging.join()
    span = f"{min(lasted):.1f} to {max(lasted):.1f} s"
    print(f"{count} silent sockets: {len(lasted)} closed after {span}; Helen +{most - before:.0f} MiB")
    print(f"  an honest agent before:    {shown(calm)}\n  an honest agent meanwhile: {shown(under)}")
    return not opened and min(lasted) >= 8.0 and max(lasted) <= 12.0 and most - before <= 100


def ask(helen: Helen) -> bool:
    """One question of a mebibyte to the agent `reader`; whether it was there to be asked."""
    try:
        body = {"check": "word", "on": "reader", "args": {"word": "x" * QUESTION}, "timeout": 0.05}
        list(helen.client.post("/api/v1/runs", body))
    except (Failed, OSError, ValueError, TypeError):
        return False
    return True


def deaf(helen: Helen, mebibytes: int) -> bool:
    """Push at one that reads, then at one that does not."""
    context = helen.identity("reader")
    reader = Agent(helen, context)

    def read() -> None:
        try:
            while reader.socket.recv(MEBIBYTE):
                pass
        except OSError:
            pass

    threading.Thread(target=read, daemon=True).start()
    for _ in range(30):
        ask(helen)
    reader.socket.close()
    time.sleep(1.0)
    before, most, cut = helen.rss(), 0.0, 0
    held = Agent(helen, context)
    for _ in range(mebibytes):
        ask(helen)
        most = max(most, helen.rss())
        if "dropped: it doesn't read" in (helen.folder / "log").read_text()[-4_000:] and gone(held):
            cut += 1
            held = Agent(helen, context)
    print(f"{mebibytes} MiB at an agent that doesn't read: cut {cut} times; Helen +{most - before:.1f} MiB at most")
    return cut > 0 and most - before <= 8.0


def gone(agent: Agent) -> bool:
    """Whether Helen has hung up: without reading what lies there, only the kernel's own word tells."""
    state = agent.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    return state != 1  # TCP_ESTABLISHED


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sockets", type=int, default=2_000)
    parser.add_argument("--mebibytes", type=int, default=200)
    options = parser.parse_args()
    print(f"load average {' '.join(f'{load:.1f}' for load in os.getloadavg())}, {os.cpu_count()} CPUs")
    with tempfile.TemporaryDirectory() as folder:
        helen = Helen(Path(folder))
        try:
            honest = Agent(helen, helen.identity("honest"))
            good = [silent(helen, honest, options.sockets), deaf(helen, options.mebibytes)]
        finally:
            helen.process.terminate()
            helen.process.wait(10)
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
