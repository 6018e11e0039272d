"""How often somebody may: so many at once, and so many a minute. Pure; `now` is monotonic."""

from __future__ import annotations

from collections import OrderedDict

MAX_KEYS = 10_000  # who is remembered: those seen last; an older one begins anew


class Quota:
    """A bucket of `burst` for each key, which fills up again at `a_minute`."""

    def __init__(self, a_minute: float, burst: int) -> None:
        self._rate = a_minute / 60.0
        self._burst = float(burst)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # key -> what is left, and when

    def take(self, key: str, now: float) -> float:
        """0: it may. Else the seconds until it may again; then nothing is taken."""
        left, at = self._buckets.pop(key, (self._burst, now))
        left = min(self._burst, left + max(0.0, now - at) * self._rate)
        wait = 0.0 if left >= 1.0 else (1.0 - left) / self._rate
        self._buckets[key] = (left if wait else left - 1.0, now)
        if len(self._buckets) > MAX_KEYS:
            self._buckets.popitem(last=False)
        return wait
