"""ZeroTask beside Dramatiq and RQ: an echo task with its result fetched, tasks per second, in one interleaved run.

    python bench/zerotask.py                    durable, 64 in flight, with 1, 4 and 16 nodes; then the peers
    python bench/zerotask.py --tasks 5000 --rounds 3
    python bench/zerotask.py --cpu              CPU of all processes for one task: for machines that are busy otherwise
    python bench/zerotask.py --queued 1000000   memory and disk per queued task

Every case is measured `--rounds` times, the cases taking turns, and the median counts: on a shared machine single
figures mean little. The peers run where `redis-server` is on PATH and `--peers-python` names a Python that has
dramatiq[redis] and rq; what is missing is left out with a word. Loopback only; all processes started here end here.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WINDOW = 64  # tasks in flight
PEER_TASKS = 4_000  # of a peer in one round; they are slower
HERE = Path(__file__).resolve()
BESIDE = Path(sys.executable).parent


# ------------------------------------------------------------------------------------------------- processes


@contextmanager
def processes() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start processes; all of them end with the block."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*command: str, **options: Any) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, **options))
        return started[-1]

    try:
        yield start
    finally:
        for process in reversed(started):
            process.send_signal(signal.SIGTERM)
        for process in reversed(started):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def until(found: Callable[[], Any], what: str, within: float = 30.0) -> Any:
    deadline = time.monotonic() + within
    while not (value := found()):
        if time.monotonic() > deadline:
            raise SystemExit(f"{what} did not come up within {within:g} s")
        time.sleep(0.05)
    return value


def role(name: str, *arguments: Any) -> list[str]:
    """Return the command line of one of bench/zerotask_roles.py. -P: this folder has a file named like our package."""
    return [sys.executable, "-P", str(HERE.with_name("zerotask_roles.py")), name, *map(str, arguments)]


@contextmanager
def broker(folder: Path) -> Iterator[tuple[Callable[..., subprocess.Popen[bytes]], dict[str, Any]]]:
    state = folder / "state"
    with processes() as start, (folder / "log").open("ab") as log:
        command = [str(BESIDE / "twistd"), "-n", "--pidfile=", "zerotask", "--state", str(state)]
        ends = ["--listen", "tcp://127.0.0.1:0", "--publish", "tcp://127.0.0.1:0"]
        start(*command, *ends, cwd=folder, stdout=log, stderr=log)
        run = until(
            lambda: (state / "run.json").exists() and json.loads((state / "run.json").read_text()), "the broker"
        )
        yield start, run


# -------------------------------------------------------------------------------------------------- ZeroTask


def zerotask_rate(tasks: int, nodes: int, children: bool) -> float:
    """Tasks a second, from the first submission to the last result."""
    with tempfile.TemporaryDirectory() as name, broker(Path(name)) as (start, run):
        for number in range(nodes):
            start(*role("node-with-children" if children else "node", run["listen"], f"n{number}", WINDOW))
        command = role("client", run["listen"], run["control"], tasks, WINDOW, nodes)
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=600)
        return float(done.stdout)


def memory(count: int) -> None:
    """Measure what a queued task costs, in memory and on disk."""
    with tempfile.TemporaryDirectory() as name, broker(Path(name)) as (_, run):
        before = resident(run["pid"])
        begin = time.monotonic()
        subprocess.run(role("filler", run["listen"], count), check=True)
        took = time.monotonic() - begin
        grown = resident(run["pid"]) - before
        disk = sum(path.stat().st_size for path in Path(name, "state").iterdir() if path.is_file())
        print(f"{count:,} queued in {took:.0f} s ({count / took:,.0f} a second):")
        print(f"  resident {before / 2**20:.0f} MiB before, {grown / 2**20:.0f} MiB more with them:", end=" ")
        print(f"{grown / count:.0f} bytes a task in memory, {disk / count:.0f} bytes on disk")


def resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


# ----------------------------------------------------------------------------------------------------- peers


@contextmanager
def redis() -> Iterator[tuple[Callable[..., subprocess.Popen[bytes]], int]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as name, processes() as start:
        start("redis-server", "--port", str(port), "--save", "", "--dir", name, stdout=subprocess.DEVNULL)
        until(lambda: _answers(port), "redis-server")
        yield start, port


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def peer_rate(python: str, peer: str, tasks: int) -> float:
    """Start one worker process, as for one node of ours. Nothing is durable here: this Redis writes nothing to disk."""
    with redis() as (start, port):
        url = f"redis://127.0.0.1:{port}"
        environment = os.environ | {"BENCH_PEER": peer, "BENCH_REDIS": url, "PYTHONPATH": str(HERE.parent)}
        quiet = {"env": environment, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": HERE.parent}
        if peer == "dramatiq":
            start(python, "-m", "dramatiq", "zerotask_peers", "--processes", "1", "--threads", "4", **quiet)
        else:
            start(python, "-m", "rq.cli", "worker", "-w", "rq.SimpleWorker", "-u", url, **quiet)
        command = [python, str(HERE.with_name("zerotask_peers.py")), str(tasks), str(WINDOW)]
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, check=True, timeout=600, cwd=HERE.parent
        )
        return float(done.stdout)


def peers(python: str) -> list[str]:
    if shutil.which("redis-server") is None:
        print("no redis-server on PATH: the peers are left out")
        return []
    found = []
    for name in ("dramatiq", "rq"):
        if subprocess.run([python, "-c", f"import {name}, redis"], capture_output=True, check=False).returncode:
            print(f"{name} is not installed for {python}: left out")
        else:
            found.append(name)
    return found


# ------------------------------------------------------------------------------------------------------ runs


def cpu_of(measure: Callable[[int], float], few: int, many: int) -> float:
    """CPU of all processes for one task, in us: what a longer run takes more than a shorter one, so that starting does
    not count. It is the figure that a busy machine spoils least.
    """

    def cpu() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    begin = cpu()
    measure(few)
    between = cpu()
    measure(many)
    return 1e6 * ((cpu() - between) - (between - begin)) / (many - few)


def compare_cpu(tasks: int, python: str) -> None:
    for case, measure in cases_of(python).items():
        many = tasks if case.startswith("zerotask") else min(tasks, PEER_TASKS)
        print(f"  {cpu_of(measure, many // 4, many):8,.0f} us of CPU a task  {case}", flush=True)


def cases_of(python: str) -> dict[str, Callable[[int], float]]:
    """Return the cases to compare: each measures a number of tasks and tells the rate."""
    cases: dict[str, Callable[[int], float]] = {
        f"zerotask, {n} node(s)": (lambda tasks, n=n: zerotask_rate(tasks, n, children=False)) for n in (1, 4, 16)
    }
    cases["zerotask, 2 nodes, functions in child processes"] = lambda tasks: zerotask_rate(tasks, 2, children=True)
    for peer in peers(python):
        cases[f"{peer} + redis"] = lambda tasks, peer=peer: peer_rate(python, peer, tasks)
    return cases


def compare(tasks: int, rounds: int, python: str) -> None:
    cases = cases_of(python)
    rates: dict[str, list[float]] = {case: [] for case in cases}
    for number in range(rounds):
        for case, measure in cases.items():
            rates[case].append(measure(tasks if case.startswith("zerotask") else min(tasks, PEER_TASKS)))
            print(f"round {number + 1}: {case}: {rates[case][-1]:,.0f} tasks a second", flush=True)
    print("\nmedians")
    for case, values in rates.items():
        print(f"  {statistics.median(values):8,.0f}  {case}")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--tasks", type=int, default=6000)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--queued", type=int)
    arguments.add_argument("--cpu", action="store_true", help="CPU of all processes for one task, instead of rates")
    arguments.add_argument("--peers-python", default=sys.executable, help="a Python with dramatiq[redis] and rq")
    chosen = arguments.parse_args()
    if chosen.queued:
        memory(chosen.queued)
    elif chosen.cpu:
        compare_cpu(chosen.tasks, chosen.peers_python)
    else:
        compare(chosen.tasks, chosen.rounds, chosen.peers_python)


if __name__ == "__main__":
    main()
