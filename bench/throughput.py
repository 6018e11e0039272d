"""Results per second through Helen to durable, and what an idle agent costs her; beside a bare TLS line echo.

    python bench/throughput.py --agents 50 --reports 40000 --idle 200

A real Helen (twistd) with everything on: client certificates, journal with fdatasync, dedupe, live state, segments. The
load is asyncio over the stdlib's ssl in this process: each connection keeps `--window` reports unacknowledged. The echo
(bench/echo.py) gets the same lines from the same load. CPU is that of the server's process, threads included, from
/proc; the ratio of the two within one run is the figure to compare. The machine's wall rates mean little.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from helen.cli.local import Local

HERE = Path(__file__).resolve().parent
TICK = os.sysconf("SC_CLK_TCK")
IDLE_SECONDS = 25.0  # longer than the 20 s after which a silent agent is pinged
BLOB = json.dumps(
    {
        "status": "ok",
        "summary": "/ used 40.2 %, 61.3 GiB free",
        "metrics": [
            {"name": "used", "value": 40.2, "unit": "%", "labels": {"path": "/"}, "warn": "80", "crit": "90"},
            {"name": "free", "value": 65820082176, "unit": "B", "kind": "gauge", "labels": {"path": "/"}},
        ],
        "started": 1764284400.123,
        "took_ms": 3.2,
        "cpu_ms": 2.1,
        "peak_kib": 812,
        "check": "disk",
        "code": "5a965600b0cc" + "0" * 52,
    }
).encode()  # fmt: skip


def cpu_of(pid: int) -> float:
    """Seconds that a process has used, its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def rss_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Identities:
    """Contexts with a client certificate each."""

    def __init__(self, local: Local, folder: Path) -> None:
        self._local, self._folder = local, folder

    def context(self, name: str) -> ssl.SSLContext:
        certificate, key, ca = (self._folder / f"{name}.{end}" for end in ("pem", "key", "ca"))
        if not key.exists():
            secret = ec.generate_private_key(ec.SECP256R1())
            csr = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(secret, hashes.SHA256())
            body = {"name": name, "csr": csr.public_bytes(Encoding.PEM).decode()}
            issued = self._local.client.post("/api/v1/certificates", body)
            key.write_bytes(secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
            certificate.write_text(issued["certificate"])
            ca.write_text(issued["ca"])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(ca)
        context.load_cert_chain(certificate, key)
        return context


class Sender:
    """One agent of version 2: it reports as fast as acks come back."""

    def __init__(self, name: str, window: int) -> None:
        self.name, self.window = name, window
        self.acked = 0

    async def connect(self, port: int, context: ssl.SSLContext, hello: bool) -> None:
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname="localhost" if hello else None
        )
        self._sequences = itertools.count(1)
        if hello:
            self.writer.write(b"hello 2 bench\n")
            await self.read_message()

    async def read_message(self) -> list[bytes]:
        words = (await self.reader.readline()).split()
        if words and words[0] in (b"schedule", b"manifest", b"file"):
            await self.reader.readexactly(int(words[-1]) + 1)
        if words and words[0] == b"ping":
            self.writer.write(b"pong " + words[1] + b"\n")
        return words

    def say(self, count: int) -> None:
        """One write, as an agent joins what is ready in a turn."""
        frames = [b"report s %d disk %d\n%b\n" % (next(self._sequences), len(BLOB), BLOB) for _ in range(count)]
        self.writer.write(b"".join(frames))

    async def report(self, count: int) -> None:
        sent = 0
        while self.acked < count:
            more = min(self.window - (sent - self.acked), count - sent)
            if more > 0:
                self.say(more)
                sent += more
                await self.writer.drain()
            words = await self.read_message()
            if not words:
                raise SystemExit(f"{self.name}: Helen hung up")
            if words[0] == b"ack":
                self.acked = int(words[2])

    async def echo(self, count: int) -> None:
        sent = back = 0
        while back < count:
            more = min(self.window - (sent - back), count - sent)
            if more > 0:
                self.say(more)
                sent += more
                await self.writer.drain()
            line = await self.reader.readline()
            await self.reader.readexactly(int(line.rsplit(b" ", 1)[1]) + 1)
            back += 1


async def measure(pid: int, senders: list[Sender], work: Any, count: int) -> dict[str, float]:
    before, began = cpu_of(pid), time.monotonic()
    await asyncio.gather(*(work(sender)(count // len(senders)) for sender in senders))
    took = time.monotonic() - began
    total = count // len(senders) * len(senders)
    return {"us": (cpu_of(pid) - before) * 1e6 / total, "per_s": total / took}


async def idle(pid: int, port: int, identities: Identities, count: int) -> dict[str, float]:
    """Connect so many agents that say nothing but pong; what they hold, and what they cost in a second."""
    agents = [Sender(f"idle-{number}", 1) for number in range(count)]
    contexts = [identities.context(agent.name) for agent in agents]
    before = rss_of(pid)
    for agent, context in zip(agents, contexts, strict=True):
        await agent.connect(port, context, True)
    held = rss_of(pid)
    listening = [asyncio.ensure_future(listen(agent)) for agent in agents]
    cpu, began = cpu_of(pid), time.monotonic()
    await asyncio.sleep(IDLE_SECONDS)
    spent = (cpu_of(pid) - cpu) / (time.monotonic() - began)
    for task in listening:
        task.cancel()
    for agent in agents:
        agent.writer.close()
    return {"kib": (held - before) / 1024 / count, "us_per_s": spent * 1e6 / count}


async def listen(agent: Sender) -> None:
    while await agent.read_message():
        pass


async def run(options: argparse.Namespace, folder: Path) -> None:
    local = Local(folder)
    (local.state / "checks").mkdir(parents=True)
    local.start_helen("127.0.0.1:0", "off")
    local.wait_for_helen()
    identities = Identities(local, folder)
    helen, port = local.run["pid"], int(local.run["agents"].rpartition(":")[2])
    server = str(local.state / "ca" / "server.pem")  # certificate and key, the very ones that Helen shows
    words = [sys.executable, str(HERE / "echo.py"), "--certificate", server, "--key", server]
    echo = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert echo.stdout is not None
        echo_port = int(echo.stdout.readline())
        plain = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        plain.check_hostname, plain.verify_mode = False, ssl.CERT_NONE
        runs: dict[str, list[dict[str, float]]] = {"helen": [], "echo": []}
        for repetition in range(options.reps):
            names = [f"sender-{repetition}-{number}" for number in range(options.agents)]
            senders = [Sender(name, options.window) for name in names]
            for sender in senders:
                await sender.connect(port, identities.context(sender.name), True)
            runs["helen"].append(await measure(helen, senders, lambda s: s.report, options.reports))
            echoes = [Sender(name, options.window) for name in names]
            for sender in echoes:
                await sender.connect(echo_port, plain, False)
            runs["echo"].append(await measure(echo.pid, echoes, lambda s: s.echo, options.reports))
            for sender in (*senders, *echoes):
                sender.writer.close()
        cost = await idle(helen, port, identities, options.idle)
    finally:
        echo.terminate()
        echo.wait()
        local.stop()
    show(options, runs, cost)


def show(options: argparse.Namespace, runs: dict[str, list[dict[str, float]]], cost: dict[str, float]) -> None:
    middle = {name: {key: statistics.median(r[key] for r in got) for key in got[0]} for name, got in runs.items()}
    print(
        f"{options.agents} agents, {options.window} unacknowledged each, {len(BLOB)} B results, {options.reps} runs\n"
    )
    print(f"{'':<28}{'CPU us/result':>14}{'results/s (wall)':>18}{'per CPU-second':>16}")
    for name, text in (("helen", "Helen, to durable"), ("echo", "asyncio TLS line echo")):
        us, rate = middle[name]["us"], middle[name]["per_s"]
        print(f"{text:<28}{us:>14.1f}{rate:>18,.0f}{1e6 / us:>16,.0f}")
    print(f"\nHelen / echo: {middle['helen']['us'] / middle['echo']['us']:.2f} x CPU")
    print(f"an idle agent: {cost['kib']:.0f} KiB, {cost['us_per_s']:.0f} us of CPU a second ({options.idle} connected)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=50)
    parser.add_argument("--window", type=int, default=8)
    parser.add_argument("--reports", type=int, default=40_000)
    parser.add_argument("--idle", type=int, default=200)
    parser.add_argument("--reps", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="throughput-") as folder:
        asyncio.run(run(options, Path(folder)))


if __name__ == "__main__":
    main()
