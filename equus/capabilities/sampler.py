"""Rates from counters: readings kept between runs and shared by all checks of one agent.

It keeps no thread of its own. Each call adds a reading and compares it with the newest kept one that is old enough,
so a check that runs each minute gets the mean of that minute at no cost; only the first call has to wait.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

Reading = TypeVar("Reading")

# Windows up to 10 minutes, one kept reading each 5 s: 120, and a few for good measure.
KEPT_READINGS = 128
SPACING_SECONDS = 5.0
LONGEST_WAIT_SECONDS = 5.0
# Counters of /proc advance by hundredths of a second: a shorter window is noise.
SHORTEST_WINDOW_SECONDS = 0.05
# Keys are call names (with the root in tests); the bound only guards against a future slip.
MOST_KEYS = 64


class Sampler:
    """Readings by key; `over` answers the window in seconds, the older reading and the newer one."""

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
        """Compare with a reading at least `seconds` old; waits for one, at most `patience` and LONGEST_WAIT_SECONDS."""
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
