#!/usr/bin/env python3
"""Measures what people who mean harm cost Helen: silent sockets, an agent that doesn't read, and floods of hostile
agents.

    bench/abuse.py [--sockets 2000] [--mebibytes 200] [--hostile 1,10,100] [--floods pings,results] [--nice | --busy]

A Helen of its own on loopback. Silent sockets come from 200 addresses of twenty networks, or the older ones would go
for the newer; an honest agent's `ping` is timed before and while they are there. The deaf agent is sent questions of a
mebibyte until it is cut, and comes back, until so many mebibytes were meant for it; before that the same goes to one
that reads, so that what Helen takes for the questions themselves is not counted.

A flood (bench/abuse_flood.py) comes from a process of its own: so many agents with certificates send as fast as Helen
reads, and come back at once when they are sent away; they honour no `retry-after`. The process has the scheduling class
`idle`, or with `--nice` the nice value 19: a hostile agent takes no processor of Helen's machine. `--busy` is for a
machine that others use: Helen and the honest agent have real-time priority then, and the flood nice -8 (root only).
Beside it an honest agent sends a ping and a report every 20 ms. Its times under the flood are compared with those of
the same seconds before it, in one run; beside them stand the growth of Helen's memory and disk. A ping is shown by the
clock, and less the time in which the honest agent or Helen's reactor could have run and had no processor
(bench/processor_waits.py).
`of` says how many agents have got through to send. `--sockets 0` and `--mebibytes 0` leave those parts out.
Exit status 1 if a promise of docs/security.rst is broken by silent sockets or a deaf agent, or if Helen is not ready
after a flood.
"""

from __future__ import annotations

import argparse
import itertools
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
from collections.abc import Iterator
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from processor_waits import ProcessorWaits

from equus_protocol import messages as m
from equus_protocol.conversation import Conversation, Role
from helen.cli.base.client import Client, Failed

TWISTD = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "-n", "--pidfile="]
CHECK = 'return { summary = "Says a word", args = { word = { type = "string" } }, run = function() return "ok" end }\n'
MEBIBYTE = 1_048_576
QUESTION = 1_000_000  # bytes of args: as long as a blob may be, nearly
NETWORKS, ADDRESSES = 20, 10  # that silent sockets come from: each address may have 20 of them
FLOODS = ("pings", "results", "ids", "blobs", "half-open")


class Helen:
    """Starts a Helen of our own, and makes identities for it."""

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


class Times:
    """Milliseconds of pings, of pings without waits for a processor, and from report to ack."""

    def __init__(self) -> None:
        self.pings, self.own, self.acks = list[float](), list[float](), list[float]()

    def against(self, calm: Times) -> str:
        """The 99th percentiles of calm times and these, with their ratios."""
        pairs = ((calm.pings, self.pings), (calm.own, self.own), (calm.acks, self.acks))
        return "".join(f"{p99(a):>9.1f}{p99(b):>7.1f}{p99(b) / p99(a):>6.1f}" for a, b in pairs)


class Agent:
    """Open a connection that has said hello and heard Helen's first word."""

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

    def acks(self, sequences: Iterator[int], seconds: float, waits: ProcessorWaits) -> Times:
        """Milliseconds from ping to pong, and from report to ack, one after the other."""
        times, until = Times(), time.monotonic() + seconds
        while time.monotonic() < until:
            waited, began = waits.seconds(), time.monotonic()
            self.say(m.Ping(1))
            self.hear(m.Pong)
            took = time.monotonic() - began
            times.pings.append(took * 1_000)
            times.own.append(max(0.0, took - (waits.seconds() - waited)) * 1_000)
            began = time.monotonic()
            self.say(m.Report("s", next(sequences), "word", b'{"status": "ok"}'))
            self.hear(m.Ack)
            times.acks.append((time.monotonic() - began) * 1_000)
            time.sleep(0.02)
        return times

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
        one.bind((f"127.0.{number % NETWORKS + 1}.{number // NETWORKS % ADDRESSES + 1}", 0))
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
    """Ask the agent `reader` a question of a mebibyte; return whether it was there to be asked."""
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


def p99(took: list[float]) -> float:
    return sorted(took)[int(len(took) * 0.99)]


def disk_of(folder: Path) -> float:
    """MiB of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / MEBIBYTE


def is_ready(helen: Helen) -> bool:
    """Return True if Helen's own probe says that it is ready, with a warning or without."""
    try:
        return helen.client.get("/readyz")["status"] in ("pass", "warn")
    except Failed:
        return False


def flood(helen: Helen, kind: str, names: list[str], seconds: float, priority: list[str]) -> bool:
    """Time an honest agent before and under one flood, and print a row; True if Helen is well after it."""
    honest, sequences = Agent(helen, helen.identity(f"honest-{kind}-{len(names)}")), itertools.count(1)
    waits = ProcessorWaits(helen.process.pid)
    honest.acks(sequences, 1.0, waits)  # the first ones make what is made once
    calm = honest.acks(sequences, seconds, waits)
    memory, disk = helen.rss(), disk_of(helen.state)
    host, port = helen.address
    program = str(Path(__file__).with_name("abuse_flood.py"))
    words = [sys.executable, program, *priority, kind, f"{host}:{port}", str(seconds + 2)]
    hostile = subprocess.Popen([*words, *(str(helen.folder / f"{name}.pem") for name in names)], stdout=subprocess.PIPE)
    assert hostile.stdout is not None
    hostile.stdout.readline()  # it has begun
    under = honest.acks(sequences, seconds, waits)
    told = json.loads(hostile.communicate(timeout=60)[0])
    honest.socket.close()
    ready = is_ready(helen)
    grown = f"{helen.rss() - memory:>+9.0f}{disk_of(helen.state) - disk:>+6.0f}"
    print(
        f"{kind:<10}{len(names):>4}{under.against(calm)}{grown}"
        f"{told['sent']:>11,}{told['connections']:>9,}{told['senders']:>5}  {'' if ready else 'NOT READY'}",
        flush=True,
    )
    return ready


def floods(helen: Helen, kinds: list[str], counts: list[int], seconds: float, priority: list[str]) -> bool:
    """Run each flood by so many agents; each run has agents of its own, so that none begins with spent quotas."""
    above = f"{'ping':>22}{'without waits':>22}{'report to ack':>22}{'Helen, MiB':>15}{'hostile':>25}"
    print(f"{'p99, ms':<14}{above}")
    print(f"{'flood':<10}{'by':>4}" + f"{'calm':>9}{'flood':>7}{'ratio':>6}" * 3
          + f"{'memory':>9}{'disk':>6}{'messages':>11}{'sessions':>9}{'of':>5}")  # fmt: skip
    good = True
    for kind in kinds:
        for count in counts:
            names = [f"evil-{kind}-{count}-{number}" for number in range(count)]
            for name in names:
                helen.identity(name)
            good &= flood(helen, kind, names, seconds, priority)
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sockets", type=int, default=2_000)
    parser.add_argument("--mebibytes", type=int, default=200)
    parser.add_argument("--hostile", default="1,10,100", help="how many agents are in a flood; empty for none")
    parser.add_argument("--floods", default=",".join(FLOODS), help="kinds of floods")
    priorities = parser.add_mutually_exclusive_group()  # the flood takes one
    priorities.add_argument(
        "--nice", action="store_true", help="floods at nice 19 instead of the scheduling class idle"
    )
    priorities.add_argument("--busy", action="store_true", help="real-time priority for Helen: others use this machine")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each flood, and before it")
    options = parser.parse_args()
    if options.busy:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))  # before Helen begins: it has it from here
    print(f"load average {' '.join(f'{load:.1f}' for load in os.getloadavg())}, {os.cpu_count()} CPUs")
    with tempfile.TemporaryDirectory() as folder:
        helen = Helen(Path(folder))
        try:
            honest = Agent(helen, helen.identity("honest"))
            good = [silent(helen, honest, options.sockets)] if options.sockets else []
            good += [deaf(helen, options.mebibytes)] if options.mebibytes else []
            honest.socket.close()
            counts = [int(count) for count in options.hostile.split(",") if count]
            kinds, priority = options.floods.split(","), ["--nice"] if options.nice else []
            priority += ["--busy"] if options.busy else []
            good += [floods(helen, kinds, counts, options.seconds, priority)] if counts else []
        finally:
            helen.process.terminate()
            helen.process.wait(10)
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
