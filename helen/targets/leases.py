"""Chooses the agents that look at a target: a lease is Helen's word alone, and no agent can claim it. Pure.

Every Helen chooses the same of the agents that may, also after a restart: those with the greatest hash of both names,
one or as many as the quorum says. Each keeps a lease through a short loss of its connection, and one that has just come
waits before it takes a lease over. All times are monotonic seconds, so a step of the clock moves no lease.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from attrs import define, field

from helen.targets.target_fields import ONE, Quorum

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


def choose(
    target: str, held: Sequence[str], agents: Iterable[str], presence: Presence, now: float, quorum: Quorum = ONE
) -> tuple[str, ...]:
    """Return the agents that look at a target from now on, by name; `held`: those that did.

    `agents` may look at it. Where fewer of them are usable than have to agree, some of the last ones have their leases
    still: nobody runs those, and the target's alerts are held back by the links of these agents.
    """
    usable = {name: (rank(target, name), name) for name in agents if presence.is_usable(name)}
    seats = [name for name in held if name in usable]
    best = sorted(usable, key=usable.__getitem__, reverse=True)
    fresh = [name for name in best if name not in seats and name in presence.up]  # one that is lost may be back soon
    seats += fresh[: max(0, quorum.runners - len(seats))]
    for name in fresh:
        settled = now - presence.up[name] >= SETTLE_SECONDS
        if name not in seats and name in best[: quorum.runners] and settled:
            seats[seats.index(min(seats, key=usable.__getitem__))] = name
    seats = sorted(seats, key=usable.__getitem__, reverse=True)[: quorum.runners]
    away = [name for name in held if name not in usable]
    return tuple(sorted(seats + away[: max(0, quorum.needed - len(seats))]))
