"""Make rates from counters, with readings that are kept between runs and shared by all checks of one agent.

It has no thread of its own. Each call adds a reading and compares it with the newest kept one that is old enough, so
that a check that runs each minute gets the mean of that minute without waiting; only the first call waits.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

Reading = TypeVar("Reading")

# Readings for windows up to 10 minutes, one each 5 s: 120, and a few more.
KEPT_READINGS = 128
SPACING_SECONDS = 5.0
LONGEST_WAIT_SECONDS = 5.0
# Counters of /proc advance by hundredths of a second: a shorter window is noise.
SHORTEST_WINDOW_SECONDS = 0.05
# Keys are call names (with the root in tests), so that there are a handful; the bound is for future mistakes.
MOST_KEYS = 64


class Sampler:
    """Keeps readings by key for `over`."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._kept: dict[str, deque[tuple[float, Any]]] = {}

    def over(
        self, key: str, read: Callable[[], Reading], seconds: float, patience: float
    ) -> tuple[float, Reading, Reading]:
        """Return the window in seconds, a reading at least `seconds` seconds old, and a new reading.

        If there is none that old, wait for it, at most `patience` seconds and LONGEST_WAIT_SECONDS.
        """
        now, reading = self._clock(), read()
        before = self._old_enough(key, now, seconds)
        if before is None:
            self._keep(key, now, reading)
            before = self._oldest(key)
            wait = min(seconds - (now - before[0]), patience, LONGEST_WAIT_SECONDS)
            self._sleep(max(wait, SHORTEST_WINDOW_SECONDS))
            now, reading = self._clock(), read()
        self._keep(key, now, reading)
        return max(now - before[0], SHORTEST_WINDOW_SECONDS), before[1], reading

    def _old_enough(self, key: str, now: float, seconds: float) -> tuple[float, Any] | None:
        with self._lock:
            old_enough = (kept for kept in reversed(self._kept.get(key, ())) if now - kept[0] >= seconds)
            return next(old_enough, None)

    def _oldest(self, key: str) -> tuple[float, Any]:
        with self._lock:
            return self._kept[key][0]

    def _keep(self, key: str, now: float, reading: Any) -> None:
        with self._lock:
            if key not in self._kept and len(self._kept) >= MOST_KEYS:
                self._kept.pop(next(iter(self._kept)))
            ring = self._kept.setdefault(key, deque(maxlen=KEPT_READINGS))
            if not ring or now - ring[-1][0] >= SPACING_SECONDS:
                ring.append((now, reading))


SHARED_SAMPLER = Sampler()
