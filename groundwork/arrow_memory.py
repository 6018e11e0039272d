"""Chooses where a process gets memory: Arrow, its readers in C++ included, from C's heap, and that in few parts.

Arrow takes the pool ``mimalloc`` by itself. That one keeps freed pages with the thread that freed them, so a process
whose threads come and go grows. It gives large pieces back to the system: in Helen the next column of a segment then
waited 5 ms for a page of 2 MiB, in the reactor (bench/abuse.py). This module loads no Arrow.
"""

from __future__ import annotations

import ctypes
from collections.abc import MutableMapping

POOL, ARENAS = "ARROW_DEFAULT_MEMORY_POOL", "MALLOC_ARENA_MAX"
MOST_ARENAS = 2  # parts of C's heap: by default there are eight for each core, and each keeps what was freed in it
_ARENA_MAX = -8  # M_ARENA_MAX of glibc's malloc.h


def choose_pool(environment: MutableMapping[str, str]) -> None:
    """Set the pool of Arrow for this process and those that it starts, unless one is set already.

    Call it before Arrow is loaded, which looks once. A pool that is set later reaches no reader in C++.
    """
    environment.setdefault(POOL, "system")  # the one that each build has


def choose_arenas(environment: MutableMapping[str, str]) -> None:
    """Set the parts of C's heap for this process and those that it starts, unless their number is set already.

    The heap has been there since the start, so it is told as well.
    """
    if ARENAS not in environment:
        environment[ARENAS] = str(MOST_ARENAS)
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_ARENA_MAX, MOST_ARENAS)
