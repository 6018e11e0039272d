"""Tells how long an agent of a benchmark and Helen's reactor have waited for a processor while they could have run.

Where both share the processors of one machine with others, these waits are no fault of Helen. The kernel counts a wait
when it ends: one that began before the first of two looks counts whole between them, so that a difference may be too
great. Time in which a thread waits for the interpreter is none of it, nor what a hypervisor takes away.
"""

from __future__ import annotations

import threading
from pathlib import Path

from helen.processor_wait import parse


class ProcessorWaits:
    """Reads the waits of the thread that makes it, and of the main thread of a process."""

    def __init__(self, process: int) -> None:
        tasks = Path("/proc/self/task", str(threading.get_native_id())), Path(f"/proc/{process}/task/{process}")
        self._paths = [task / "schedstat" for task in tasks]

    def seconds(self) -> float:
        """Seconds that both have waited so far; 0 where the kernel does not count them."""
        found = [parse(path.read_bytes()) for path in self._paths]
        return sum(times.waited for times in found if times is not None)
