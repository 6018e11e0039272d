"""Reads how long one thread has run, and how long it has waited for a processor while it could have run.

Linux counts both in /proc/self/task/TID/schedstat. A thread that waits for Python's interpreter, for a disk or for a
socket sleeps, and is in neither figure. Time that a hypervisor takes away from this machine counts as run time: the
kernel does not see it here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from attrs import frozen

NANOSECONDS = 1_000_000_000
MOST_BYTES = 128  # three numbers of 20 digits


@frozen
class ThreadTimes:
    """Holds the seconds that a thread has run, and those that it has waited for a processor, since it began."""

    ran: float
    waited: float


def parse(contents: bytes) -> ThreadTimes | None:
    """Return the times of a schedstat file: nanoseconds run, nanoseconds waited, and how often it ran.

    None if they can't be known: the contents are not three such numbers, or the kernel counts nothing. Then all three
    are 0, also for the thread that reads them and so has run.
    """
    words = contents.split()
    if len(words) != 3 or not all(word.isdigit() for word in words):
        return None
    ran, waited, turns = map(int, words)
    return ThreadTimes(ran / NANOSECONDS, waited / NANOSECONDS) if turns else None


class ProcessorWait:
    """Reads the times of the thread that makes it, as often as it is called. A call takes 2 us.

    A failure to read is final: a figure that comes and goes could not be added up.
    """

    def __init__(self, path: str = "", read: Callable[[int, int, int], bytes] = os.pread) -> None:
        self._read = read
        try:
            place = path or f"/proc/self/task/{threading.get_native_id()}/schedstat"
            self._file: int | None = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = None

    def times(self) -> ThreadTimes | None:
        """Return the times until now, or None where the kernel does not tell them."""
        if self._file is None:
            return None
        try:
            found = parse(self._read(self._file, MOST_BYTES, 0))
        except OSError:
            found = None
        if found is None:
            self.close()
        return found

    def close(self) -> None:
        """Close the file, once."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)
