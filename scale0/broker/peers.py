"""Keeps the directory of peer brokers: their channels and tables, and which of them a request may go to. Pure.

Two brokers may be joined by two connections, one made by each. Each is a channel; requests that went out on a channel
come back on it, so the loss of a channel is the loss of a worker. peer_links.py negotiates and talks on them.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from scale0.broker.context import Context, Options
from scale0.broker.requests.queues import PendingRequest
from scale0.broker.requests.worker_pool import Address, Worker
from scale0.broker.service_table import NONE, Table
from scale0.broker.session import Session
from scale0.config.schema import Member
from scale0.wire import options as opt
from scale0.wire.options import Fault

CHECK_RETRY = 2.0  # seconds until an unanswered CHECKCONFIG is sent again
MAX_PATH = 3  # brokers that a request may have come through


@attrs.define(eq=False)
class Peer:
    """Describes one peer broker and the services that it has workers for."""

    identity: str
    channels: dict[Address, Session] = attrs.field(factory=dict)
    table: Table = attrs.field(factory=Table)
    guess: dict[str, int] = attrs.field(factory=dict)  # idle workers, as far as our own requests changed them
    state: str = "active"
    version: int = 0
    asked: float = float("-inf")  # when its table was asked for last, monotonic

    def idle(self, service: str) -> int:
        """Return how many idle workers the peer has for a service: its table, corrected by our own requests."""
        known = self.table.entries.get(service, NONE)[1]
        return self.guess.get(service, known)

    @property
    def usable(self) -> bool:
        """Return True if requests may go there."""
        return bool(self.channels) and self.state == "active"


class Peers:
    """Holds the peer brokers that are connected, and the table that this broker tells them."""

    def __init__(self, context: Context) -> None:
        self._c = context
        self.all: dict[str, Peer] = {}
        self.own = Table()
        self.links: set[Address] = set()  # our own connections to peers, made at least once

    # ---------------------------------------------------------------------------------- channels

    def add(self, session: Session) -> None:
        """Add the channel of a session; the peer is new with its first channel."""
        peer = self.all.setdefault(session.identity, Peer(session.identity))
        peer.channels[session.address] = session

    def remove(self, session: Session) -> None:
        """Remove the channel of a session that has ended; a link negotiates again after a while."""
        peer = self.all.get(session.identity)
        if peer is None:
            return
        peer.channels.pop(session.address, None)
        if not peer.channels:
            del self.all[session.identity]
        if session.address in self.links:
            self._c.later(("check", session.address), CHECK_RETRY)

    def main_channel(self, peer: Peer) -> Session:
        """Return the channel for tables and requests: our own link, if there is one."""
        return next((s for a, s in peer.channels.items() if a in self.links), next(iter(peer.channels.values())))

    def main_channels(self) -> list[Session]:
        """Return one channel for each peer."""
        return [self.main_channel(peer) for peer in self.all.values() if peer.channels]

    # -------------------------------------------------------------------------------------- requests

    def _tiers(self) -> Iterator[list[Peer]]:
        """Yield the usable peers of the own group, then those of each fallback group in order."""
        config = self._c.config
        described = {member.identity for group in config.group_config for member in group.brokers}
        for group in config.groups():
            members = [self.all[m.identity] for m in group.brokers if m.identity in self.all]
            yield [peer for peer in members if peer.usable]
        if not config.group:  # a network without groups: every peer is of the own
            yield [peer for peer in self.all.values() if peer.usable and peer.identity not in described]

    def serve(self, service: str) -> bool:
        """Return True if a usable peer has a worker for the service."""
        return any(peer.table.entries.get(service, NONE)[0] for tier in self._tiers() for peer in tier)

    def any_idle(self, service: str) -> bool:
        """Return True if a usable peer has an idle worker for the service."""
        return any(peer.usable and peer.idle(service) > 0 for peer in self.all.values())

    def channel_for(self, request: PendingRequest) -> Worker | None:
        """Return the channel that a request may go out on: most idle workers first, the own group before fallbacks."""
        if len(request.path) >= MAX_PATH:
            return None
        barred = {*request.path, *request.refused_by}
        for tier in self._tiers():
            able = [p for p in tier if p.identity not in barred and p.idle(request.service) > 0]
            for peer in sorted(able, key=lambda p: -p.idle(request.service)):
                channel = self.main_channel(peer).worker
                if channel is not None and channel.free:
                    return channel
        return None

    def used(self, channel: Worker, service: str, change: int) -> None:
        """Correct the guess of idle workers by a request that went out (-1) or came back (1)."""
        peer = self.all.get(channel.peer)
        if peer is not None and service in peer.table.entries:
            workers = peer.table.entries[service][0]
            peer.guess[service] = max(0, min(workers, peer.idle(service) + change))

    # ------------------------------------------------------------------------------------ NEEDBROKER

    def find_broker(self, o: opt.NeedBroker) -> Options:
        """Return the options of USEBROKER for a client that needs another broker.

        Their keys are `identity`, `config_version`, `frontend`, `backend` and `public_key`. The own group comes
        first, then its fallbacks. Raises Fault if no reachable broker serves the client's services.
        """
        for member in self._candidates():
            serves = all(member.serves(service) for service in o.services)
            if member.identity not in o.failed and serves and self._reachable(member):
                return self._describe(member)
        raise Fault(503, "no_broker", "no other broker that is reachable serves this")

    def _candidates(self) -> Iterator[Member]:
        config = self._c.config
        own = config.member(config.identity) or Member(config.identity, config.services)
        groups = config.groups()
        if not any(m.identity == own.identity for group in groups for m in group.brokers):
            yield own
        for group in groups:
            # This broker first: the client that asks has reached it, and may not reach others.
            yield from sorted(group.brokers, key=lambda m: m.identity != own.identity)

    def _reachable(self, member: Member) -> bool:
        if member.identity == self._c.config.identity:
            return self._c.state == "active"
        peer = self.all.get(member.identity)
        return peer is not None and peer.usable and bool(member.frontend or member.backend)

    def _describe(self, member: Member) -> Options:
        own = self._c.endpoints if member.identity == self._c.config.identity else None
        names = ("frontend", "backend", "public_key")
        found: Options = {name: getattr(member, name) or (getattr(own, name) if own else "") for name in names}
        peer = self.all.get(member.identity)
        version = peer.version if peer is not None else self._c.version
        return {"identity": member.identity, "config_version": str(version)} | found
