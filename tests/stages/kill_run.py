"""Runs many tasks while broker, nodes and clients are killed at random and started again.

python kill_run.py FOLDER --tasks 100000 --kills 50 --nodes 8 --clients 4 [--seed 7]

Kills are spread over the run by its progress, not by the clock, so that a slow machine is killed as evenly as a fast
one. Everything is written to FOLDER; `kill_check.py` judges it. Exit status 0 only means that the run came to its end.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from ports import free_port

HERE = Path(__file__).parent
STEP = 0.05  # seconds between looks at the progress
PATIENCE = 200.0  # seconds without any progress that mean the run has failed


class Run:
    def __init__(self, folder: Path, tasks: int, kills: int, nodes: int, clients: int, seed: int) -> None:
        self.folder, self.kills, self.dice = folder, kills, random.Random(seed)
        self.count = tasks // clients  # of one client
        self.listen, self.publish = _endpoint(), _endpoint()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.names = ["broker", *(f"node-{n}" for n in range(nodes)), *(f"client-c{n}" for n in range(clients))]
        self.kinds = itertools.cycle(self.dice.sample(["broker", "node", "client"], 3))
        self.clients = {name for name in self.names if name.startswith("client")}
        self.seen: dict[Path, tuple[int, int]] = {}  # log of a client -> bytes that were looked at, ends in them

    def command(self, name: str) -> list[str]:
        if name == "broker":
            twistd = str(Path(sys.executable).with_name("twistd"))
            ends = ["--listen", self.listen, "--publish", self.publish]
            return [twistd, "-n", "--pidfile=", "zerotask", "--state", str(self.folder / "state"), *ends]
        kind, _, short = name.partition("-")
        log, rest = str(self.folder / f"{name}.log"), [str(self.count)] if kind == "client" else []
        return [sys.executable, str(HERE / "kill_peers.py"), kind, self.listen, short, log, *rest]

    def start(self, name: str) -> None:
        with (self.folder / f"{name}.out").open("ab") as out:
            self.processes[name] = subprocess.Popen(
                self.command(name), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )

    def kill_one(self) -> None:
        """Kill one process: broker, nodes and clients get a third of the kills each, and one that has done its work is
        left alone.
        """
        kind = next(self.kinds)
        alive = [name for name in self.names if self.processes[name].poll() is None]
        name = self.dice.choice([name for name in alive if name.startswith(kind)] or alive)
        self.processes[name].kill()
        self.processes[name].wait()
        with (self.folder / "kills.log").open("a") as log:
            log.write(f"{name}\n")
        self.start(name)

    def progress(self) -> int:
        for path in self.folder.glob("client-*.log"):
            offset, ended = self.seen.get(path, (0, 0))
            with path.open("rb") as log:
                log.seek(offset)
                lines, _, _ = log.read().rpartition(b"\n")
            self.seen[path] = offset + len(lines), ended + lines.count(b'"ended"')
        return sum(ended for _, ended in self.seen.values())

    def whole(self) -> None:
        whole, killed, last, since = self.count * len(self.clients), 0, -1, time.monotonic()
        for name in self.names:
            self.start(name)
        while any(self.processes[name].poll() is None for name in self.clients):
            done = self.progress()
            if done != last:
                last, since = done, time.monotonic()
            if time.monotonic() - since > PATIENCE:
                raise SystemExit(f"no progress in {PATIENCE:g} s after {done} of {whole} tasks")
            if killed < self.kills and done >= (killed + 1) * whole / (self.kills + 2):
                self.kill_one()
                killed += 1
            time.sleep(STEP)

    def end(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _endpoint() -> str:
    return f"tcp://127.0.0.1:{free_port()}"


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder", type=Path)
    for name, default in (("tasks", 2000), ("kills", 10), ("nodes", 4), ("clients", 2), ("seed", 7)):
        arguments.add_argument(f"--{name}", type=int, default=default)
    chosen = arguments.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    run = Run(**vars(chosen))
    os.environ["PYTHONUNBUFFERED"] = "1"
    try:
        run.whole()
    finally:
        run.end()


if __name__ == "__main__":
    main()
