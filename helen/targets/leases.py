"""Chooses the one agent that looks at a target: the lease is Helen's word alone, and no agent can claim it. Pure.

Of the agents that may, the same one is chosen by every Helen and after every restart: that with the greatest hash of
both names. It keeps a lease through a short loss of its connection, and one that has just come waits before it takes a
lease over. All times are monotonic seconds, so a step of the clock moves no lease.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from attrs import define, field

HOLD_SECONDS = 10.0  # that an agent which lost its connection keeps its leases: a reconnect takes one or two
START_SECONDS = 30.0  # the same for agents that are not back yet after a start of Helen
SETTLE_SECONDS = 60.0  # that an agent is connected before it takes over the lease of one that is well


@define
class Presence:
    """Knows which agents are connected, and since when the others are not."""

    up: dict[str, float] = field(factory=dict)
    lost: dict[str, float] = field(factory=dict)  # until when an agent that is not connected keeps its leases

    def came(self, name: str, now: float) -> None:
        """Take note of an agent that has connected."""
        self.lost.pop(name, None)
        self.up[name] = now

    def went(self, name: str, now: float, hold: float = HOLD_SECONDS) -> None:
        """Take note of an agent whose connection has ended; it keeps its leases for `hold` seconds."""
        self.up.pop(name, None)
        self.lost[name] = now + hold

    def is_usable(self, name: str) -> bool:
        """Return True if an agent is connected or keeps its leases: it may be chosen."""
        return name in self.up or name in self.lost

    def expire(self, now: float) -> list[str]:
        """Forget agents that were away for longer than they keep a lease; return their names."""
        over = [name for name, until in self.lost.items() if until <= now]
        for name in over:
            del self.lost[name]
        return over


def rank(target: str, agent: str) -> bytes:
    """Return what decides between agents; leases are spread evenly by it."""
    return hashlib.blake2b(f"{target}\0{agent}".encode(), digest_size=8).digest()


def choose(target: str, held: str | None, agents: Iterable[str], presence: Presence, now: float) -> str | None:
    """Return the agent that looks at a target from now on; `held`: the one that did, None for none.

    `agents` may look at it. Without one that is connected or keeps its leases the last one has it still: nobody runs
    it, and its alerts are held back by the link of that agent.
    """
    usable = [name for name in agents if presence.is_usable(name)]
    if not usable:
        return held
    best = max(usable, key=lambda name: (rank(target, name), name))
    if best == held:
        return held
    is_held_well = held in usable
    if best not in presence.up:  # it is lost, and may be back in a moment
        return held if is_held_well else _best_connected(target, usable, presence)
    if is_held_well and now - presence.up[best] < SETTLE_SECONDS:
        return held
    return best


def _best_connected(target: str, usable: Iterable[str], presence: Presence) -> str | None:
    """Return the best of those that are connected; None, to wait for those that are lost, if there is none."""
    connected = [name for name in usable if name in presence.up]
    return max(connected, key=lambda name: (rank(target, name), name), default=None)
