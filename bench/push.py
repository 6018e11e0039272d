"""Zero-gap push: agents run one check each second while its code changes again and again.

    python bench/push.py --agents 1000 --pushes 50

A real Helen (twistd), real agents over real TLS (bench/fleet.py: everything but Lua). Afterwards nothing is believed:
the links are compared with those of the beginning, the history check looks for missing and doubled sequence numbers,
and every result's code must be one that was pushed. Exit status 1 if any of it fails. Confirmation is counted from the
save of the file to the moment at which Helen has an agent's `loaded`; the API is polled every 100 ms, so the times are
up to so much too long. `helen_cpu` and `agents_cpu` are CPU seconds of a push, with the results of that time, the lint
and the polls. `--bare` has before it what TLS connections alone take that carry as many bytes (bench/bare_push.py).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq
from meter import cpu_of

from helen.cli.base.client import Client
from helen.cli.local.processes import Local
from helen.journal import verify

HERE = Path(__file__).resolve().parent
ASSIGNMENTS = '[[assign]]\ncheck = "pulse"\nevery = "1s"\ntimeout = "5s"\n'
PULSE = 'return {{ summary = "pulse {number}", run = function(args, host) return "ok", "{number}" end }}\n'
READY_SECONDS = 120.0
POLL = 0.1  # each answer is made from all agents
PATIENCE = 60.0  # for one answer: a machine that stands still for a moment is no lost result
# A thousand agents have a thousand disks; here they would sync a thousand times a second to the one that Helen needs.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


class Trial:
    """Holds one Helen and one fleet in one folder."""

    def __init__(self, folder: Path, agents: int, fleet: str = "fleet.py", processes: int = 1) -> None:
        self.local = Local(folder)
        self.agents, self._script, self._processes = agents, fleet, processes
        self.pushed: set[str] = set()
        self._checks = self.local.state / "checks"
        self._fleets: list[subprocess.Popen[str]] = []

    def start(self) -> None:
        self._checks.mkdir(parents=True)
        (self.local.state / "assignments.toml").write_text(ASSIGNMENTS)
        self.write(0)
        self.local.start_helen("127.0.0.1:0", "off")
        self.local.wait_for_helen()
        self._agents = tempfile.TemporaryDirectory(prefix="fleet-", dir=MEMORY, ignore_cleanup_errors=True)
        each = -(-self.agents // self._processes)
        for first in range(0, self.agents, each):
            self._fleets.append(self._start_fleet(first, min(each, self.agents - first)))
        for fleet in self._fleets:
            assert fleet.stdout is not None
            line = fleet.stdout.readline().strip()
            if line != "ready":
                raise SystemExit(f"the fleet did not start: {line!r}, see {self.local.folder / 'fleet.log'}")
        self.confirm(READY_SECONDS)

    def _start_fleet(self, first: int, count: int) -> subprocess.Popen[str]:
        words = [sys.executable, str(HERE / self._script), "--state", str(self.local.state)]
        words += ["--folder", self._agents.name, "--count", str(count), "--first", str(first)]
        log = open(self.local.folder / "fleet.log", "ab")  # noqa: SIM115 - the process has it
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True)

    def write(self, number: int) -> None:
        content = PULSE.format(number=number).encode()
        self.pushed.add(hashlib.sha256(content).hexdigest())
        new = self._checks / ".pulse.new"
        new.write_bytes(content)
        new.rename(self._checks / "pulse.lua")

    def cpu(self) -> tuple[float, float]:
        """Return the CPU seconds of Helen and of the agents so far."""
        return cpu_of(self.local.run["pid"]), sum(cpu_of(fleet.pid) for fleet in self._fleets)

    @property
    def client(self) -> Client:
        return self.local.client

    def links(self) -> dict[str, float]:
        """When each agent's connection began."""
        return {agent["name"]: agent["since"] for agent in self.client.get("/api/v1/agents", PATIENCE)["agents"]}

    def confirm(self, patience: float, before: int = 0) -> list[float]:
        """Wait until all agents run a set newer than `before`; the seconds that each of them took."""
        began, took = time.monotonic(), []
        while True:
            state = self.client.get("/api/v1/push", PATIENCE)
            if (state["version"] or 0) > before:
                took += [time.monotonic() - began] * (state["loaded"] - len(took))
                if len(took) >= self.agents:
                    return took
            if time.monotonic() - began > patience:
                raise SystemExit(f"{len(took)} of {self.agents} agents confirmed within {patience:g} s")
            time.sleep(POLL)

    def push(self, number: int) -> list[float]:
        before = self.client.get("/api/v1/push", PATIENCE)["version"]
        self.write(number)
        return self.confirm(READY_SECONDS, before)

    def stop(self) -> None:
        for fleet in self._fleets:
            fleet.terminate()
        for fleet in self._fleets:
            fleet.wait(PATIENCE)
        if self._fleets:
            self._agents.cleanup()
        self.local.stop()

    def faults(self, links: dict[str, float], now: dict[str, float]) -> list[str]:
        """Return a sentence for each fault, by what is on disk."""
        found = [f"{name} was disconnected" for name, since in sorted(links.items()) if now.get(name) != since]
        found += verify.check_history(self.local.state).problems
        history = self.local.state / "history"
        if not (history / "series.parquet").exists():
            return [*found, "there are no results in the history: it was too short a run for a sealed segment"]
        series = pq.read_table(history / "series.parquet").to_pylist()
        pulses = {row["series_id"] for row in series if row["check_id"] == "pulse"}  # and not the agents' self-reports
        codes, results = set(), 0
        for segment in sorted((history / "segments").glob("seg-*.parquet")):
            for row in pq.read_table(segment, columns=["series_id", "code"]).to_pylist():
                if row["series_id"] in pulses:
                    codes.add(row["code"])
                    results += 1
        found += [
            f"a result names code {code}, which was never pushed" for code in sorted(map(str, codes - self.pushed))
        ]
        if not results:
            found.append("there are no results at all")
        return found


def bare_connections(agents: int, pushes: int) -> dict[str, float]:
    """Return what bench/bare_push.py has measured."""
    words = [sys.executable, str(HERE / "bare_push.py"), "--agents", str(agents), "--pushes", str(pushes)]
    measured: dict[str, float] = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    return measured


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--pushes", type=int, default=50)
    parser.add_argument("--floor", action="store_true", help="with agents that only confirm (bench/confirming.py)")
    parser.add_argument("--processes", type=int, default=1, help="in which the agents run: one uses one processor")
    parser.add_argument("--bare", action="store_true", help="and TLS connections that only carry bytes, before")
    parser.add_argument("--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    bare = bare_connections(options.agents, options.pushes) if options.bare else None
    with tempfile.TemporaryDirectory(prefix="push-") as folder:
        trial = Trial(Path(folder), options.agents, "confirming.py" if options.floor else "fleet.py", options.processes)
        try:
            trial.start()
            links = trial.links()
            time.sleep(2.0)
            before = trial.cpu()
            took = [second for number in range(1, options.pushes + 1) for second in trial.push(number)]
            spent = [(now - then) / options.pushes for now, then in zip(trial.cpu(), before, strict=True)]
            time.sleep(2.0)
            now, counts = trial.links(), trial.client.get("/api/v1/status", PATIENCE)["counts"]
        finally:
            trial.stop()
        faults = trial.faults(links, now)
    took.sort()
    report = {
        "agents": options.agents,
        "pushes": options.pushes,
        "results": counts["reports"],
        "confirmation_p50": round(statistics.median(took), 2),
        "confirmation_p95": round(took[int(len(took) * 0.95) - 1], 2),
        "confirmation_max": round(took[-1], 2),
        "helen_cpu": round(spent[0], 2),
        "agents_cpu": round(spent[1], 2),
        "bare": bare,
        "faults": faults,
    }
    if options.output == "json":
        print(json.dumps(report))
    else:
        for name, value in report.items():
            print(f"{name:<18} {value}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
