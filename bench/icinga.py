#!/usr/bin/env python3
"""Results at one rate, pushed to Helen and to an Icinga 2 master: CPU of each server for a result, in one run.

    bench/icinga.py [--rates 500 1000] [--agents 20] [--checks 25] [--seconds 20] [--reps 3]

The same agents in asyncio push the same results over TLS with client certificates, at the same pace: reports to Helen,
`event::CheckResult` in the cluster's JSON-RPC to Icinga, whose agents (a zone each) run their checks themselves. A real
agent of Icinga sends two messages more for each result; these send none of them. Helen acknowledges what is on its
disk, judges it and keeps it. There are two masters: `bare` keeps the newest state in memory alone, `history` has the
PerfdataWriter and Icinga DB with a Redis, whose CPU is counted too (what Redis hands on to a database is not).

It needs icinga2-bin and redis-server of Debian, and root, since Icinga changes to its own user.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import datetime
import json
import os
import pwd
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from meter import DOCUMENT, cpu_of, interpreter_of, machine, running
from promises import Bench
from senders import Sender

from helen.cli.local.processes import Local

WARM_SECONDS = 5.0
LATE_SECONDS = 60.0  # for a server to take what has been sent
PIECES = 4  # of a second: at each an agent says what is due
FOLDERS = ("DataDir", "LogDir", "CacheDir", "SpoolDir", "InitRunDir")
FILES = {"PidPath": "pid", "VarsPath": "vars", "ObjectsPath": "objects", "StatePath": "state", "ModAttrPath": "modattr"}
MASTER = """
const NodeName = "master"
const ZoneName = "master"
include <itl>
object Endpoint "master" { }
object Zone "master" { endpoints = [ "master" ] }
object IcingaApplication "app" { }
object CheckerComponent "checker" { }
object ApiListener "api" { bind_host = "127.0.0.1"; bind_port = %(port)d }
object ApiUser "bench" { password = "bench"; permissions = [ "status/query" ] }
for (i in range(%(agents)d)) {
  object Endpoint "agent-" + i { }
  object Zone "agent-" + i use(i) { endpoints = [ "agent-" + i ]; parent = "master" }
  object Host "agent-" + i use(i) { check_command = "dummy"; check_interval = 1h; zone = "agent-" + i }
  for (n in range(%(checks)d)) {
    object Service "check_" + n use(i) {
      host_name = "agent-" + i; check_command = "dummy"; check_interval = 60s; zone = "agent-" + i
    }
  }
}
"""
HISTORY = """
library "perfdata"
library "icingadb"
object PerfdataWriter "perfdata" { }
object IcingaDB "icingadb" { host = "127.0.0.1"; port = %(redis)d }
"""
CHECK = 'return { summary = "bench", run = function() return "ok" end }'
ASSIGNMENT = '[[assign]]\ncheck = "check_%d"\nevery = "60s"\n'
COMMAND = ["/usr/lib/nagios/plugins/check_disk", "-w", "20%", "-c", "10%", "-p", "/"]


class Pushing(Sender):
    """Pushes results of its checks at a pace, as an agent; `say_one` is the protocol's."""

    def __init__(self, name: str, checks: int) -> None:
        super().__init__(name, 1)
        self.checks, self.sent = checks, 0
        self._document = json.loads(DOCUMENT)

    async def open(self, port: int, context: ssl.SSLContext) -> None:
        await self.connect(port, context, hello=True)

    async def listen(self) -> None:
        while await self.read_message():
            pass

    async def pace(self, rate: float, end: float) -> None:
        began, sent = time.monotonic(), 0
        while (now := time.monotonic()) < end:
            due = int((now - began) * rate) + 1
            self.writer.write(b"".join(self.one(self.sent + number) for number in range(due - sent)))
            self.sent, sent = self.sent + due - sent, due
            await asyncio.sleep(min(1 / rate, 1 / PIECES))

    def one(self, number: int) -> bytes:
        self._document |= {"started": round(time.time(), 3), "check": f"check_{number % self.checks}"}
        blob = json.dumps(self._document, separators=(",", ":")).encode()
        return b"report s %d check_%d %d\n%b\n" % (number + 1, number % self.checks, len(blob), blob)


class IcingaPushing(Pushing):
    """Pushes the same in the cluster protocol of Icinga: netstrings of JSON-RPC."""

    async def open(self, port: int, context: ssl.SSLContext) -> None:
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname="master"
        )
        hello = {"version": 21306, "capabilities": 0}
        self.writer.write(netstring({"jsonrpc": "2.0", "method": "icinga::Hello", "params": hello}))

    async def listen(self) -> None:
        while await self.reader.read(65_536):
            pass

    def one(self, number: int) -> bytes:
        now = time.time()
        found = {
            "type": "CheckResult",
            "state": 0.0,
            "output": self._document["summary"],
            "performance_data": ["used=40.2%;80;90", "free=65820082176B"],
            "schedule_start": now,
            "schedule_end": now + 0.0032,
            "execution_start": now,
            "execution_end": now + 0.0032,
            "exit_status": 0.0,
            "active": True,
            "check_source": self.name,
            "scheduling_source": self.name,
            "command": COMMAND,
            "ttl": 0.0,
            "vars_before": {"attempt": 1.0, "reachable": True, "state": 0.0, "state_type": 1.0},
            "vars_after": {"attempt": 1.0, "reachable": True, "state": 0.0, "state_type": 1.0},
        }
        params = {"host": self.name, "service": f"check_{number % self.checks}", "cr": found}
        return netstring({"jsonrpc": "2.0", "method": "event::CheckResult", "params": params, "ts": now})


def netstring(message: dict[str, object]) -> bytes:
    text = json.dumps(message, separators=(",", ":")).encode()
    return b"%d:%b," % (len(text), text)


class Authority:
    """Makes a CA for Icinga, and the files of each name."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self.folder = folder
        folder.mkdir()
        self._key, self._ca = ec.generate_private_key(ec.SECP256R1()), x509.Name.from_rfc4514_string("CN=bench CA")
        self._issue("ca", self._key, self._ca, True)
        for name in names:
            key = ec.generate_private_key(ec.SECP256R1())
            self._issue(name, key, x509.Name.from_rfc4514_string(f"CN={name}"), False)

    def _issue(self, name: str, key: ec.EllipticCurvePrivateKey, subject: x509.Name, is_ca: bool) -> None:
        now = datetime.datetime.now(datetime.UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._ca)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=2))
            .add_extension(x509.BasicConstraints(is_ca, None), True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), False)
            .sign(self._key, hashes.SHA256())
        )
        (self.folder / f"{name}.crt").write_bytes(made.public_bytes(Encoding.PEM))
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (self.folder / f"{name}.key").write_bytes(secret)

    def context(self, name: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.folder / "ca.crt")
        context.load_cert_chain(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        return context


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextlib.contextmanager
def icinga(folder: Path, options: argparse.Namespace, keeps_history: bool) -> Iterator[tuple[int, list[int]]]:
    """Run a master, and a Redis if it keeps a history; give its port and the pids to be counted."""
    port, redis = free_port(), free_port()
    text = MASTER % {"port": port, "agents": options.agents, "checks": options.checks}
    home = folder / "master"
    for name in (*FOLDERS, "DataDir/certs", "SpoolDir/perfdata", "SpoolDir/tmp", "LogDir/crash"):
        (home / name).mkdir(parents=True, exist_ok=True)
    (home / "icinga2.conf").write_text(text + (HISTORY % {"redis": redis} if keeps_history else ""))
    for name, target in (("ca.crt", "ca.crt"), ("master.crt", "master.crt"), ("master.key", "master.key")):
        shutil.copy(folder / "pki" / name, home / "DataDir/certs" / target)
    owner = pwd.getpwnam("nagios")
    for place, _, files in os.walk(home):
        os.chown(place, owner.pw_uid, owner.pw_gid)
        for name in files:
            os.chown(Path(place, name), owner.pw_uid, owner.pw_gid)
    words = ["/usr/sbin/icinga2", "daemon", "-c", str(home / "icinga2.conf"), "-x", "critical"]
    for name in FOLDERS:
        words += ["-D", f"{name}={home / name}"]
    for name, file in FILES.items():
        words += ["-D", f"{name}={home / 'CacheDir' / file}"]
    with contextlib.ExitStack() as stack:
        pids = []
        if keeps_history:
            store = ["redis-server", "--port", str(redis), "--dir", str(home), "--save", "", "--logfile", "redis.log"]
            pids.append(stack.enter_context(running(store, redis)).pid)
        log = stack.enter_context(open(folder / "icinga.log", "ab"))
        master = stack.enter_context(subprocess.Popen(words, stdout=log, stderr=log))
        stack.callback(master.terminate)
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        yield port, [master.pid, *pids]


def icinga_results(port: int) -> int:
    """Return how many results the master has taken, as it says itself."""
    context = ssl._create_unverified_context()
    token = base64.b64encode(b"bench:bench").decode()
    with socket.create_connection(("127.0.0.1", port), 20) as raw, context.wrap_socket(raw) as tls:
        head = f"GET /v1/status/CIB HTTP/1.0\r\nHost: x\r\nAuthorization: Basic {token}\r\n"
        tls.sendall(f"{head}Accept: application/json\r\n\r\n".encode())
        got = b""
        with contextlib.suppress(ssl.SSLError):
            while more := tls.recv(65_536):
                got += more
    body = got[got.index(b"{") : got.rindex(b"}") + 1]
    return int(json.loads(body)["results"][0]["status"]["active_service_checks_15min"])


async def push(
    agents: list[Pushing],
    contexts: list[ssl.SSLContext],
    port: int,
    rate: float,
    options: argparse.Namespace,
    taken: Callable[[], int],
) -> AsyncIterator[int]:
    """Have all push at this rate; give how many were sent, once it is warm and once the server has taken them all."""
    for agent, context in zip(agents, contexts, strict=True):
        await agent.open(port, context)
    listening = [asyncio.ensure_future(agent.listen()) for agent in agents]
    end = time.monotonic() + WARM_SECONDS + options.seconds
    pacing = asyncio.gather(*(agent.pace(rate / len(agents), end) for agent in agents))
    await asyncio.sleep(WARM_SECONDS)
    yield sum(agent.sent for agent in agents)
    await pacing
    sent, until = sum(agent.sent for agent in agents), time.monotonic() + LATE_SECONDS
    while await asyncio.to_thread(taken) < sent:
        if time.monotonic() > until:
            raise SystemExit(f"of {sent} results {taken()} were taken within {LATE_SECONDS:g} s")
        await asyncio.sleep(0.5)
    yield sent
    for each in listening:
        if each.done():
            raise SystemExit("an agent lost its connection")
        each.cancel()


async def measure(steps: AsyncIterator[int], pids: list[int], seconds: float) -> tuple[float, float]:
    """Return microseconds of CPU for a result, and results a second."""
    marks = [(sent, sum(map(cpu_of, pids))) async for sent in steps]
    sent, spent = (after - before for before, after in zip(*marks, strict=True))
    return spent / sent * 1e6, sent / seconds


def helen_once(folder: Path, rate: float, options: argparse.Namespace) -> tuple[float, float]:
    checks = Local(folder).state / "checks"
    checks.mkdir(parents=True)
    for number in range(options.checks):
        (checks / f"check_{number}.lua").write_text(CHECK)
    assignments = "".join(ASSIGNMENT % number for number in range(options.checks))
    (checks.parent / "assignments.toml").write_text(assignments)
    bench = Bench(folder)
    try:
        agents = [Pushing(f"agent-{number}", options.checks) for number in range(options.agents)]

        def taken() -> int:
            return int(bench.local.client.get("/api/v1/status")["counts"]["reports"])

        steps = push(agents, bench.contexts(options.agents), bench.port, rate, options, taken)
        found = asyncio.run(measure(steps, [bench.pid], options.seconds))
        known = bench.local.client.get("/api/v1/status")["checks"]["ok"]
        assert known == options.agents * options.checks, f"Helen knows {known} states"
        return found
    finally:
        bench.local.stop()


def icinga_once(keeps_history: bool, folder: Path, rate: float, options: argparse.Namespace) -> tuple[float, float]:
    names = [f"agent-{number}" for number in range(options.agents)]
    authority = Authority(folder / "pki", ["master", *names])
    with icinga(folder, options, keeps_history) as (port, pids):
        agents: list[Pushing] = [IcingaPushing(name, options.checks) for name in names]
        contexts = [authority.context(name) for name in names]
        steps = push(agents, contexts, port, rate, options, lambda: icinga_results(port))
        return asyncio.run(measure(steps, pids, options.seconds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=float, nargs="+", default=[500.0, 1000.0], help="results a second")
    parser.add_argument("--agents", type=int, default=20)
    parser.add_argument("--checks", type=int, default=25, help="of each agent")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--reps", type=int, default=3)
    options = parser.parse_args()
    version = subprocess.run(["icinga2", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()
    print(f"{machine()}\n{interpreter_of(sys.executable)}\n{version[0]}")
    servers = {
        "Helen": helen_once,
        "Icinga 2, bare": lambda *each: icinga_once(False, *each),
        "Icinga 2, history": lambda *each: icinga_once(True, *each),
    }
    for rate in options.rates:
        runs: dict[str, list[tuple[float, float]]] = {name: [] for name in servers}
        for _ in range(options.reps):
            for name, once in servers.items():
                with tempfile.TemporaryDirectory(prefix="bench-") as folder:
                    os.chmod(folder, 0o755)
                    runs[name].append(once(Path(folder), rate, options))
        least = statistics.median(us for us, _ in runs["Helen"])
        for name, found in runs.items():
            us = [each for each, _ in found]
            per_s = statistics.median(each for _, each in found)
            middle = statistics.median(us)
            print(
                f"{rate:,.0f}/s asked, {per_s:,.0f}/s: {name:<18} {middle:6.1f} us ({min(us):.1f} to {max(us):.1f}), "
                f"{middle / least:.2f} x Helen",
                flush=True,
            )


if __name__ == "__main__":
    main()
