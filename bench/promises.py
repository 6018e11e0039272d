#!/usr/bin/env python3
"""Figures that docs/security.rst promises: connections held and cut, steady load, revocation, a full disk, memory.

    bench/promises.py connections [--agents 10000]      memory of each; RST to all; how long until all are back
    bench/promises.py steady [--rate 1000] [--seconds 600]      p50 and p99 from a report to its ack
    bench/promises.py revocation [--agents 1000]        from the request to the end of the agent's connection
    bench/promises.py disk [--rounds 10]                from space to the first ack after a full disk
    bench/promises.py memory [--rate 500] [--seconds 3600]      slope of memory after a warm-up; descriptors

A Helen of its own with TLS and client certificates; agents are asyncio over the stdlib's ssl in this process, which
computes on the same cores. `connections` compares with bare TLS accepts (bench/echo.py), `steady` and `disk` with an
fdatasync of 4 KiB on the same disk, in the same run: on a busy machine the ratio says more than the time. Kills have
commands of their own, since tests judge them: docs/security.rst, "What it costs".
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from meter import DOCUMENT as BLOB
from meter import cpu_of, rss_of
from senders import Identities, Sender, listen

from helen.cli.local.processes import Local

HERE = Path(__file__).resolve().parent
RST = struct.pack("ii", 1, 0)
MEBIBYTE = 1_048_576
LARGE = b"x" * 1_000_000  # a result that no longer fits
WARM = 0.2  # share of a run of `memory` that isn't counted
TOGETHER = 15  # handshakes under way: one address may have 20 strangers
KNOWN = 500  # the same, once agents have come from there before


def percentile(values: Iterable[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


class Bench:
    """Holds a Helen, identities, and the floor of its disk; `flags` are of `twistd helen`."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.folder, self.local = folder, Local(folder)
        (self.local.state / "checks").mkdir(parents=True, exist_ok=True)
        self.local.start_helen("127.0.0.1:0", "off", *flags)
        self.local.wait_for_helen()
        self.identities = Identities(self.local, folder)
        self.pid, self.port = self.local.run["pid"], int(self.local.run["agents"].rpartition(":")[2])

    def contexts(self, count: int) -> list[ssl.SSLContext]:
        return [self.identities.context(f"agent-{number}") for number in range(count)]

    def connected(self) -> int:
        return int(self.local.client.get("/api/v1/status")["agents"]["connected"])

    async def until(self, count: int) -> None:
        while await asyncio.to_thread(self.connected) != count:
            await asyncio.sleep(0.1)

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def sync(self) -> float:
        """Return the milliseconds of one fdatasync of 4 KiB beside Helen's journal."""
        with open(self.folder / "floor", "ab") as file:
            file.write(bytes(4_096))
            file.flush()
            began = time.monotonic()
            os.fdatasync(file.fileno())
        return (time.monotonic() - began) * 1_000


async def connect(
    senders: list[Sender], contexts: list[ssl.SSLContext], port: int, hello: bool = True, is_idle: bool = True,
    together: int = TOGETHER,
) -> float:  # fmt: skip
    """Connect all, so many at a time; return the seconds that it took."""
    places, began = asyncio.Semaphore(together), time.monotonic()

    async def one(sender: Sender, context: ssl.SSLContext) -> None:
        async with places:
            await sender.connect(port, context, hello)
            if is_idle:
                sender.listening = asyncio.ensure_future(listen(sender))  # else it is cut for its silence

    await asyncio.gather(*(one(*pair) for pair in zip(senders, contexts, strict=True)))
    return time.monotonic() - began


def cut(senders: list[Sender]) -> None:
    for sender in senders:
        sender.listening.cancel()
        raw: socket.socket = sender.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST)
        sender.writer.transport.abort()


async def connections(bench: Bench, options: argparse.Namespace) -> None:
    contexts = bench.contexts(options.agents)
    before = rss_of(bench.pid)
    senders = [Sender(f"agent-{number}", 1) for number in range(options.agents)]
    first = await connect(senders, contexts, bench.port)
    held = rss_of(bench.pid)
    cut(senders)
    await bench.until(0)
    gone = rss_of(bench.pid)
    back = await connect(senders, contexts, bench.port, together=KNOWN)
    await bench.until(options.agents)
    again = rss_of(bench.pid)
    floor = await accepts(bench, senders)
    each = (held - before) / 1_024 / options.agents
    print(
        f"{options.agents} agents: {held / MEBIBYTE:.0f} MiB in all, {each:.0f} KiB each; all there after {first:.1f} s"
    )
    print(
        f"all cut by RST: {gone / MEBIBYTE:.0f} MiB; all back: {again / MEBIBYTE:.0f} MiB, {again / held:.2f} of before"
    )
    print(f"back after {back:.1f} s; bare TLS accepts took {floor:.1f} s, ratio {back / floor:.2f}")


async def accepts(bench: Bench, senders: list[Sender]) -> float:
    """Return the seconds in which a server that does nothing else has as many TLS connections."""
    server = str(bench.local.state / "ca" / "server.pem")
    words = [sys.executable, str(HERE / "echo.py"), "--certificate", server, "--key", server]
    plain = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    plain.check_hostname, plain.verify_mode = False, ssl.CERT_NONE
    cut(senders)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as echo:
        assert echo.stdout is not None
        took = await connect(senders, [plain] * len(senders), int(echo.stdout.readline()), False, False)
        echo.terminate()
    return took


class Paced(Sender):
    """Reports at a rate, whatever comes back; `waits` are milliseconds from each report to its ack."""

    def __init__(self, name: str) -> None:
        super().__init__(name, 1)
        self.waits: list[float] = []
        self._said: dict[int, float] = {}
        self._sent, self._is_over = 0, False

    async def pace(self, rate: float, seconds: float) -> None:
        listening = asyncio.ensure_future(self._listen())
        began = time.monotonic()
        while (now := time.monotonic()) < began + seconds:
            while self._sent < (now - began) * rate:
                self._sent += 1
                self._said[self._sent] = time.monotonic()
                self.say(1)
            await asyncio.sleep(0.5 / rate)
        self._is_over = True
        self.say(1)  # its ack is the last
        await asyncio.wait_for(listening, 60)

    async def _listen(self) -> None:
        while self._said or not self._is_over:
            words = await self.read_message()
            if words[0] == b"error":
                raise SystemExit(f"{self.name}: {b' '.join(words).decode()}")
            if words[0] == b"ack":
                for sequence in [said for said in self._said if said <= int(words[2])]:
                    self.waits.append((time.monotonic() - self._said.pop(sequence)) * 1_000)


async def load(bench: Bench, rate: float, seconds: float) -> list[Paced]:
    """Have 20 agents report so many results a second, together."""
    senders = [Paced(f"agent-{number}") for number in range(20)]
    await connect(list(senders), bench.contexts(20), bench.port, is_idle=False)
    await asyncio.gather(*(sender.pace(rate / 20, seconds) for sender in senders))
    return senders


async def steady(bench: Bench, options: argparse.Namespace) -> None:
    floors: list[float] = []

    async def floor() -> None:
        while True:
            floors.append(await asyncio.to_thread(bench.sync))
            await asyncio.sleep(0.1)

    beside = asyncio.ensure_future(floor())
    before = cpu_of(bench.pid)
    senders = await load(bench, options.rate, options.seconds)
    spent = (cpu_of(bench.pid) - before) / options.seconds
    beside.cancel()
    waits = [wait for sender in senders for wait in sender.waits]
    high, least = percentile(waits, 0.99), percentile(floors, 0.99)
    print(f"{len(waits)} results of {len(BLOB)} B, {len(waits) / options.seconds:.0f} a second, {spent:.2f} of a core")
    print(f"report to ack: p50 {percentile(waits, 0.5):.0f} ms, p99 {high:.0f} ms")
    print(f"fdatasync beside it: p99 {least:.0f} ms, ratio {high / least:.2f}")


async def revocation(bench: Bench, options: argparse.Namespace) -> None:
    contexts = bench.contexts(options.agents)
    senders = [Sender(f"agent-{number}", 1) for number in range(options.agents)]
    await connect(senders, contexts, bench.port)
    took = []
    for sender in senders[:20]:
        began = time.monotonic()
        asked = asyncio.to_thread(bench.local.client.post, f"/api/v1/agents/{sender.name}/revoke", {})
        request = asyncio.ensure_future(asked)
        with contextlib.suppress(ConnectionError):
            await sender.listening
        took.append((time.monotonic() - began) * 1_000)
        await request
    await bench.until(options.agents - 20)
    print(f"20 of {options.agents} revoked: p50 {statistics.median(took):.0f} ms, most {max(took):.0f} ms")


async def disk(bench: Bench, options: argparse.Namespace) -> None:
    """Try a full disk, for which the limit on the size of files stands: a write ends in the middle of a record, and
    fails.
    """
    sender, took = Sender("agent-0", 1), []
    await connect([sender], bench.contexts(1), bench.port, is_idle=False)
    for number in range(1, options.rounds + 1):
        resource.prlimit(bench.pid, resource.RLIMIT_FSIZE, (65_536, resource.RLIM_INFINITY))
        sender.writer.write(b"report s %d disk %d\n%b\n" % (number, len(LARGE), LARGE))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(ack := asyncio.ensure_future(acked(sender, number))), 1.5)
            raise SystemExit("a full disk acknowledged")
        resource.prlimit(bench.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        began = time.monotonic()
        await ack
        took.append(time.monotonic() - began)
    print(f"{options.rounds} times full: acks again after p50 {statistics.median(took):.2f} s, most {max(took):.2f} s")


async def acked(sender: Sender, sequence: int) -> None:
    while (words := await sender.read_message()) and (words[0] != b"ack" or int(words[2]) < sequence):
        pass


async def memory(bench: Bench, options: argparse.Namespace) -> None:
    points: list[tuple[float, float, int]] = []

    async def look() -> None:
        while True:
            points.append((time.monotonic(), rss_of(bench.pid) / MEBIBYTE, bench.descriptors()))
            await asyncio.sleep(1.0)

    beside = asyncio.ensure_future(look())
    await load(bench, options.rate, options.seconds)
    beside.cancel()
    warm = points[int(len(points) * WARM) :]
    slope = statistics.linear_regression([at / 3_600 for at, _, _ in warm], [held for _, held, _ in warm]).slope
    files = [count for _, _, count in warm]
    print(f"{options.rate:g} results/s for {options.seconds:g} s: {warm[0][1]:.1f} to {warm[-1][1]:.1f} MiB, "
          f"slope {slope:.1f} MiB/h; descriptors {min(files)} to {max(files)}")  # fmt: skip


FIGURES = {"connections": connections, "steady": steady, "revocation": revocation, "disk": disk, "memory": memory}
DEFAULTS = {"connections": 10_000, "revocation": 1_000}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", choices=FIGURES)
    parser.add_argument("--agents", type=int)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    options.agents = options.agents or DEFAULTS.get(options.figure, 20)
    options.rate = options.rate or (500.0 if options.figure == "memory" else 1_000.0)
    options.seconds = options.seconds or (3_600.0 if options.figure == "memory" else 600.0)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory(prefix="promises-") as folder:
        bench = Bench(Path(folder))
        try:
            asyncio.run(FIGURES[options.figure](bench, options))
        finally:
            bench.local.stop()
    print(json.dumps({"load": os.getloadavg()}))


if __name__ == "__main__":
    main()
