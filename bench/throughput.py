"""CPU of one report through Helen to durable, beside the C floor and an asyncio echo; and what an idle agent costs.

    python bench/throughput.py --agents 50 --window 8 --idle 200

A real Helen (twistd) with everything on: client certificates that are verified, journal with fdatasync, dedupe, live
state, segments. The load is the C fleet (bench/floor.c): each agent keeps `--window` reports unacknowledged, answers
pings while others connect, and stamps its documents with the time of now. The C floor and the echo (bench/echo.py) get
the same reports from the same fleet. Runs are interleaved; each begins to count once `--warm` reports are acknowledged,
so that the first segment is sealed.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import meter
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from exchange import free_port

from helen.cli.local.processes import Local

SEALED_SECONDS = 60.0  # that the first segment may take; it is due after 10 s
IDLE_SECONDS = 25.0  # longer than the 20 s after which a silent agent is pinged
FLOOR = "C floor"


def identify(local: Local, folder: Path, count: int) -> None:
    """Write N.pem and N.key for so many agents, and ca.pem."""
    for number in range(count):
        key = ec.generate_private_key(ec.SECP256R1())
        csr = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
        body = {"name": f"sender-{number}", "csr": csr.public_bytes(Encoding.PEM).decode()}
        issued = local.client.post("/api/v1/certificates", body)
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (folder / f"{number}.key").write_bytes(secret)
        (folder / f"{number}.pem").write_text(issued["certificate"])
        (folder / "ca.pem").write_text(issued["ca"])


class Bench:
    """Three servers that the same fleet reports to."""

    def __init__(self, local: Local, floor: Path, options: argparse.Namespace) -> None:
        self._floor, self._options, self._folder = floor, options, floor.parent
        self._server = str(local.state / "ca" / "server.pem")  # certificate and key, the very ones that Helen shows
        self._helen = int(local.run["pid"]), int(local.run["agents"].rpartition(":")[2])
        self._segments = local.state / "history" / "segments"
        self._runs = 0

    def fleet(self, port: int, count: int, window: int, *more: str) -> meter.Fleet:
        """Connect a fleet. Its spool has another name in each run: the same sequences would otherwise come again."""
        self._runs += 1
        words = ["-R", "-p", port, "-n", count, "-w", window, "-b", self._folder / "document.json", "-s", self._runs]
        seconds = ["-t", self._options.seconds]
        return meter.Fleet([str(self._floor), *map(str, words), *map(str, seconds), *more])

    def measure(self, pid: int, port: int, *more: str) -> dict[str, float]:
        fleet = self.fleet(port, self._options.agents, self._options.window, *more)
        try:
            return meter.measure(pid, fleet, self._options.warm, self._options.reports)
        finally:
            fleet.close()

    def helen(self) -> dict[str, float]:
        return self.measure(*self._helen, "-d", str(self._folder))

    def floor(self) -> dict[str, float]:
        with self._beside(FLOOR) as (pid, port):
            return self.measure(pid, port, "-d", str(self._folder))

    def echo(self) -> dict[str, float]:
        with self._beside("echo") as (pid, port):
            return self.measure(pid, port, "-E")

    @contextlib.contextmanager
    def _beside(self, name: str) -> Iterator[tuple[int, int]]:
        if name == FLOOR:
            port = free_port()
            words = [str(self._floor), "-L", "-R", "-p", str(port), "-n", str(self._options.agents), "-t", "600"]
            words += ["-b", str(self._folder / "document.json"), "-c", self._server, "-k", self._server]
            with meter.running([*words, "-d", str(self._folder)], port) as server:
                yield server.pid, port
            return
        words = [sys.executable, str(meter.HERE / "echo.py"), "--certificate", self._server, "--key", self._server]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as echo:
            assert echo.stdout is not None
            try:
                yield echo.pid, int(echo.stdout.readline())
            finally:
                echo.terminate()

    def idle(self, count: int) -> dict[str, float]:
        """Connect so many agents that say nothing but pong; what they hold, and what they cost in a second."""
        pid, port = self._helen
        until = time.monotonic() + SEALED_SECONDS
        while not any(self._segments.glob("*.parquet")) and time.monotonic() < until:
            time.sleep(0.1)  # the first segment loads Arrow, 55 MiB that are no agent's
        before = meter.rss_of(pid)
        fleet = self.fleet(port, count, 0, "-d", str(self._folder))
        try:
            held = meter.rss_of(pid)
            cpu, began = meter.cpu_of(pid), time.monotonic()
            time.sleep(IDLE_SECONDS)
            spent = (meter.cpu_of(pid) - cpu) / (time.monotonic() - began)
            live = fleet.live()
        finally:
            fleet.close()
        return {"kib": (held - before) / 1024 / count, "us_per_s": spent * 1e6 / count, "live": live}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=50)
    parser.add_argument("--window", type=int, default=8)
    parser.add_argument("--reports", type=int, default=40_000, help="reports that are measured")
    parser.add_argument("--warm", type=int, default=25_000, help="reports before measuring begins")
    parser.add_argument("--idle", type=int, default=0, help="idle agents that are measured first, in a fresh Helen")
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=400, help="after which a fleet gives up")
    parser.add_argument("--transport", choices=("hub", "stock"), default="hub")
    options = parser.parse_args()
    meter.allow_descriptors(4 * (options.agents + options.idle))
    with tempfile.TemporaryDirectory(prefix="throughput-") as name:
        folder = Path(name)
        floor = meter.build(folder)
        local = Local(folder)
        (local.state / "checks").mkdir(parents=True)
        local.start_helen("127.0.0.1:0", "off", "--transport", options.transport)
        runs: dict[str, list[dict[str, float]]] = {"Helen, to durable": [], FLOOR: [], "asyncio echo": []}
        try:
            local.wait_for_helen()
            identify(local, folder, max(options.agents, options.idle))
            bench = Bench(local, floor, options)
            cost = bench.idle(options.idle) if options.idle else None
            for _ in range(options.reps):
                for name, work in zip(runs, (bench.helen, bench.floor, bench.echo), strict=True):
                    runs[name].append(work())
        finally:
            local.stop()
    words = f"--transport {options.transport}, {options.agents} agents, {options.window} unacknowledged each"
    print(f"{words}, {len(meter.DOCUMENT)} B documents,")
    print(f"{options.reps} interleaved runs; {meter.machine()}; Python {meter.interpreter_of(sys.executable)}\n")
    for base in (FLOOR, "asyncio echo") if options.reps else ():
        meter.show(runs, base)
        print()
    if cost is not None:
        print(f"an idle agent: {cost['kib']:.0f} KiB, {cost['us_per_s']:.0f} us of CPU a second", end="")
        print(f" ({options.idle} connected, {cost['live']:.0f} of them still there after {IDLE_SECONDS:.0f} s)")


if __name__ == "__main__":
    main()
