"""Negotiates with peer brokers, exchanges tables with them, and takes requests that they pass on. Pure.

A part of the broker. A *link* is our own connection to a peer; the peer's connection to us has an ordinary session.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from groundwork.authority import decide
from scale0.broker.context import Context, Options
from scale0.broker.peers import CHECK_RETRY, MAX_PATH, Peer, Peers
from scale0.broker.requests.queues import PendingRequest
from scale0.broker.requests.routing import Routing
from scale0.broker.requests.worker_pool import Address, Worker
from scale0.broker.service_table import Entry, parts
from scale0.broker.session import Session
from scale0.broker.sessions import Sessions
from scale0.broker.sharing import Sharing
from scale0.broker.worker_offers import WorkerOffers
from scale0.wire import options as opt
from scale0.wire.actions import OFFER_AGENT, is_of_helens
from scale0.wire.frames import S0
from scale0.wire.zap import NO_ORIGIN

PUSH_INTERVAL = 0.2  # seconds between two deltas
ENTRIES = 200_000  # services of one peer that are kept; twenty of the largest Helens
WINDOW = 10_000  # requests with one peer at once; as many as its pipe holds


class PeerLinks:
    """Keeps the channels to peer brokers, and both tables, up to date."""

    def __init__(
        self,
        context: Context,
        sessions: Sessions,
        routing: Routing,
        peers: Peers,
        sharing: Sharing,
        offers: WorkerOffers,
    ) -> None:
        self._c, self._sessions, self._routing, self._peers, self._sharing = context, sessions, routing, peers, sharing
        self._offers = offers
        self._refusals: dict[Address, int] = {}
        self._pushed = float("-inf")

    # --------------------------------------------------------------------------------- connections

    def link_up(self, endpoint: str) -> None:
        """Negotiate on a link after its handshake, the first one or one with a broker that was restarted."""
        address = (endpoint, b"")
        self._peers.links.add(address)
        self.link_down(endpoint)
        self._check_config(address)

    def link_down(self, endpoint: str) -> None:
        """Drop the session of a link that is lost."""
        session = self._sessions.all.get((endpoint, b""))
        if session is not None:
            self._sessions.drop(session)

    def _check_config(self, address: Address) -> None:
        config = self._c.config
        options: Options = {"identity": config.identity, "services": list(config.services), "config_type": "JSON"}
        options |= {"role": "peer", "config_version": self._c.version_text, "time": self._c.wall}
        self._c.tell(address, S0, "CHECKCONFIG", options)
        self._c.later(("check", address), CHECK_RETRY)

    def check_again(self, address: Address) -> None:
        """Send CHECKCONFIG again on a link without a session."""
        if address in self._peers.links and address not in self._sessions.all and self._c.state != "disabled":
            self._check_config(address)

    def check_all(self) -> None:
        """Negotiate on all links without a session, as the broker is enabled again."""
        for address in self._peers.links:
            self.check_again(address)

    def config_received(self, address: Address, o: opt.ConfigTold) -> None:
        """Begin the session of a link, as the peer has answered CHECKCONFIG.

        A configuration that it holds for this broker comes by config_sub_ports.
        """
        if address not in self._peers.links or not o.broker or o.broker == self._c.config.identity:
            return
        self._c.timers.cancel(("check", address))
        self._refusals.pop(address, None)
        session = self._sessions.all.get(address)
        if session is None:
            interval = max(o.hbeatinterval, self._c.config.default_heartbeat_interval)
            session = Session(address, NO_ORIGIN, S0, "peer", o.broker, interval, self._c.now, since=self._c.now)
            session.ready = True
            self._sessions.enter(session, claims=False)
        self.joined(session)
        self._sessions.beat(session)

    def forced(self, address: Address) -> None:
        """Negotiate again, as the peer does not know this broker any more; requests that it held are lost with that."""
        if address in self._peers.links:
            self.link_down(address[0])
            self._check_config(address)

    def refused(self, address: Address, o: opt.DisconnectError) -> None:
        """Try again later on a link that the peer has refused."""
        if address in self._peers.links:
            self.link_down(address[0])
            if self._refusals.get(address) != o.code:  # logged once, not with every try
                self._refusals[address] = o.code
                self._c.log("warn", f"the broker at {address[0]} refuses this one: {o.code} {o.message}")
            self._c.later(("check", address), max(CHECK_RETRY, o.retry_after_ms / 1000))

    def lapse(self, session: Session) -> None:
        """Negotiate again on a link that has been silent for too long."""
        if self._sessions.has_lapsed(session):
            self._sessions.drop(session)
            self._check_config(session.address)

    def joined(self, session: Session) -> None:
        """Add a channel to a peer, tell it our table, and compare documents."""
        if session.worker is None:
            session.worker = Worker(session.address, session.dialect, concurrency=WINDOW, peer=session.identity)
        self.push()  # to the peers that are here already; this one gets the whole table
        self._peers.add(session)
        self._tell_table(session, self._peers.own.entries, full=True)
        self._sharing.compare(session)

    def leave(self) -> None:
        """End all channels, as this broker stops, so that each peer takes its requests elsewhere at once."""
        for session in [s for peer in self._peers.all.values() for s in peer.channels.values()]:
            self._c.tell(session.address, session.dialect, "DISCONNECT", {})
            self._sessions.drop(session)

    # --------------------------------------------------------------------------------------- tables

    def heartbeat(self, session: Session, o: opt.Heartbeat) -> None:
        """Note the state of a peer, and ask for its table if its heartbeat tells of another one."""
        peer = self._peers.all.get(session.identity)
        if peer is None:
            return
        was_usable = peer.usable
        peer.state, peer.version = o.state or "active", int(o.config_version)
        behind = o.seq > peer.table.seq or (o.seq == peer.table.seq and not peer.table.matches(o.digest))
        if o.seq >= 0 and behind:
            self._ask(peer, session)
        if peer.usable and not was_usable:
            self._spill_all()

    def _ask(self, peer: Peer, session: Session) -> None:
        """Ask for the whole table, at most once an interval."""
        if self._c.now - peer.asked >= self._c.config.default_heartbeat_interval:
            peer.asked = self._c.now
            self._c.tell(session.address, session.dialect, "TABLEREQ", {"since": 0})

    def note_changes(self) -> None:
        """Set the timer of the next push if the last event has changed anything in the own table."""
        if (self._routing.pool.changed or self._routing.queues.changed) and ("tables",) not in self._c.timers:
            self._c.at(("tables",), max(self._c.now, self._pushed + PUSH_INTERVAL))

    def push(self) -> None:
        """Send the changes since the last push to all peers."""
        delta = self._refresh()
        if not delta:
            return
        self._pushed = self._c.now
        for session in self._peers.main_channels():
            self._tell_table(session, delta, full=False)

    def _refresh(self) -> dict[str, Entry]:
        pool, queues, own = self._routing.pool, self._routing.queues, self._peers.own
        changed = pool.changed | queues.changed
        pool.changed.clear()
        queues.changed.clear()
        delta = {}
        for service in changed:
            entry = [*pool.counts(service), queues.length(service)]
            if own.set(service, entry):
                delta[service] = entry
        if delta:
            own.seq += 1
        return delta

    def table_wanted(self, session: Session) -> None:
        """Answer TABLEREQ with the whole table, whatever its `since`: deltas are not kept."""
        self.push()
        self._tell_table(session, self._peers.own.entries, full=True)

    def _tell_table(self, session: Session, entries: dict[str, Entry], full: bool) -> None:
        own, pieces = self._peers.own, list(parts(entries.items()))
        for number, piece in enumerate(pieces):
            options: Options = {"seq": own.seq, "full": full and number == 0, "digest": own.digest}
            options |= {"entries": piece, "part": number, "parts": len(pieces)}
            if holders := self._holders(piece):
                options["holders"] = holders
                options["seals"] = self._seals(holders)
            self._c.tell(session.address, session.dialect, "TABLE", options)

    def _holders(self, services: dict[str, Entry]) -> dict[str, tuple[str, int]]:
        """Return the worker's identity and the attach epoch of each service that has an epoch."""
        found = {}
        for service in services:
            for worker in self._routing.pool.workers(service):
                if (epoch := worker.epochs.get(service)) is not None and worker.address in self._sessions.all:
                    found[service] = (self._sessions.all[worker.address].identity, epoch)
        return found

    def _seals(self, services: Iterable[str]) -> dict[str, str]:
        """Return the seals of attachments here, as their workers have sent them."""
        found = {}
        for service in services:
            for worker in self._routing.pool.workers(service):
                if service in worker.seals:
                    found[service] = worker.seals[service]
        return found

    def table_received(self, session: Session, o: opt.Table) -> None:
        """Take in a table or a delta of a peer; ask for the whole if one was missed or the digests differ."""
        peer = self._peers.all.get(session.identity)
        if peer is None:
            return
        table = peer.table
        if o.full:
            table.clear()
            peer.guess.clear()
        elif o.seq != table.seq + (o.part == 0):
            self._ask(peer, session)
            return
        table.seq = o.seq
        is_trusted = self._is_trusted(session)
        for service, entry in o.entries.items():
            if is_of_helens(service) and not is_trusted:
                continue
            if len(table.entries) >= ENTRIES and service not in table.entries:
                self._c.counts["table_overflow"] += 1
                break
            table.set(service, entry)
            peer.guess.pop(service, None)
        if o.part >= o.parts - 1 and not table.matches(o.digest):
            self._ask(peer, session)
        if is_trusted:
            self._yield_services(o.holders, o.seals)
        for service in o.entries if len(o.entries) < len(self._routing.queues) else list(self._routing.queues):
            self._routing.spill(service)

    def _is_trusted(self, session: Session) -> bool:
        """Return True for a broker that has proved its key: it may speak for Helens and their agents."""
        is_link = session.address in self._peers.links
        caller = self._c.grants.caller(session.origin, self._c.config, session.is_own, is_link)
        return decide(caller, OFFER_AGENT) is None

    def _yield_services(self, holders: dict[str, tuple[str, int]], seals: dict[str, str]) -> None:
        """Take services from workers here that a peer's worker holds with a higher attach epoch."""
        for service, holder in holders.items():
            if self._offers.is_to_come(service, holder[1]):
                continue
            for worker in list(self._routing.pool.workers(service)):
                if (held := worker.epochs.get(service)) is not None and held < holder[1]:
                    self._offers.withdraw(worker, service, holder, seals.get(service, ""))

    def _spill_all(self) -> None:
        for service in list(self._routing.queues):
            self._routing.spill(service)

    # -------------------------------------------------------------------------------------- requests

    def forward(self, session: Session, o: opt.Forward, body: Sequence[bytes]) -> None:
        """Take a request that a peer passes on, or hand it back, so that another broker takes it."""
        own = self._c.config.identity
        request = PendingRequest(
            self._c.token(),
            session.address,
            session.dialect,
            o.service,
            o.id,
            body,
            o.priority,
            idempotent=self._c.policy(o.service).idempotent and o.idempotent is not False,
            deadline=self._c.now + o.deadline / 1000 if o.deadline else None,
            path=tuple(o.path),
            asked_by=o.asked_by,
        )
        why = ""
        if is_of_helens(o.service) and not self._is_trusted(session):
            why = f"{o.service} is passed on by brokers with a key that `group_config` names"
        if why:
            self._routing.refuse(request, 403, "not_allowed", why)
        elif not o.path or own in o.path or len(o.path) > MAX_PATH:
            self._routing.refuse(request, 421, "wrong_broker", "this request goes in circles")
        elif not self._c.serves(o.service):
            self._routing.refuse(request, 421, "wrong_broker", f"{o.service} is not served here")
        elif self._c.state != "active":
            self._routing.refuse(request, 503, self._c.state, f"this broker is {self._c.state}")
        else:
            self._routing.accept(request)
