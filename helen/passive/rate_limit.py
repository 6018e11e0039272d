"""Limits how often each key may do something: so many times at once, and so many a minute. Pure."""

from __future__ import annotations

from collections import OrderedDict

MAX_KEYS = 10_000  # that are remembered, those seen last; an older one begins anew


class RateLimit:
    """Limits the requests of each key by a bucket of `burst`, which fills up again at `a_minute`."""

    def __init__(self, a_minute: float, burst: int) -> None:
        self._rate = a_minute / 60.0
        self._burst = float(burst)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # key -> what is left, and when

    def take(self, key: str, now: float) -> float:
        """Take one from the bucket of `key`, and return 0. If it is empty, return the seconds until there is one.

        `now`: monotonic seconds.
        """
        left, at = self._buckets.pop(key, (self._burst, now))
        left = min(self._burst, left + max(0.0, now - at) * self._rate)
        wait = 0.0 if left >= 1.0 else (1.0 - left) / self._rate
        self._buckets[key] = (left if wait else left - 1.0, now)
        if len(self._buckets) > MAX_KEYS:
            self._buckets.popitem(last=False)
        return wait
