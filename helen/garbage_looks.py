"""Has the garbage collector look at new objects often, so that each look holds the reactor for some milliseconds only.

Python begins a look when more objects have come than gone, and counts the end of an old object as well as that of a new
one. Where new states, rules and schedules replace old ones the two are equal: no look begins, and all that has come
since the last one waits for the next. With 10,000 targets such a look took 125 ms, of whatever ran at that moment. So
whoever makes many objects in turns asks for a look by the number of objects that are there.

They are counted in one step of the interpreter. A list of them in Python's hands would let another thread run, and
that one may be making a tuple from a generator: to a tuple that somebody else holds, Python adds nothing and raises
SystemError. In the journal's writer that was the end of Helen.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

LOOK_SECONDS = 0.005  # of time and of CPU between two counts: what is made meanwhile takes no longer to look at
YOUNG = 500  # new objects, from which on a look is worth its call
MIDDLE = 1_200  # objects, the new ones among them, from which on those are looked at, too, that one look has left


class GarbageLooks:
    """Looks at new objects as they come. `collector` is Python's module `gc`.

    `steady` returns monotonic seconds, and `used` the CPU seconds of all threads. New objects take CPU to make, so a
    Helen that sleeps between two results looks seldom. Both are asked, since `used` costs a system call.
    """

    def __init__(
        self,
        steady: Callable[[], float] = time.monotonic,
        collector: Any = gc,
        used: Callable[[], float] = time.process_time,
    ) -> None:
        self._steady, self._collector, self._used = steady, collector, used
        self._next = self._next_used = 0.0

    def look(self) -> None:
        """Look at what is new, unless that is little, or has just been done. Objects that two looks leave are old."""
        now = self._steady()
        if now < self._next or not self._collector.isenabled():
            return
        self._next = now + LOOK_SECONDS
        used = self._used()
        if used < self._next_used:
            return
        self._next_used = used + LOOK_SECONDS
        young = self._count(0)
        if young >= YOUNG:
            self._collector.collect(1 if young + self._count(1) >= MIDDLE else 0)

    def _count(self, generation: int) -> int:
        """Count the objects of a generation while no other thread runs: `map` calls both without the interpreter."""
        return next(map(len, map(self._collector.get_objects, (generation,))))


_looks = GarbageLooks()  # of this process, which has one collector
look = _looks.look
