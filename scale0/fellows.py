"""Fellow brokers: their tables, requests passed on to them, and who is reachable. Pure: a part of the broker.

Two brokers may be joined by two connections, one dialled by each. Each is a channel; requests that went out on a
channel come back on it, so the loss of a channel is the loss of a worker. Tables are pushed on one channel per fellow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import attrs

from scale0 import options as opt
from scale0.config import Member
from scale0.context import Context, Options
from scale0.frames import S0
from scale0.lru import Address, Worker
from scale0.options import Fault
from scale0.queues import Row
from scale0.routing import Routing
from scale0.sessions import Session, Sessions
from scale0.table import NONE, Entry, Table, parts
from scale0.zap import NOBODY

PUSH_INTERVAL = 0.2  # seconds between two deltas
CHECK_RETRY = 2.0  # seconds until an unanswered CHECKCONFIG is sent again
MAX_PATH = 3  # brokers that a request may have come through
ENTRIES = 200_000  # services of one fellow that are kept; twenty of the largest Helens
WINDOW = 10_000  # requests with one fellow at once; as many as its pipe holds


@attrs.define(eq=False)
class Fellow:
    identity: str
    channels: dict[Address, Session] = attrs.field(factory=dict)
    table: Table = attrs.field(factory=Table)
    guess: dict[str, int] = attrs.field(factory=dict)  # idle workers, as far as our own requests changed them
    state: str = "active"
    version: int = 0
    asked: float = float("-inf")

    def idle(self, service: str) -> int:
        known = self.table.entries.get(service, NONE)[1]
        return self.guess.get(service, known)

    @property
    def usable(self) -> bool:
        return bool(self.channels) and self.state == "active"


class Fellows:
    def __init__(self, context: Context, sessions: Sessions, routing: Routing) -> None:
        self._c, self._sessions, self._routing = context, sessions, routing
        self.all: dict[str, Fellow] = {}
        self.own = Table()
        self.links: set[Address] = set()
        self._refusals: dict[Address, int] = {}
        self._pushed = float("-inf")
        self.joined: list[Callable[[Session], None]] = []  # a channel to a fellow is there
        sessions.peer_negotiated, sessions.peer_lost = self._joined, self._lost
        routing.fellow_for, routing.fellows_idle, routing.fellow_used = self._channel_for, self._any_idle, self._used

    # --------------------------------------------------------------------------------- connections

    def link_up(self, endpoint: str) -> None:
        """Our DEALER has shaken hands, for the first time or with a broker that was restarted."""
        address = (endpoint, b"")
        self.links.add(address)
        self.link_down(endpoint)
        self._check_config(address)

    def link_down(self, endpoint: str) -> None:
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
        if address in self.links and address not in self._sessions.all and self._c.state != "disabled":
            self._check_config(address)

    def told_config(self, address: Address, o: opt.ConfigTold) -> None:
        """CONFIG or CONFIGACK on a link: the fellow knows us. What it holds for us comes by config_sub_ports."""
        if address not in self.links or not o.broker or o.broker == self._c.config.identity:
            return
        self._c.timers.cancel(("check", address))
        self._refusals.pop(address, None)
        session = self._sessions.all.get(address)
        if session is None:
            interval = max(o.hbeatinterval, self._c.config.default_heartbeat_interval)
            session = Session(address, NOBODY, S0, "peer", o.broker, interval, self._c.now, since=self._c.now)
            session.ready = True
            self._sessions.enter(session, claims=False)
        self._joined(session)
        self._sessions.beat(session)

    def forced(self, address: Address) -> None:
        """The other side is not sure of us: begin again. Requests that it has are lost with its memory of us."""
        if address in self.links:
            self.link_down(address[0])
            self._check_config(address)

    def refused(self, address: Address, o: opt.DisconnectError) -> None:
        if address in self.links:
            self.link_down(address[0])
            if self._refusals.get(address) != o.code:  # said once, not with every try
                self._refusals[address] = o.code
                self._c.log("warn", f"the broker at {address[0]} refuses us: {o.code} {o.message}")
            self._c.later(("check", address), max(CHECK_RETRY, o.retry_after_ms / 1000))

    def lapse(self, session: Session) -> None:
        """A link on which nothing was heard: negotiate afresh."""
        if self._sessions.has_lapsed(session):
            self._sessions.drop(session)
            self._check_config(session.address)

    def _joined(self, session: Session) -> None:
        if session.worker is None:
            session.worker = Worker(session.address, session.dialect, concurrency=WINDOW, fellow=session.identity)
        self.push()  # to those who are here already; the newcomer gets the whole
        fellow = self.all.setdefault(session.identity, Fellow(session.identity))
        fellow.channels[session.address] = session
        self._tell_table(session, self.own.entries, full=True)
        for observer in self.joined:
            observer(session)

    def _lost(self, session: Session) -> None:
        fellow = self.all.get(session.identity)
        if fellow is None:
            return
        fellow.channels.pop(session.address, None)
        if not fellow.channels:
            del self.all[session.identity]
        if session.address in self.links:
            self._c.later(("check", session.address), CHECK_RETRY)

    def farewell(self) -> None:
        """We are going away: each fellow may take its requests elsewhere at once."""
        for session in [s for fellow in self.all.values() for s in fellow.channels.values()]:
            self._c.tell(session.address, session.dialect, "DISCONNECT", {})
            self._sessions.drop(session)

    # --------------------------------------------------------------------------------------- tables

    def extras(self) -> Options:
        """What a beat to a fellow carries."""
        return {
            "state": self._c.state,
            "seq": self.own.seq,
            "digest": self.own.digest,
            "broker": self._c.config.identity,
        }

    def heartbeat(self, session: Session, o: opt.Heartbeat) -> None:
        fellow = self.all.get(session.identity)
        if fellow is None:
            return
        was_usable = fellow.usable
        fellow.state, fellow.version = o.state or "active", int(o.config_version)
        behind = o.seq > fellow.table.seq or (o.seq == fellow.table.seq and not fellow.table.matches(o.digest))
        if o.seq >= 0 and behind:
            self._ask(fellow, session)
        if fellow.usable and not was_usable:
            self._spill_all()

    def _ask(self, fellow: Fellow, session: Session) -> None:
        """Pull the whole table; at most once an interval."""
        if self._c.now - fellow.asked >= self._c.config.default_heartbeat_interval:
            fellow.asked = self._c.now
            self._c.tell(session.address, session.dialect, "TABLEREQ", {"since": 0})

    def note_changes(self) -> None:
        """After each event: has anything in the own table become old?"""
        if (self._routing.lru.changed or self._routing.queues.changed) and ("tables",) not in self._c.timers:
            self._c.timers.set(("tables",), max(self._c.now, self._pushed + PUSH_INTERVAL))

    def push(self) -> None:
        """The delta since the last push, to all fellows."""
        delta = self._refresh()
        if not delta:
            return
        self._pushed = self._c.now
        for fellow in self.all.values():
            self._tell_table(self._main_channel(fellow), delta, full=False)

    def _refresh(self) -> dict[str, Entry]:
        lru, queues = self._routing.lru, self._routing.queues
        changed = lru.changed | queues.changed
        lru.changed.clear()
        queues.changed.clear()
        delta = {}
        for service in changed:
            entry = [*lru.counts(service), queues.length(service)]
            if self.own.set(service, entry):
                delta[service] = entry
        if delta:
            self.own.seq += 1
        return delta

    def _main_channel(self, fellow: Fellow) -> Session:
        """The one that we dialled, if there is one."""
        return next((s for a, s in fellow.channels.items() if a in self.links), next(iter(fellow.channels.values())))

    def main_channels(self) -> list[Session]:
        """One for each fellow."""
        return [self._main_channel(fellow) for fellow in self.all.values() if fellow.channels]

    def table_wanted(self, session: Session) -> None:
        """TABLEREQ. The deltas are not kept, so any `since` is answered by the whole."""
        self.push()
        self._tell_table(session, self.own.entries, full=True)

    def _tell_table(self, session: Session, entries: dict[str, Entry], full: bool) -> None:
        pieces = list(parts(entries.items()))
        for number, piece in enumerate(pieces):
            options: Options = {"seq": self.own.seq, "full": full and number == 0, "digest": self.own.digest}
            options |= {"entries": piece, "part": number, "parts": len(pieces)}
            if holders := self._holders(piece):
                options["holders"] = holders
            self._c.tell(session.address, session.dialect, "TABLE", options)

    def _holders(self, services: dict[str, Entry]) -> dict[str, tuple[str, int]]:
        """Who has an agent, and since when, of the services that say so."""
        found = {}
        for service in services:
            for worker in self._routing.lru.workers(service):
                if (epoch := worker.epochs.get(service)) is not None and worker.address in self._sessions.all:
                    found[service] = (self._sessions.all[worker.address].identity, epoch)
        return found

    def told_table(self, session: Session, o: opt.Table) -> None:
        fellow = self.all.get(session.identity)
        if fellow is None:
            return
        table = fellow.table
        if o.full:
            table.clear()
            fellow.guess.clear()
        elif o.seq != table.seq + (o.part == 0):
            self._ask(fellow, session)
            return
        table.seq = o.seq
        for service, entry in o.entries.items():
            if len(table.entries) >= ENTRIES and service not in table.entries:
                self._c.counts["table_overflow"] += 1
                break
            table.set(service, entry)
            fellow.guess.pop(service, None)
        if o.part >= o.parts - 1 and not table.matches(o.digest):
            self._ask(fellow, session)
        self._yield_agents(o.holders)
        for service in o.entries if len(o.entries) < len(self._routing.queues) else list(self._routing.queues):
            self._routing.spill(service)

    def _yield_agents(self, holders: dict[str, tuple[str, int]]) -> None:
        """An agent that has attached elsewhere later than here is there; the old holder is told to drop it."""
        for service, (_, epoch) in holders.items():
            for worker in list(self._routing.lru.workers(service)):
                if (held := worker.epochs.get(service)) is not None and held < epoch:
                    self._sessions.withdraw(worker, service)

    def _spill_all(self) -> None:
        for service in list(self._routing.queues):
            self._routing.spill(service)

    # -------------------------------------------------------------------------------------- requests

    def _tiers(self) -> Iterator[list[Fellow]]:
        """Usable fellows: those of the own group, then each fallback group in order."""
        config = self._c.config
        described = {member.identity for group in config.group_config for member in group.brokers}
        for group in config.groups():
            members = [self.all[m.identity] for m in group.brokers if m.identity in self.all]
            yield [fellow for fellow in members if fellow.usable]
        if not config.group:  # a network without groups: everybody is of the own
            yield [fellow for fellow in self.all.values() if fellow.usable and fellow.identity not in described]

    def _any_idle(self, service: str) -> bool:
        return any(f.usable and f.idle(service) > 0 for f in self.all.values())

    def _channel_for(self, row: Row) -> Worker | None:
        """Where in the network a request may go now: most idle first, the own group before its fallbacks."""
        if len(row.path) >= MAX_PATH:
            return None
        barred = {*row.path, *row.refused_by}
        for tier in self._tiers():
            able = [f for f in tier if f.identity not in barred and f.idle(row.service) > 0]
            for fellow in sorted(able, key=lambda f: -f.idle(row.service)):
                channel = self._main_channel(fellow).worker
                if channel is not None and channel.free:
                    return channel
        return None

    def _used(self, channel: Worker, service: str, change: int) -> None:
        fellow = self.all.get(channel.fellow)
        if fellow is not None and service in fellow.table.entries:
            workers = fellow.table.entries[service][0]
            fellow.guess[service] = max(0, min(workers, fellow.idle(service) + change))

    def forward(self, session: Session, o: opt.Forward, body: Sequence[bytes]) -> None:
        """A request that a fellow passes on. What is not taken here is handed back, for others to take."""
        own = self._c.config.identity
        idempotent = self._c.policy(o.service).idempotent and o.idempotent is not False
        deadline = self._c.now + o.deadline / 1000 if o.deadline else None
        row = Row(
            self._c.token(),
            session.address,
            session.dialect,
            o.service,
            o.id,
            body,
            o.priority,
            idempotent,
            deadline,
            path=tuple(o.path),
        )
        if not o.path or own in o.path or len(o.path) > MAX_PATH:
            self._routing.refuse(row, 421, "wrong_broker", "this request goes in circles")
        elif not self._c.serves(o.service):
            self._routing.refuse(row, 421, "wrong_broker", f"{o.service} is not served here")
        elif self._c.state != "active":
            self._routing.refuse(row, 503, self._c.state, f"this broker is {self._c.state}")
        else:
            self._routing.accept(row)

    def knows(self, service: str) -> bool:
        """Does a live worker exist here or at a reachable fellow?"""
        if service in self._routing.lru:
            return True
        return any(f.table.entries.get(service, NONE)[0] for tier in self._tiers() for f in tier)

    # ------------------------------------------------------------------------------------ NEEDBROKER

    def find_broker(self, o: opt.NeedBroker) -> Options:
        """Any reachable broker for a client whose own is not: the own group first, then its fallbacks."""
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
            # Oneself first: whoever asks has reached us, and may not reach others.
            yield from sorted(group.brokers, key=lambda m: m.identity != own.identity)

    def _reachable(self, member: Member) -> bool:
        if member.identity == self._c.config.identity:
            return self._c.state == "active"
        fellow = self.all.get(member.identity)
        return fellow is not None and fellow.usable and bool(member.frontend or member.backend)

    def _describe(self, member: Member) -> Options:
        ends = self._c.ends if member.identity == self._c.config.identity else None
        names = ("frontend", "backend", "public_key")
        told: Options = {name: getattr(member, name) or (getattr(ends, name) if ends else "") for name in names}
        fellow = self.all.get(member.identity)
        version = fellow.version if fellow is not None else self._c.version
        return {"identity": member.identity, "config_version": str(version)} | told
