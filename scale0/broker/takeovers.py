"""Notices identities that two living peers with one key take from each other, as cloned machines do. Pure.

A new connection takes over an identity at once if it has the key of the peer that holds it: the old connection may be
half open, after a crash or a change of network. That happens now and then. Two living peers with one key take over from
each other at every heartbeat interval, and each gets half of the requests: from the third takeover within a minute on,
the new connection is refused as long as the holder lives.
"""

from __future__ import annotations

from collections import OrderedDict, deque

from scale0.broker.context import Context

MOST = 3  # takeovers within WINDOW; the last one of them is refused
WINDOW = 60.0  # seconds
IDENTITIES = 10_000  # remembered; beyond that the one that was taken longest ago is forgotten
ALARM_AGAIN = 3600.0  # seconds between two alarms about one identity


class Takeovers:
    """Holds when each identity was claimed by another connection with the same key."""

    def __init__(self, context: Context) -> None:
        self._c = context
        self._claims: OrderedDict[str, deque[float]] = OrderedDict()
        self._alarmed: OrderedDict[str, float] = OrderedDict()

    def is_contested(self, identity: str) -> bool:
        """Note one more claim, which counts even if it is refused; return True if it comes too soon."""
        claims = self._claims.setdefault(identity, deque(maxlen=MOST))
        self._claims.move_to_end(identity)
        if len(self._claims) > IDENTITIES:
            self._claims.popitem(last=False)
        claims.append(self._c.now)
        return len(claims) == MOST and self._c.now - claims[0] < WINDOW

    def alarm(self, identity: str, key: str, addresses: tuple[str, str]) -> None:
        """Raise an alarm about two living peers with this identity and key, once an hour."""
        if self._c.now - self._alarmed.get(identity, float("-inf")) < ALARM_AGAIN:
            return
        self._alarmed[identity] = self._c.now
        if len(self._alarmed) > IDENTITIES:
            self._alarmed.popitem(last=False)
        holder, newcomer = (address or "ipc" for address in addresses)
        self._c.alarm(
            f"two living peers use the identity {identity} and its key {key}: {holder} keeps it, {newcomer} is refused;"
            " is one a clone of the other? Give it an identity and a key of its own"
        )
