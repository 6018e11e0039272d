"""End Helen's process with its own exit status, and within the time that SIGTERM leaves, whatever hangs."""

from __future__ import annotations

import atexit
import os
import sys
import threading

STOP_SECONDS = 4.5  # after which Helen leaves whatever hangs: SIGTERM ends it within 5 s


class ExitInTime:
    """Keeps the exit status: the first one that is not 0 counts. `left` is set at the very end, or by a test."""

    def __init__(self) -> None:
        self.status = 0
        self.left = threading.Event()
        atexit.register(self._leave)  # of all that are registered from here on it runs last

    def begin(self) -> None:
        """Count the time from now on, in a thread: a disk that hangs may hold the reactor for ever."""
        threading.Thread(target=self.leave_in_time, name="helen.end", daemon=True).start()

    def leave_in_time(self) -> None:
        """Wait for the end, and leave without it if it takes longer than STOP_SECONDS."""
        if self.left.wait(STOP_SECONDS):
            return
        print(f"helen: not everything could be written within {STOP_SECONDS:g} s; leaving", file=sys.stderr, flush=True)
        os._exit(self.status or 1)

    def _leave(self) -> None:
        """Exit with our status at the very end, when twistd has put its own things away: it knows no status of ours."""
        self.left.set()
        if self.status:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self.status)
