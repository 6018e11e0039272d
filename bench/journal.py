"""Measures what one result costs in Helen's journal, and what it leaves on disk.

    python bench/journal.py [--results 60000] [--metrics 2]

One process, the real threads, a folder on the disk under --folder (fsync included); this thread is the reactor's.
Prints the CPU time per result from `append` to the closed segment (user + system of all threads), results per second to
durable, the time from `append` to the ack at a steady rate, and the bytes per result of the segments beside JSON lines
of the same rows, plain and zstd. `json.loads` of the same blobs is timed in the same run, as a measure of the machine.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import resource
import shutil
import statistics
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from helen.journal.journal import Journal
from helen.journal.limits import Limits
from helen.journal.values import Batch, Entry, Origin

AGENTS = 1000
CHECKS = ("cpu", "memory", "disk", "load", "http")


def make_entries(count: int, metrics: int) -> list[Entry]:
    """`count` results of 1,000 agents, five checks each, in the order of time."""
    rng = random.Random(7)
    codes = {check: f"{rng.getrandbits(256):064x}" for check in CHECKS}
    now = time.time()
    entries = []
    for index in range(count):
        agent, check = index % AGENTS, CHECKS[index // AGENTS % len(CHECKS)]
        document = {
            "status": rng.choices(("ok", "warning", "critical"), (97, 2, 1))[0],
            "summary": f"{check} at {rng.randrange(100)} %",
            "metrics": [
                {"name": f"{check}.{number}", "value": round(rng.gauss(50, 10), 3), "unit": "%", "kind": "gauge"}
                for number in range(metrics)
            ],
            "started": round(now + index / AGENTS, 6),
            "took_ms": round(rng.expovariate(0.2), 3),
            "cpu_ms": round(rng.expovariate(1), 3),
            "check": check,
            "code": codes[check],
        }
        entries.append(
            Entry(
                f"agent-{agent:04}", check, check, f"spool-{agent:04}", index // AGENTS + 1, Origin.SCHEDULED,
                now + index / AGENTS, json.dumps(document, separators=(",", ":")).encode(),
            )
        )  # fmt: skip
    return entries


class Listener:
    """Counts what comes back; `all_durable` and `all_parsed` are set when everything has."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.records = 0
        self.acked: dict[tuple[str, str], tuple[int, float]] = {}
        self.ack_times: list[tuple[str, int, float]] = []
        self.done = threading.Event()

    def __call__(self, batch: Batch) -> None:
        now = time.perf_counter()
        self.ack_times += [(ack.agent, ack.sequence, now) for ack in batch.acks]
        self.records += len(batch.records)
        if self.records >= self.expected:
            self.done.set()


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Calls:
    """Keeps what the journal's threads ask for until this thread has a turn, as a reactor does."""

    def __init__(self) -> None:
        self._calls: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()

    def ask(self, call: Callable[..., object], *given: object) -> None:
        self._calls.append((call, given))

    def turn(self) -> None:
        while self._calls:
            call, given = self._calls.popleft()
            call(*given)

    def until(self, happened: Callable[[], bool]) -> None:
        while not happened():
            self.turn()
            time.sleep(0.0005)


calls = Calls()


def open_journal(folder: Path, listener: Listener) -> Journal:
    journal = Journal(
        folder / "journal", folder / "history", calls.ask, listener,
        lambda trouble: print("trouble:", trouble.sentence), limits=Limits(backlog_most=2**40),
    )  # fmt: skip
    journal.open()
    return journal


def wait_for_segment(journal: Journal, number: int) -> None:
    calls.until(lambda: journal.segment >= number)


def throughput(folder: Path, entries: list[Entry]) -> None:
    segment = Limits().results_per_segment
    listener = Listener(segment)
    journal = open_journal(folder, listener)
    for entry in entries[:segment]:  # memory that a server has asked for long ago
        journal.append(entry)
    wait_for_segment(journal, 1)
    entries = entries[segment:]
    listener.expected += len(entries)
    listener.done.clear()
    cpu, start = cpu_seconds(), time.perf_counter()
    for number, entry in enumerate(entries):
        journal.append(entry)
        if number % 50 == 0:
            calls.turn()
    calls.until(listener.done.is_set)
    durable = time.perf_counter() - start
    wait_for_segment(journal, listener.expected // segment)
    cpu = cpu_seconds() - cpu
    journal.close()
    count = len(entries)
    print(f"CPU per result, append to segment   {cpu / count * 1e6:6.1f} us   ({1 / (cpu / count):,.0f} results/CPU-s)")
    print(f"durable, parsed and handed back     {count / durable:8,.0f} results/s")


def latency(folder: Path, entries: list[Entry], rate: int, seconds: float) -> None:
    listener = Listener(int(rate * seconds))
    journal = open_journal(folder, listener)
    sent: dict[tuple[str, int], float] = {}
    cpu, start = cpu_seconds(), time.perf_counter()
    burst = max(1, rate // 200)
    for first in range(0, listener.expected, burst):
        pause = start + first / rate - time.perf_counter()
        while pause > 0:
            calls.turn()
            time.sleep(min(pause, 0.0005))
            pause = start + first / rate - time.perf_counter()
        for entry in entries[first : first + burst]:
            sent[entry.agent, entry.sequence] = time.perf_counter()
            journal.append(entry)
    calls.until(listener.done.is_set)
    cpu = cpu_seconds() - cpu
    waits = sorted(at - sent[agent, sequence] for agent, sequence, at in listener.ack_times)
    journal.close()
    print(
        f"append to ack at {rate:,}/s             p50 {statistics.median(waits) * 1e3:.1f} ms,"
        f" p99 {waits[int(len(waits) * 0.99)] * 1e3:.1f} ms   ({cpu / seconds * 100:.0f} % of a core)"
    )


def sizes(folder: Path, entries: list[Entry]) -> None:
    paths = sorted((folder / "history" / "segments").glob("seg-*.parquet"))
    rows = sum(pq.read_metadata(path).num_rows for path in paths)
    size = sum(path.stat().st_size for path in paths)
    table = pa.concat_tables(pq.read_table(path) for path in paths)
    lines = b"".join(
        json.dumps({**row, "raw": row["raw"].decode()}, default=str, separators=(",", ":")).encode() + b"\n"
        for row in table.to_pylist()
    )
    squeezed = pa.compress(lines, codec="zstd", asbytes=True)
    columns = table.drop_columns(["raw"])
    sink = pa.BufferOutputStream()
    pq.write_table(columns, sink, compression="zstd", compression_level=1)
    blob = sum(len(entry.blob) for entry in entries) / len(entries)
    print(f"bytes per result: segment {size / rows:.1f} (without the raw blob about {sink.tell() / rows:.1f}),")
    print(f"  JSON lines {len(lines) / rows:.1f}, with zstd {len(squeezed) / rows:.1f}, the blob alone {blob:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=int, default=100_000)
    parser.add_argument("--metrics", type=int, default=2)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    entries = make_entries(options.results, options.metrics)
    gc.collect()
    gc.freeze()  # a server doesn't keep its input; the collector shouldn't visit ours
    cpu = cpu_seconds()
    for entry in entries:
        json.loads(entry.blob)
    print(f"json.loads of the blob              {(cpu_seconds() - cpu) / len(entries) * 1e6:6.1f} us")
    folder = Path(tempfile.mkdtemp(prefix="journal-bench-", dir=options.folder))
    try:
        throughput(folder / "throughput", entries)
        latency(folder / "latency", entries, options.rate, options.seconds)
        sizes(folder / "throughput", entries)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
