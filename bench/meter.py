"""Builds the C floor and its fleet (bench/floor.c), and meters CPU: the shared parts of exchange.py and throughput.py.

CPU is user and system time in nanoseconds of a process with all its threads, of its children, and of those that ended.
Nothing is measured by wall time but the rate, which says little on a machine that does other work.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import json
import os
import platform
import resource
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

HERE = Path(__file__).resolve().parent
TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
READY_SECONDS = 120  # for all agents to be connected
# The document of a real agent: two metrics, their labels and limits, the code that ran. Its `started` is set anew by
# the fleet for each turn: an old time would make each result history, which the timeline treats in another way.
DOCUMENT = json.dumps(
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
    """Return the CPU seconds that a process, its threads and its children have used."""
    own = time.clock_gettime((~pid << 3) | 2)  # CLOCK_PROCESS_CPUTIME_ID of another process, to the nanosecond
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    ended = (int(fields[13]) + int(fields[14])) / TICK
    alive = 0.0
    for child in children_of(pid):
        with contextlib.suppress(OSError):
            alive += cpu_of(child)
    return own + ended + alive


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started. Not every kernel lists them, so all processes are looked at."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(status.read_text().rsplit(")", 1)[1].split()[1]) == pid:
                found.append(int(status.parent.name))
    return found


def rss_of(pid: int) -> int:
    """Return the bytes of memory that a process holds."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


def allow_descriptors(most: int) -> None:
    """Let this process and those that it starts have so many descriptors, as far as the machine allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, most + 256)), hard))


def build(folder: Path) -> Path:
    """Compile floor.c into the folder; it needs cc and libssl-dev."""
    made = folder / "floor"
    subprocess.run(["cc", "-O2", "-o", made, HERE / "floor.c", "-lssl", "-lcrypto"], check=True)
    (folder / "document.json").write_bytes(DOCUMENT)
    return made


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Write a certificate for 127.0.0.1, signed by itself, and its key; return both paths."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "floor")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )
    crt, secret = folder / "floor.crt", folder / "floor.key"
    crt.write_bytes(made.public_bytes(Encoding.PEM))
    secret.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))
    return crt, secret


class Fleet:
    """Runs the C fleet as a process: `results` is what it has got done so far, and at which second."""

    def __init__(self, words: list[str]) -> None:
        self._process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        self.ready_s: float = self._line()["ready_s"]

    def _line(self) -> dict[str, Any]:
        assert self._process.stderr is not None
        line = self._process.stderr.readline()
        if not line:
            raise SystemExit(f"{self._process.args!r} ended with {self._process.wait()}")
        said: dict[str, Any] = json.loads(line)
        if "error" in said:
            raise SystemExit(f"the server refused an agent: {said['error']}")
        return said

    def results(self) -> tuple[int, float]:
        self._process.send_signal(signal.SIGUSR1)
        said = self._line()
        return said["results"], said["at"]

    def live(self) -> int:
        """Return how many of its connections are open."""
        self._process.send_signal(signal.SIGUSR1)
        return int(self._line()["live"])

    def wait_for(self, wanted: int) -> None:
        """Wait until so many results have been answered."""
        before, since = -1, time.monotonic()
        while (got := self.results()[0]) < wanted:
            if got != before:
                before, since = got, time.monotonic()
            elif time.monotonic() - since > 60:
                raise SystemExit(f"nothing has come for 60 s, at {got} results")
            time.sleep(0.05)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def measure(pid: int, fleet: Fleet, warm: int, results: int) -> dict[str, float]:
    """Return CPU per result and the rate, over so many results, once `warm` have been answered."""
    fleet.wait_for(warm)
    cpu, (done, at) = cpu_of(pid), fleet.results()
    fleet.wait_for(done + results)
    spent, (now_done, now_at) = cpu_of(pid) - cpu, fleet.results()
    return {"us": spent * 1e6 / (now_done - done), "per_s": (now_done - done) / (now_at - at)}


@contextlib.contextmanager
def running(words: list[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the block ends; it is entered when the port listens, which no connection is made to find."""
    with subprocess.Popen(words) as server:
        try:
            _wait_for_port(port, server)
            yield server
        finally:
            server.terminate()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()


def _wait_for_port(port: int, server: subprocess.Popen[bytes]) -> None:
    """Wait until this very process listens: on a machine that is shared another may have taken the port meanwhile."""
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until and server.poll() is None:
        with contextlib.suppress(OSError):
            held = {os.readlink(entry) for entry in Path(f"/proc/{server.pid}/fd").iterdir()}
            if held & {f"socket:[{inode}]" for inode in _listening_on(port)}:
                return
        time.sleep(0.02)
    raise SystemExit(f"{server.args!r} does not listen on {port}")


def _listening_on(port: int) -> Iterator[str]:
    """Give the inodes of the sockets that listen on a port."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[1].endswith(f":{port:04X}") and fields[3] == "0A":
                yield fields[9]


def interpreter_of(python: str) -> str:
    """Return the version of a Python, how it was built, and the OpenSSL that it uses: all three change each figure."""
    code = (
        "import sys, sysconfig; from OpenSSL import SSL; how = sysconfig.get_config_var('CONFIG_ARGS') or '';"
        "print(sys.version.split()[0], '+'.join(w for w, o in (('PGO', 'enable-optimizations'), ('LTO', 'with-lto'))"
        " if o in how) or 'neither PGO nor LTO', SSL.OpenSSL_version(0).decode(), sep=', ')"
    )
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def machine() -> str:
    """Return processors, kernel and load of this machine in one line."""
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    model = models[0].partition(":")[2].strip() if models else platform.machine()
    load = os.getloadavg()[0]
    return f"{os.cpu_count()} x {model}, Linux {platform.release()}, load average {load:.1f}"


def show(runs: dict[str, list[dict[str, float]]], floor: str) -> None:
    """Print medians with their range, and ratios to one of the runs, as a table."""
    base = statistics.median(run["us"] for run in runs[floor])
    print(f"| server | CPU us/result: median (min-max) | x {floor} | results/s (wall) |\n|---|---|---|---|")
    for name, got in runs.items():
        us = [run["us"] for run in got]
        rate = statistics.median(run["per_s"] for run in got)
        middle = statistics.median(us)
        print(f"| {name} | {middle:.2f} ({min(us):.2f}-{max(us):.2f}) | {middle / base:.2f} | {rate:,.0f} |")
