"""Meters CPU seconds and memory of pieces of work, for bench/lake_costs.py."""

from __future__ import annotations

import gc
import os
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from lake import cpu_between, look_at_tree


class Meter:
    """Counts CPU seconds of all processes, and of this one."""

    def __init__(self) -> None:
        self.cpu = self.own = 0.0

    @contextmanager
    def on(self) -> Iterator[None]:
        before, own = look_at_tree(), time.process_time()
        yield
        self.own = time.process_time() - own
        self.cpu = cpu_between(before, look_at_tree())


def own_cpu(work: Callable[[], object], times: int = 3) -> float:
    """Return the least CPU seconds of this process for some work, of so many times."""
    found = []
    for _ in range(times):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def held_by(make: Callable[[], object]) -> float:
    """Return the bytes that something holds in memory: Python's and Arrow's."""
    gc.collect()
    arrow = pa.total_allocated_bytes()
    tracemalloc.start()
    kept = make()
    size = tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes() - arrow
    tracemalloc.stop()
    del kept
    return float(size)


def resident() -> float:
    """Return the bytes of this process and of its JVM, without Python workers."""
    total = 0
    for pid in look_at_tree():
        status = Path(f"/proc/{pid}/status").read_text()
        name = status.partition("\n")[0].split()[1]
        if pid == os.getpid() or name == "java":
            total += int(status.partition("VmRSS:")[2].split()[0]) * 1024
    return float(total)
