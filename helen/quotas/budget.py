"""Counts what one agent may still send. Pure: the clock is an argument, in monotonic seconds.

The counts go down with each result and are filled up only when one of them is used up: a result costs two subtractions,
and nothing is made for it.
"""

from __future__ import annotations

import math

from helen.quotas.quotas import Quota, Quotas


class Bucket:
    """Holds what is `left` of a rate. Callers subtract from it, and call `fill` when it is below zero."""

    __slots__ = ("at", "left", "quota")

    def __init__(self, quota: Quota, now: float) -> None:
        self.quota, self.left, self.at = quota, quota.most, now

    def fill(self, now: float) -> None:
        """Add what the time since the last call has brought, up to the burst."""
        gained = int((now - self.at) * self.quota.a_minute / 60.0)
        if self.left + gained >= self.quota.most:
            self.left, self.at = self.quota.most, now
        elif gained > 0:
            self.left += gained
            self.at += gained * 60.0 / self.quota.a_minute  # the part of one is kept for the next call

    def wait(self, need: int) -> float:
        """Return seconds from the last `fill` until `need` is there."""
        return max(0.0, (need - self.left) * 60.0 / self.quota.a_minute)


class Budget:
    """Holds all rates of one agent, whatever connections it has.

    `closed_until`: monotonic seconds until which it was told to stay away.
    """

    __slots__ = ("bytes", "closed_until", "disk", "enrolments", "messages", "results", "sessions")

    def __init__(self, quotas: Quotas, now: float) -> None:
        self.results, self.bytes, self.disk, self.messages, self.sessions, self.enrolments = (
            Bucket(quotas[name], now) for name in ("results", "bytes", "disk", "messages", "sessions", "enrolments")
        )
        self.closed_until = 0.0

    def refill(self, now: float, size: int) -> Bucket | None:
        """Fill up after a result of `size` bytes was subtracted from `results` and `bytes`.

        Returns None if it may be taken, else the bucket that forbids it; then nothing is subtracted any more.
        """
        self.results.left += 1
        self.bytes.left += size
        self.results.fill(now)
        before = self.bytes.left
        self.bytes.fill(now)
        self._draw_from_disk(self.bytes.left - before, now)
        for bucket, need in ((self.results, 1), (self.bytes, size)):
            if bucket.left < need:
                return self.disk if bucket is self.bytes and self.disk.left <= 0 else bucket
        self.results.left -= 1
        self.bytes.left -= size
        return None

    def _draw_from_disk(self, gained: int, now: float) -> None:
        """Take from `disk` what `bytes` has gained; what `disk` does not have is not gained."""
        self.disk.fill(now)
        short = max(0, gained - max(0, self.disk.left))
        self.bytes.left -= short
        self.disk.left -= gained - short

    def take(self, bucket: Bucket, now: float) -> bool:
        """Take one from a bucket that is seldom used; False if it is used up."""
        bucket.fill(now)
        if bucket.left < 1:
            return False
        bucket.left -= 1
        return True

    def close(self, bucket: Bucket, need: int, least: int, most: int, now: float) -> int:
        """Close the budget until `bucket` has `need` again; return the seconds, at least and at most those given."""
        seconds = min(most, max(least, math.ceil(bucket.wait(need))))
        self.closed_until = now + seconds
        return seconds

    def remaining(self, now: float) -> int:
        """Return the whole seconds for which the agent shall still stay away; 0: it is welcome."""
        return max(0, math.ceil(self.closed_until - now))
