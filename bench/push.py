"""Zero-gap push: agents run one check each second while its code changes again and again.

    python bench/push.py --agents 1000 --pushes 50

A real Helen (twistd), real agents over real TLS (bench/fleet.py: everything but Lua). Afterwards nothing is believed:
the links are compared with those of the beginning, the history check looks for missing and doubled sequence numbers,
and every result's code must be one that was pushed. Exit status 1 if any of it fails. Confirmation is counted from the
save of the file to the moment at which Helen has an agent's `loaded`; the API is polled every 50 ms.
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

from helen.cli.base.client import Client
from helen.cli.local.processes import Local
from helen.journal import verify

HERE = Path(__file__).resolve().parent
ASSIGNMENTS = '[[assign]]\ncheck = "pulse"\nevery = "1s"\ntimeout = "5s"\n'
PULSE = 'return {{ summary = "pulse {number}", run = function(args, host) return "ok", "{number}" end }}\n'
READY_SECONDS = 120.0
POLL = 0.05
PATIENCE = 60.0  # for one answer: a machine that stands still for a moment is no lost result
# A thousand agents have a thousand disks; here they would sync a thousand times a second to the one that Helen needs.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


class Trial:
    """One Helen and one fleet in one folder."""

    def __init__(self, folder: Path, agents: int) -> None:
        self.local = Local(folder)
        self.agents = agents
        self.pushed: set[str] = set()
        self._checks = self.local.state / "checks"
        self._fleet: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self._checks.mkdir(parents=True)
        (self.local.state / "assignments.toml").write_text(ASSIGNMENTS)
        self.write(0)
        self.local.start_helen("127.0.0.1:0", "off")
        self.local.wait_for_helen()
        self._agents = tempfile.TemporaryDirectory(prefix="fleet-", dir=MEMORY, ignore_cleanup_errors=True)
        words = [sys.executable, str(HERE / "fleet.py"), "--state", str(self.local.state)]
        words += ["--folder", self._agents.name, "--count", str(self.agents)]
        log = open(self.local.folder / "fleet.log", "ab")  # noqa: SIM115 - the process has it
        self._fleet = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._fleet.stdout is not None
        line = self._fleet.stdout.readline().strip()
        if line != "ready":
            raise SystemExit(f"the fleet did not start: {line!r}, see {self.local.folder / 'fleet.log'}")
        self.confirm(READY_SECONDS)

    def write(self, number: int) -> None:
        content = PULSE.format(number=number).encode()
        self.pushed.add(hashlib.sha256(content).hexdigest())
        new = self._checks / ".pulse.new"
        new.write_bytes(content)
        new.rename(self._checks / "pulse.lua")

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
        if self._fleet is not None:
            self._fleet.terminate()
            self._fleet.wait(PATIENCE)
            self._agents.cleanup()
        self.local.stop()

    def faults(self, links: dict[str, float], now: dict[str, float]) -> list[str]:
        """What went wrong, from what is on disk."""
        found = [f"{name} was disconnected" for name, since in sorted(links.items()) if now.get(name) != since]
        found += verify.check_history(self.local.state).problems
        history = self.local.state / "history"
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--pushes", type=int, default=50)
    parser.add_argument("--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="push-") as folder:
        trial = Trial(Path(folder), options.agents)
        try:
            trial.start()
            links = trial.links()
            time.sleep(2.0)
            took = [second for number in range(1, options.pushes + 1) for second in trial.push(number)]
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
