"""Measures the board with many checks: how long the API takes for it, and an event from the agent's report to a stream.

    python bench/board.py --checks 10000

A real Helen (twistd, plaintext, HTTP over TCP) with that many checks on 100 agents, one in twenty of them broken. While
they are asked for, each second a hundredth of them reports again. `api` is from the request to the last byte, read by
this process, and `cpu` what one answer costs Helen's; `event` is from the write of a report that changes a state to its
frame on a stream. `lag` is what Helen's own /metrics say of its reactor in that time. On a busy machine only `cpu` is a
figure: times are what its other programs leave over.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

AGENTS = 100
BROKEN = 20  # one in so many
READ = 262_144


def blob(status: str) -> bytes:
    return json.dumps({"status": status, "summary": "/ used 40.2 %, 61.3 GiB free", "took_ms": 3.2}).encode()


class Agent:
    """Speaks as an agent of version 2 that reports what it is told to."""

    def __init__(self, number: int) -> None:
        self.name = f"web-{number:03}"
        self._sequences = itertools.count(1)
        self.acked, self._wanted = 0, asyncio.Event()

    async def connect(self, port: int) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port)
        self._writer.write(b"hello 2 bench;name=%b\n" % self.name.encode())
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while words := (await self._reader.readline()).split():
            if words[0] in (b"schedule", b"manifest", b"file", b"servers"):
                await self._reader.readexactly(int(words[-1]) + 1)
            elif words[0] == b"ping":
                self._writer.write(b"pong " + words[1] + b"\n")
            elif words[0] == b"ack":
                self.acked = int(words[2])
                self._wanted.set()

    def report(self, checks: Iterable[tuple[str, str]]) -> int:
        """Report a status for each check; return the last sequence."""
        last, frames = 0, []
        for check, status in checks:
            last, said = next(self._sequences), blob(status)
            frames.append(b"report s %d %b %d\n%b\n" % (last, check.encode(), len(said), said))
        self._writer.write(b"".join(frames))
        return last

    async def until(self, sequence: int) -> None:
        while self.acked < sequence:
            self._wanted.clear()
            await self._wanted.wait()

    def close(self) -> None:
        self._reading.cancel()
        self._writer.close()


class Api:
    """HTTP over TCP, one connection, as a page has it."""

    def __init__(self, web: str, token: str) -> None:
        self._host, port = web.split(":")
        self._port, self._token = int(port), token

    async def open(self) -> None:
        self.reader, self._writer = await asyncio.open_connection(self._host, self._port, limit=2**24)

    async def ask(self, path: str) -> bytes:
        """Read the body; it is chunked, as Twisted sends it."""
        await self.begin(path)
        parts = []
        while size := int(await self.reader.readline(), 16):
            parts.append(await self.reader.readexactly(size))
            await self.reader.readexactly(2)
        await self.reader.readexactly(2)
        return b"".join(parts)

    async def begin(self, path: str, more: str = "") -> None:
        """Ask; `more` are further lines of the head."""
        head = f"GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {self._token}\r\n{more}\r\n"
        self._writer.write(head.encode())
        status = await self.reader.readline()
        if b" 200 " not in status:
            raise SystemExit(f"{path}: {status.decode().strip()}")
        while (await self.reader.readline()).strip():
            pass

    def close(self) -> None:
        self._writer.close()


def status_of(number: int) -> str:
    return "critical" if number % BROKEN == 0 else "ok"


async def fill(agents: list[Agent], checks: int) -> None:
    each = checks // len(agents)
    for _ in range(3):  # attempts: what is broken is confirmed
        last = [
            agent.report((f"check-{n:03}", status_of(at * each + n)) for n in range(each))
            for at, agent in enumerate(agents)
        ]
        await asyncio.gather(*(agent.until(sequence) for agent, sequence in zip(agents, last, strict=True)))


async def keep_busy(agents: list[Agent], checks: int) -> None:
    each = checks // len(agents)
    for turn in itertools.count():
        for at, agent in enumerate(agents):
            agent.report([(f"check-{turn % each:03}", status_of(at * each + turn % each))])
        await asyncio.sleep(1.0)


def cpu_of(pid: int) -> float:
    """Milliseconds that a process has used, its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1_000 / os.sysconf("SC_CLK_TCK")


def cpu_of_reactor(pid: int) -> float:
    """Milliseconds that the main thread of a process has used: Helen's reactor, which makes rows."""
    fields = Path(f"/proc/{pid}/task/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1_000 / os.sysconf("SC_CLK_TCK")


async def measure(api: Api, path: str, times: int) -> tuple[list[float], int]:
    took, size = [], 0
    for _ in range(times):
        began = time.perf_counter()
        size = len(await api.ask(path))
        took.append((time.perf_counter() - began) * 1_000)
        await asyncio.sleep(0.02)
    return took, size


async def events(api: Api, agent: Agent, times: int) -> list[float]:
    """From a report that changes a state to its transition on a stream."""
    stream = Api(f"{api._host}:{api._port}", api._token)
    await stream.open()
    await stream.begin(f"/api/v1/events?kind=transition&on={agent.name}&check=flip")
    took = []
    for turn in range(times):
        await asyncio.sleep(0.05)
        began = time.perf_counter()
        agent.report([("flip", ("ok", "warning")[turn % 2])])
        while not (await stream.reader.readline()).startswith(b"data: "):
            pass
        took.append((time.perf_counter() - began) * 1_000)
    stream.close()
    return took


def told(what: str, took: list[float], more: str = "") -> None:
    ranked = sorted(took)
    p99 = ranked[min(len(ranked) - 1, int(len(ranked) * 0.99))]
    middle = statistics.median(ranked)
    figures = f"best {ranked[0]:6.1f}  p50 {middle:6.1f}  p99 {p99:6.1f} ms"
    print(f"{what:32} n {len(took):4}  {figures}  {more}", flush=True)


def lag_of(page: bytes, which: bytes = b"lag") -> dict[str, int]:
    """Looks of the reactor by their bound: `lag` is how late they were, `held` what of that Helen held it."""
    found = re.findall(rb'helen_event_loop_%b_seconds_bucket\{le="([^"]+)"\} (\d+)' % which, page)
    return {bound.decode(): int(count) for bound, count in found}


async def run(local: dict[str, str], pid: int, token: str, checks: int, times: int) -> None:
    agents = [Agent(number) for number in range(AGENTS)]
    port = int(local["agents"].rpartition(":")[2])
    await asyncio.gather(*(agent.connect(port) for agent in agents))
    await fill(agents, checks)
    api = Api(local["web"], token)
    await api.open()
    while len(json.loads(await api.ask("/api/v1/states?all=true"))["states"]) < checks:
        await asyncio.sleep(0.2)
    before = lag_of(await api.ask("/metrics?on=nobody"))
    busy = asyncio.create_task(keep_busy(agents, checks))
    await asyncio.sleep(12.0)  # what was reported so far becomes a segment
    began, cpu = time.perf_counter(), cpu_of(pid)
    await asyncio.sleep(5.0)
    idle = (cpu_of(pid) - cpu) / (time.perf_counter() - began)  # ms of a second, for the reports alone
    for path in ("/api/v1/states", "/api/v1/states?all=true", "/api/v1/states?all=true&limit=100"):
        began, cpu = time.perf_counter(), cpu_of(pid)
        took, size = await measure(api, path, times)
        spent = max(0.0, cpu_of(pid) - cpu - idle * (time.perf_counter() - began))
        told(f"api {path.removeprefix('/api/v1')}", took, f"cpu {spent / times:5.1f} ms  {size / 1_000:.0f} kB")
    told("event to stream", await events(api, agents[0], times))
    after = lag_of(await api.ask("/metrics?on=nobody"))
    late = {bound: after[bound] - before[bound] for bound in after}
    print(f"reactor lag: {late['+Inf'] - late['0.01']} of {late['+Inf']} looks later than 10 ms", flush=True)
    busy.cancel()
    api.close()
    for agent in agents:
        agent.close()


@contextlib.contextmanager
def a_helen(checks: int) -> Iterator[tuple[Path, dict[str, str], int, str]]:
    """Start a real Helen for so many checks; return its state directory, its run.json, its process, and the token of
    its API.
    """
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        (Path(folder) / "checks").mkdir()
        words = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "-n", "--pidfile=", "helen"]
        words += ["--state", str(state), "--listen", "127.0.0.1:0", "--web", "127.0.0.1:0", "--insecure-plaintext"]
        words += ["--checks", f"{folder}/checks", "--quota", "strangers=200"]  # all agents come from one address
        helen = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while not (state / "run.json").exists():
                if helen.poll() is not None:
                    raise SystemExit("Helen does not start")
                time.sleep(0.1)
            print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs, {checks} checks", flush=True)
            local = json.loads((state / "run.json").read_text())
            yield state, local, helen.pid, (state / "web.token").read_text().strip()
        finally:
            helen.terminate()
            helen.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checks", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=200)
    chosen = parser.parse_args()
    with a_helen(chosen.checks) as (_, local, pid, token), contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run(local, pid, token, chosen.checks, chosen.times))


if __name__ == "__main__":
    main()
