"""Leaves a worker of Spark light when its task ends: no memory that it doesn't need, no search through its modules.

Arrow's pool and C's heap would keep the memory of a task for the next one.

A worker of Spark lives on between tasks, and there are up to two for each core. Each kept the most that it had
needed: 750 MB of four workers that had nothing to do after a day of 144,000 results.

Spark has a worker look through all of its objects for garbage after each task: 15 ms of CPU, nearly all of it for
modules, which stay anyway. So these are taken out of the search.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from attrs import define, frozen

Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@frozen
class GivingBack:
    """Runs a task of a worker. However it ends, memory that it doesn't hold any more is given back."""

    task: Task

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from self.task(batches)
        finally:
            give_back()
            MODULES.spare()


def give_back() -> None:
    """Return to the system what is free in Arrow's pool, and in C's heap where that can be asked for (glibc)."""
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


@define
class Modules:
    """Knows how many modules of this process were taken out of the search for garbage."""

    spared: int = 0

    def spare(self) -> None:
        """Take everything that is there out of the search, if more modules have come.

        Objects go as before when nothing refers to them. Circles would stay, so garbage is collected before. That is
        done as often as modules come, so what stays is bounded.
        """
        if len(sys.modules) > self.spared:
            self.spared = len(sys.modules)
            gc.collect()
            gc.freeze()


MODULES = Modules()
