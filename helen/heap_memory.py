"""Has C's heap keep the memory of great results, which come and go while agents flood.

By default the heap gives a mebibyte back to the kernel as soon as it is free at the end of the heap, and asks for it
again with the next result. Each of its 256 pages then stops the thread that writes there first: up to 5 ms of the
reactor for one result of a mebibyte. So 64 MiB stay, which is what a full journal holds. Threads have
heaps of their own, and each may keep as much: of eight threads that had 58 MB each, all stayed when they had ended.
"""

from __future__ import annotations

import ctypes

KEPT_BYTES = 67_108_864  # that are free at the end of a heap, before some are given back
MAPPED_BYTES = 8_388_608  # of one piece, from which on it is got from the kernel, and given back, by itself
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc's malloc.h


def keep() -> bool:
    """Tell C's heap; return False where it takes no such word, as with another C library than glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_TRIM_THRESHOLD, KEPT_BYTES) and mallopt(_MMAP_THRESHOLD, MAPPED_BYTES))
