"""Chooses where a process gets memory: the pool of Arrow, for its readers in C++, too, and the parts of C's heap.

Arrow takes the pool ``mimalloc`` by itself. That one keeps freed pages with the thread that freed them, so a process
whose threads come and go grows: the pipeline has C's heap instead. In Helen it gives the memory of a sealed segment
back, and the next column waits 5 ms for a page of 2 MiB, in the reactor. C's heap gives back pieces of more than 8 MiB,
too, so Helen has ``jemalloc``, which keeps them for some seconds (bench/abuse.py). This module loads no Arrow.
"""

from __future__ import annotations

import ctypes
from collections.abc import MutableMapping

POOL, ARENAS = "ARROW_DEFAULT_MEMORY_POOL", "MALLOC_ARENA_MAX"
HEAP, KEEPING = "system", "jemalloc"  # each build of Arrow has the first one; where the second lacks, Arrow says so
MOST_ARENAS = 2  # parts of C's heap: by default there are eight for each core, and each keeps what was freed in it
_ARENA_MAX = -8  # M_ARENA_MAX of glibc's malloc.h


def choose_pool(environment: MutableMapping[str, str], pool: str = HEAP) -> None:
    """Set the pool of Arrow for this process and those that it starts, unless one is set already.

    Call it before Arrow is loaded, which looks once. A pool that is set later reaches no reader in C++.
    """
    environment.setdefault(POOL, pool)


def choose_arenas(environment: MutableMapping[str, str]) -> None:
    """Set the parts of C's heap for this process and those that it starts, unless their number is set already.

    The heap has been there since the start, so it is told as well.
    """
    if ARENAS not in environment:
        environment[ARENAS] = str(MOST_ARENAS)
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_ARENA_MAX, MOST_ARENAS)
