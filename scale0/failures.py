"""error_clients: peers that keep failing are ignored for a while. Pure.

Counted under the peer's key, or its address where there is none. Five failures within a minute put a name on the list:
its frames are read and dropped, and the gatekeeper refuses its connections. 5 minutes the first time, doubled each
time, an hour at most; a name that keeps quiet for a day starts afresh.
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
    """What is held against one name."""

    times: deque[float] = attrs.field(factory=lambda: deque(maxlen=FAILURES))
    banned_until: float = 0.0
    bans: int = 0
    last_reason: str = ""
    dropped: int = 0  # frames read and dropped while banned


class Failures:
    def __init__(self) -> None:
        self._records: OrderedDict[str, Record] = OrderedDict()
        self._always: frozenset[str] = frozenset()

    def always(self, names: Iterable[str]) -> None:
        """Names that the configuration lists under error_clients."""
        self._always = frozenset(names)

    def banned(self, name: str, now: float) -> bool:
        if name in self._always:
            return True
        record = self._records.get(name)
        return record is not None and now < record.banned_until

    def dropped(self, name: str) -> None:
        if name in self._records:
            self._records[name].dropped += 1

    def add(self, name: str, reason: str, now: float) -> bool:
        """Count a failure; True if this one puts the name on the list."""
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
        """Forgive one name, or all; how many were listed."""
        names = [name] if name else list(self._records)
        return sum(self._records.pop(n, None) is not None for n in names)

    def show(self, now: float) -> dict[str, dict[str, object]]:
        """error_clients as management tells it: those with failures in the last minute, and those that are banned."""
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
