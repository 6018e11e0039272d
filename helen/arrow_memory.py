"""Chooses how Arrow gets its memory in Helen's process, where one thread makes it and another gives it back."""

from __future__ import annotations

import pyarrow as pa

# Not `mimalloc`, which Arrow takes by itself: it gives a sealed segment's memory back, and its next column then waits
# 5 ms for a page of 2 MiB, in the reactor. Measured by bench/abuse.py; the others showed no such wait.
POOLS = ("jemalloc", "system")


def choose() -> None:
    """Take the first pool of POOLS that this build of Arrow has; all builds have the last."""
    name = next(name for name in POOLS if name in pa.supported_memory_backends())
    pa.set_memory_pool(pa.jemalloc_memory_pool() if name == "jemalloc" else pa.system_memory_pool())
