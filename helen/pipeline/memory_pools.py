"""Chooses where the process of a run gets its memory: from C's heap, with few parts. It loads no Arrow.

Arrow takes the pool ``mimalloc`` by itself, which keeps freed pages with the thread that freed them. The driver's
threads come and go, so its memory grew with each day that it took in.
"""

from __future__ import annotations

import ctypes
from collections.abc import MutableMapping

POOL, ARENAS = "ARROW_DEFAULT_MEMORY_POOL", "MALLOC_ARENA_MAX"
MOST_ARENAS = 2  # parts of C's heap: by default there are eight for each core, and each keeps what was freed in it
_ARENA_MAX = -8  # M_ARENA_MAX of glibc's malloc.h


def choose(environment: MutableMapping[str, str]) -> None:
    """Set both variables of the environment for this process and those that it starts, unless they are set already.

    Call it before Arrow is loaded, which looks once. C's heap has been there since the start, so it is told as well.
    """
    environment.setdefault(POOL, "system")
    if ARENAS not in environment:
        environment[ARENAS] = str(MOST_ARENAS)
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_ARENA_MAX, MOST_ARENAS)
