"""Name notifications, so that one that comes again soon has the name of the first. Pure but for the clocks."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable

from attrs import define, field

SAME_SECONDS = 180.0  # longer than an old message of version 3 is taken (security.WINDOW), and than devices ask again
MOST_KNOWN = 10_000  # notifications that are remembered: some 3 MB


@define
class Repeats:
    """Remembers what came. `steady`: monotonic seconds; `wall`: unix seconds, by which a later start gives other names.

    A device that starts twice sends the same bytes twice (a coldStart of version 1, whose time is zero): only those
    within SAME_SECONDS of the first are a repetition.
    """

    steady: Callable[[], float]
    wall: Callable[[], float] = time.time
    _known: OrderedDict[bytes, tuple[float, str]] = field(factory=OrderedDict, repr=False)  # digest -> when, and name

    def name(self, address: str, pdu: bytes) -> str:
        """Return the name of a notification: one of its bytes, its sender and the time when it came first."""
        now = self.steady()
        self._forget(now)
        digest = hashlib.sha256(address.encode() + b"\0" + pdu).digest()
        known = self._known.get(digest)
        if known is None:
            name = hashlib.sha256(digest + repr(self.wall()).encode()).hexdigest()[:40]
            known = self._known[digest] = now, name
        return known[1]

    def _forget(self, now: float) -> None:
        """Drop those that came too long ago, which stand first, and the first if there are too many."""
        while self._known:
            digest, (came, _) = next(iter(self._known.items()))
            if now - came < SAME_SECONDS and len(self._known) < MOST_KNOWN:
                return
            del self._known[digest]
