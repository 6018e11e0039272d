"""Measures what a tunnel at full speed costs all others: delays of pings and of results on the connection that carries
it.

    python bench/tunnel.py --seconds 20

A real Helen (twistd, in plaintext) and an agent of this program, on one connection. The agent pings every 10 ms, and
reports a result every 20 ms, whose acknowledgement waits for Helen's disk. First nothing else is said, then `helen
tunnel` takes all that the agent sends, then the agent takes all that `helen tunnel` sends, as fast as they go. Printed
are the median and the 99th percentile of each delay in milliseconds, bytes a second, and the memory of Helen.

The floor is what this machine does to a byte that `cat` returns, alone and beside a `yes` that another `cat` takes. At
the end stands how much later than with nothing beside it the 99th of 100 comes. The bar is 20 ms more than the floor is
later, and the exit status is 1 where that is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from equus_protocol import messages as m
from equus_protocol.conversation import Conversation, Role
from equus_protocol.tunnel_streams import TunnelStream, TunnelStreams
from helen.cli.local.processes import Local

NOTHING, FROM_AGENT, TO_AGENT = "nothing", "from the agent", "to the agent"
PHASES = (NOTHING, FROM_AGENT, TO_AGENT) * 2
BAR = 20.0  # milliseconds at the 99th percentile
WARM_SECONDS = 15.0  # until Helen has sealed its first segment, which loads what it needs for that
PING_SECONDS, REPORT_SECONDS = 0.01, 0.02
SOME = b"y\n" * 8_192
TUNNEL = [sys.executable, "-c", "from helen.cli.main import main; main()", "tunnel", "web-1", "--state"]


class Far:
    """Acts as the agent's side of the tunnel: it brings all that the tunnel takes, or takes all that comes."""

    def __init__(self, stream: TunnelStream, brings: bool) -> None:
        self.stream, self.brings, self.is_paused, self.taken = stream, brings, False, 0

    def fill(self) -> None:
        while self.brings and not self.is_paused and not self.stream.is_over:
            self.stream.read(SOME)

    def write(self, data: bytes) -> None:
        self.taken += len(data)

    def pauseProducing(self) -> None:
        self.is_paused = True

    def resumeProducing(self) -> None:
        self.is_paused = False

    def loseConnection(self) -> None:
        self.is_paused = True


class Agent:
    """Holds one agent on a socket, and the delays that it has seen, in milliseconds, by their names."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setblocking(False)
        self.conversation = Conversation(Role.EQUUS)
        self.later: list[Callable[[], None]] = []  # calls of the next turn
        self.streams = TunnelStreams(self.conversation, self.say, lambda: not self.unsent, self.later.append)
        self.unsent = bytearray()
        self.delays: dict[str, list[float]] = {"ping": [], "result": []}
        self.brings = True
        self.far: Far | None = None
        self._asked: dict[Any, float] = {}
        self._number = self._sequence = 0
        self.is_ready = False
        self.say(m.Hello(2, "kit/1;name=web-1"))

    def say(self, message: m.Message) -> None:
        self.unsent += self.conversation.send(message)

    def run(self, seconds: float) -> None:
        """Talk for so long."""
        until = time.monotonic() + seconds
        next_ping = next_report = time.monotonic()
        while (now := time.monotonic()) < until:
            if self.is_ready and now >= next_ping:
                next_ping = now + PING_SECONDS
                self._number = self._number % 1_000_000 + 1
                self._asked["ping", self._number] = now
                self.say(m.Ping(self._number))
            if self.is_ready and now >= next_report:
                next_report = now + REPORT_SECONDS
                self._sequence += 1
                self._asked["result", self._sequence] = now
                self.say(m.Report("s", self._sequence, "pulse", b'{"status":"ok","summary":"x"}'))
            if self.far is not None:
                self.far.fill()
            later, self.later[:] = list(self.later), []
            for call in later:
                call()
            self._move(min(next_ping, next_report) - time.monotonic())

    def _move(self, patience: float) -> None:
        writes = [self.socket] if self.unsent else []
        readable, writable, _ = select.select([self.socket], writes, [], max(0.0, patience))
        if writable:
            del self.unsent[: self.socket.send(self.unsent)]
            if not self.unsent:
                self.streams.wake()
        if readable:
            self.conversation.feed(self.socket.recv(262_144))
            while (message := self.conversation.next_message()) is not None:
                self._hear(message)

    def _hear(self, message: m.Message) -> None:
        if isinstance(message, m.Schedule):
            self.say(m.Loaded("none", json.dumps({"tunnels": ["ssh"]}).encode()))
            self.is_ready = True
        elif isinstance(message, m.Ping):
            self.say(m.Pong(message.message_id))
        elif isinstance(message, m.Pong):
            self._note("ping", message.message_id)
        elif isinstance(message, m.Ack):
            for sequence in [key for name, key in self._asked if name == "result" and key <= message.sequence]:
                self._note("result", sequence)
        elif isinstance(message, m.Tunnel):
            self.far = Far(self.streams.add(message.message_id), self.brings)
            self.far.stream.attach(self.far)
        elif isinstance(message, m.Bytes | m.Window | m.Close):
            self.streams.heard(message)

    def _note(self, name: str, key: int) -> None:
        asked = self._asked.pop((name, key), None)
        if asked is not None:
            self.delays[name].append(1_000 * (time.monotonic() - asked))


def last_of(delays: list[float]) -> float:
    return statistics.quantiles(delays, n=100)[98]


def floor(seconds: float) -> float:
    """Print the delays of a byte that `cat` returns, and return how much later the 99th of 100 is beside a `yes`."""
    found = []
    for what in ("floor", "floor, beside"):
        beside = None if what == "floor" else subprocess.Popen(["sh", "-c", "yes | cat > /dev/null"], process_group=0)
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as echo:
            assert echo.stdin is not None and echo.stdout is not None
            delays = []
            until = time.monotonic() + seconds
            while (now := time.monotonic()) < until:
                os.write(echo.stdin.fileno(), b"x")
                os.read(echo.stdout.fileno(), 1)
                delays.append(1_000 * (time.monotonic() - now))
                time.sleep(PING_SECONDS)
            echo.stdin.close()
        if beside is not None:
            os.killpg(beside.pid, signal.SIGKILL)
            beside.wait()
        found.append(last_of(delays))
        print(f"{what:14} byte {statistics.median(delays):6.2f} {found[-1]:7.2f}", flush=True)
    return max(0.0, found[1] - found[0])


def show(what: str, agent: Agent, moved: int, seconds: float, resident: int) -> None:
    said = []
    for name, delays in agent.delays.items():
        said.append(f"{name} {statistics.median(delays):6.2f} {last_of(delays):7.2f}")
    print(f"{what:14} {'   '.join(said)}   {moved / seconds / 1e6:7.1f} MB/s   {resident / 2**20:6.1f} MiB", flush=True)


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4_096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder:
        local = Local(Path(folder))
        try:
            local.start_helen("127.0.0.1:0", "off", "--insecure-plaintext")
            local.wait_for_helen()
            found = measure(local, seconds)
        finally:
            local.stop()
    allowed = BAR + floor(seconds)
    is_good = True
    for name, of in found.items():
        later = max(max(of[FROM_AGENT]), max(of[TO_AGENT])) - max(of[NOTHING])
        is_good &= later <= allowed
        print(f"{name}: beside a tunnel the 99th of 100 comes {later:.2f} ms later; the bar is {allowed:.2f} ms")
    raise SystemExit(0 if is_good else 1)


def measure(local: Local, seconds: float) -> dict[str, dict[str, list[float]]]:
    """Measure all phases, and return the 99th percentiles by what was measured, and beside what."""
    agent, pid = Agent(local.run["agents"]), local.run["pid"]
    print("               ping p50     p99   result p50    p99")
    agent.run(WARM_SECONDS)
    found: dict[str, dict[str, list[float]]] = {name: {what: [] for what in PHASES} for name in agent.delays}
    for what in PHASES:
        process = None
        if what != NOTHING:
            agent.brings = what == FROM_AGENT
            source = None if agent.brings else subprocess.Popen(["yes"], stdout=subprocess.PIPE)
            given: Any = subprocess.DEVNULL if source is None else source.stdout
            if agent.brings:
                given = subprocess.PIPE
            process = subprocess.Popen([*TUNNEL, str(local.state)], stdin=given, stdout=subprocess.DEVNULL)
            while agent.far is None:
                agent.run(0.1)
            agent.run(1.0)
        for delays in agent.delays.values():
            delays.clear()
        before = 0 if agent.far is None else agent.far.stream.sent + agent.far.taken
        agent.run(seconds)
        after = 0 if agent.far is None else agent.far.stream.sent + agent.far.taken
        show(what, agent, after - before, seconds, resident(pid))
        for name, delays in agent.delays.items():
            found[name][what].append(last_of(delays))
        if process is not None:
            process.kill()
            process.wait()
            if source is not None:
                source.kill()
                source.wait()
            agent.run(1.0)
            agent.far = None
    return found


if __name__ == "__main__":
    main()
