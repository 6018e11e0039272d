"""CPU of Helen for a result of a target, beside one of an agent's own check: the same agents, one after the other.

    python bench/targets.py --targets 2000 --agents 20 --every 60 --seconds 120 --reps 2

A real Helen (twistd), real agents in one process over real TLS (bench/fleet.py: everything but Lua). In turns they run
nothing, so many own checks, so many checks of targets, and with --quorum a third of them three times. CPU is that of
Helen's process in so many seconds, divided by the results that came in them; `net` is without what it uses when nothing
comes. Each turn begins to count once every check has reported.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import re
import socket
import statistics
import tempfile
import time
from pathlib import Path

import meter
from push import Trial

READY_SECONDS = 300.0
SETTLE_SECONDS = 5.0  # after a change of what is run: schedules, rules and first results are no steady state
IDLE, OWN, TARGETS, QUORUM = "idle", "own checks", "targets", "targets, 2 of 3"


class Turns:
    """Holds one Helen and one fleet that is told what to run."""

    def __init__(self, trial: Trial, options: argparse.Namespace) -> None:
        self._trial, self._options = trial, options
        self._pid = int(trial.local.run["pid"])

    def measure(self, kind: str) -> dict[str, float]:
        """Have the fleet run what a kind says; return the CPU seconds and the results of the time after that."""
        count, every = self._options.targets, self._options.every
        runs = {IDLE: 0, OWN: count, TARGETS: count, QUORUM: count // 3 * 3}[kind]
        self._put("assignments", "default_set = false\n")
        self._put("targets", "" if kind in (IDLE, OWN) else self._targets(kind))
        self._put("assignments", "default_set = false\n" + self._assigned(kind, every))
        if runs:
            self._wait_for(runs)
        time.sleep(SETTLE_SECONDS)
        cpu, before = meter.cpu_of(self._pid), self._results()
        time.sleep(self._options.seconds)
        return {"cpu": meter.cpu_of(self._pid) - cpu, "results": self._results() - before}

    def _assigned(self, kind: str, every: float) -> str:
        if kind == IDLE:
            return ""
        if kind in (TARGETS, QUORUM):
            return f'[[assign]]\ncheck = "pulse"\ntargets = ["t-*"]\nevery = {every}\n'
        each = self._options.targets // self._options.agents
        return "".join(f'[[assign]]\ncheck = "pulse"\nid = "c{n}"\nevery = {every}\n' for n in range(each))

    def _targets(self, kind: str) -> str:
        count, more = self._options.targets, ""
        if kind == QUORUM:
            count, more = count // 3, 'quorum = "2 of 3"\n'
        return "".join(f'[[target]]\nname = "t-{n:05}"\nvia = "a-*"\n{more}' for n in range(count))

    def _put(self, what: str, text: str) -> None:
        self._trial.client.put(f"/api/v1/{what}", {"text": text})

    def _results(self) -> int:
        """Return how many results have become durable, by Helen's own metrics."""
        asked = http.client.HTTPConnection("localhost")
        asked.sock = socket.socket(socket.AF_UNIX)
        with contextlib.closing(asked):
            asked.sock.connect(str(self._trial.local.state / "control.sock"))
            asked.request("GET", "/metrics?on=nobody")
            text = asked.getresponse().read().decode()
        return sum(
            int(float(each)) for each in re.findall(r"^helen_check_results_total\{[^}]*\} (\S+)$", text, re.MULTILINE)
        )

    def _wait_for(self, runs: int) -> None:
        """Wait until as many results have come as there are checks, once each on average: all is leased and known."""
        before, until = self._results(), time.monotonic() + READY_SECONDS
        while self._results() - before < runs:
            if time.monotonic() > until:
                raise SystemExit(f"{self._results() - before} results of {runs} within {READY_SECONDS:g} s")
            time.sleep(1.0)


def show(found: dict[str, list[dict[str, float]]]) -> None:
    """Print medians with their range, and ratios to own checks: as measured, and without what idleness costs."""
    idle = statistics.median(each["cpu"] for each in found[IDLE])
    per = {
        kind: [
            (each["cpu"] * 1e6 / each["results"], (each["cpu"] - idle) * 1e6 / each["results"]) for each in turns
        ]
        for kind, turns in found.items() if kind != IDLE
    }  # fmt: skip
    base, net_base = (statistics.median(each[at] for each in per[OWN]) for at in (0, 1))
    print(f"| what is run | CPU us/result: median (min-max) | x {OWN} | net us | x {OWN} |\n|---|---|---|---|---|")
    for kind, turns in per.items():
        us, net = [each[0] for each in turns], statistics.median(each[1] for each in turns)
        middle = statistics.median(us)
        shown = f"{middle:.0f} ({min(us):.0f}-{max(us):.0f}) | {middle / base:.2f} | {net:.0f} | {net / net_base:.2f}"
        print(f"| {kind} | {shown} |")
    print(
        f"idle: {idle:.2f} s of CPU in a turn; {statistics.median(each['results'] for each in found[OWN]):.0f} results"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", type=int, default=2_000)
    parser.add_argument("--agents", type=int, default=20)
    parser.add_argument("--every", type=float, default=60.0, help="seconds between two runs of one check")
    parser.add_argument("--seconds", type=float, default=120.0, help="of one turn")
    parser.add_argument("--reps", type=int, default=2)
    parser.add_argument("--quorum", action="store_true", help="a third of the targets, each looked at by three")
    options = parser.parse_args()
    print(meter.machine())
    kinds = [IDLE, OWN, TARGETS, *([QUORUM] if options.quorum else [])]
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory(prefix="targets-") as folder:
        trial = Trial(Path(folder), options.agents)
        trial.start()
        try:
            turns = Turns(trial, options)
            for _ in range(options.reps):
                for kind in kinds:
                    found[kind].append(turns.measure(kind))
        finally:
            trial.stop()
    show(found)


if __name__ == "__main__":
    main()
