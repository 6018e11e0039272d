"""Counts failures of connected peers and bans those that keep failing, the `error_clients`. Pure.

Failures are counted under the peer's key, or its address where there is none. Five within a minute ban a name: its
frames are read and dropped, and its connections are refused; but the ban of an address lets management requests from
this machine pass (broker.py). A ban lasts 5 minutes the first time, doubled each time, an hour at most; a name without
failures for a day starts afresh.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable

import attrs

FAILURES = 5
WINDOW = 60.0  # seconds
FIRST_BAN, LONGEST_BAN = 300.0, 3600.0
FORGIVEN_AFTER = 86_400.0  # seconds without failure after which a name's earlier bans no longer count
NAMES = 10_000  # remembered at once; beyond that the one that failed longest ago is forgotten


@attrs.define
class Record:
    """Holds the failures and bans of one name."""

    times: deque[float] = attrs.field(factory=lambda: deque(maxlen=FAILURES))
    banned_until: float = 0.0
    bans: int = 0
    last_reason: str = ""
    dropped: int = 0  # frames read and dropped while banned


class Failures:
    """Holds the failures of all names; times are monotonic seconds."""

    def __init__(self) -> None:
        self._records: OrderedDict[str, Record] = OrderedDict()
        self._always: frozenset[str] = frozenset()

    def always(self, names: Iterable[str]) -> None:
        """Ban these names for good: the configuration lists them under error_clients."""
        self._always = frozenset(names)

    def banned(self, name: str, now: float) -> bool:
        """Return True if the name is banned at `now`, monotonic seconds."""
        if name in self._always:
            return True
        record = self._records.get(name)
        return record is not None and now < record.banned_until

    def dropped(self, name: str) -> None:
        """Count a message that was dropped because of a ban."""
        if name in self._records:
            self._records[name].dropped += 1

    def add(self, name: str, reason: str, now: float) -> bool:
        """Count a failure at `now`, monotonic seconds; return True if this one bans the name."""
        record = self._records.get(name)
        if record is None:
            record = self._records[name] = Record()
            if len(self._records) > NAMES:
                self._records.popitem(last=False)
        self._records.move_to_end(name)
        if record.times and now - record.times[-1] > FORGIVEN_AFTER:
            record.bans = 0
        record.times.append(now)
        record.last_reason = reason
        if len(record.times) < FAILURES or now - record.times[0] > WINDOW:
            return False
        record.banned_until = now + min(FIRST_BAN * 2**record.bans, LONGEST_BAN)
        record.bans += 1
        record.times.clear()
        record.times.append(now)  # for FORGIVEN_AFTER; one failure is no fifth
        return True

    def clear(self, name: str = "") -> int:
        """Forget the failures and bans of one name, or of all; return how many names had any."""
        names = [name] if name else list(self._records)
        return sum(self._records.pop(n, None) is not None for n in names)

    def show(self, now: float) -> dict[str, dict[str, object]]:
        """Return error_clients for management: names with failures in the last minute, and banned ones.

        Each name maps to `failures`, `reason`, `banned`, `seconds_left` and `dropped`, or, for names of the
        configuration, to `banned` and `by`. `now` is monotonic seconds.
        """
        shown: dict[str, dict[str, object]] = {name: {"banned": True, "by": "configuration"} for name in self._always}
        for name, record in self._records.items():
            recent = sum(now - time <= WINDOW for time in record.times)
            left = max(0.0, record.banned_until - now)
            if recent or left:
                shown[name] = {
                    "failures": recent,
                    "reason": record.last_reason,
                    "banned": left > 0,
                    "seconds_left": round(left, 1),
                    "dropped": record.dropped,
                }
        return shown
