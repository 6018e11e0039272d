"""Holds what a broker knows of one connection that has introduced itself. Pure."""

from __future__ import annotations

import attrs

from scale0.broker.requests.worker_pool import Address, Worker
from scale0.wire.frames import PLAIN, Dialect
from scale0.wire.zap import Origin


@attrs.define(eq=False)
class Session:
    """Describes one session; times are monotonic seconds."""

    address: Address
    origin: Origin
    dialect: Dialect
    role: str
    identity: str
    interval: float
    last_received: float
    worker: Worker | None = None  # of backends and peers
    ready: bool = False
    version: int = 0
    stale_since: float | None = None
    refusals: int = 0
    behind: int = 0  # heartbeats running that came with an old time
    skew: float = 0.0  # seconds that its clock is ahead of ours, since `is_timed`
    is_timed: bool = False
    seq: int = 0  # of SERVICES
    since: float = attrs.field(kw_only=True)  # monotonic seconds of its beginning
    is_own: bool = False  # of the process that hosts this broker
    shares: bool = False  # it takes part in the documents of the network, see sharing.py
    compared_at: float = float("-inf")  # when it was asked last which documents it has

    @property
    def is_plain(self) -> bool:
        """Return True for a Majordomo worker."""
        return self.dialect in PLAIN
