"""Who is connected and in which state: negotiation, beats, clocks, farewells. Pure: a part of the broker.

A session is one connection (socket and routing id) that has introduced itself: a Majordomo worker by READY, a Scale0
peer by CHECKCONFIG. Majordomo clients have none. It ends by DISCONNECT, by an error of its own, by three intervals of
silence, or when a message to it finds no connection.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import attrs

from scale0 import config as cfg
from scale0 import forms
from scale0 import frames as wire
from scale0 import options as opt
from scale0.context import BACKEND, FRONTEND, LIVENESS, Context, Options, Probe
from scale0.frames import PLAIN, Dialect
from scale0.lru import Address, Worker
from scale0.options import Fault
from scale0.routing import Routing
from scale0.zap import Origin

BEHIND_BEATS = 3  # beats running that must be late before a clock is believed wrong: a queue or a stop ages a beat
WARN_SKEW = 5.0  # seconds from which on `clients` shows a warning
STRANGERS = 65_536  # connections whose last FORCENEGOTIATE is remembered, so that none gets more than one an interval
CLAIMS = 1_000  # identities whose holders are being probed at once
REFUSALS = 5  # times that a client may be told of a new configuration and keep the old one
SERVICES_PER_WORKER = 20_000  # a Helen with its agents; twice the 10,000 that one is built for
RETRY_LATER, RETRY_DISABLED = 1000, 30_000  # ms after which a refused peer may come back


@attrs.define(eq=False)
class Session:
    address: Address
    origin: Origin
    dialect: Dialect
    role: str
    identity: str
    interval: float
    last_heard: float
    worker: Worker | None = None  # of backends and peers
    ready: bool = False
    version: int = 0
    stale_since: float | None = None
    refusals: int = 0
    behind: int = 0  # beats running that came with an old time
    skew: float = 0.0
    seq: int = 0  # of SERVICES
    since: float = 0.0
    shares: bool = False  # it takes part in the documents of the network, see sharing.py
    compared: float = float("-inf")  # when it was asked last which of them it has

    @property
    def is_plain(self) -> bool:
        return self.dialect in PLAIN


class Sessions:
    def __init__(self, context: Context, routing: Routing) -> None:
        self._c, self._routing = context, routing
        self.all: dict[Address, Session] = {}
        self._by_identity: dict[str, Session] = {}
        self._told: OrderedDict[Address, float] = OrderedDict()
        self._claims: dict[int, tuple[Session, Address, Origin, Dialect, opt.CheckConfig]] = {}
        self._claim = 0
        # Set by the broker; see fellows.py.
        self.peer_negotiated: Callable[[Session], None] = lambda session: None
        self.peer_lost: Callable[[Session], None] = lambda session: None
        self.beat_extras: Callable[[Session], Options] = lambda session: {}

    # ------------------------------------------------------------------------------- negotiation

    def check_config(self, address: Address, origin: Origin, dialect: Dialect, o: opt.CheckConfig) -> None:
        role = self._role(address, o.role)
        self._check_claims(role, o)
        holder = self._by_identity.get(o.identity)
        if holder is None or holder.address == address:
            self._admit(address, origin, dialect, role, o)
        elif origin.key and origin.key == holder.origin.key:
            self.drop(holder)  # the same key on a new connection: the newest wins
            self._admit(address, origin, dialect, role, o)
        elif len(self._claims) >= CLAIMS:
            raise Fault(409, "identity_in_use", f"{o.identity} is held by another connection")
        else:
            self._claim += 1
            self._claims[self._claim] = (holder, address, origin, dialect, o)
            self._c.effects.append(Probe(holder.address, self._beat_frames(holder), self._claim))

    def probed(self, claim: int, gone: bool) -> None:
        """Whether the holder of an identity is still connected decides who has it."""
        holder, address, origin, dialect, o = self._claims.pop(claim)
        if gone and self.all.get(holder.address) is holder:
            self.drop(holder)
        try:
            if o.identity in self._by_identity:
                raise Fault(409, "identity_in_use", f"{o.identity} is held by a living peer")
            self._admit(address, origin, dialect, self._role(address, o.role), o)
        except Fault as fault:
            self.refuse(address, dialect, fault)

    def _role(self, address: Address, wanted: str) -> str:
        here = {FRONTEND: "frontend", BACKEND: "backend"}.get(address[0], "peer")
        role = wanted or here
        if role != here and not (self._c.one_port and address[0] == FRONTEND and role != "peer"):
            raise Fault(400, "malformed", f"role {role} does not belong on the {here} port")
        return role

    def _check_claims(self, role: str, o: opt.CheckConfig) -> None:
        try:
            cfg.IDENTITY(o.identity)
        except ValueError as e:
            raise Fault(400, "malformed", f"an identity has {e}") from None
        if role == "backend":
            self._check_services(o.services)

    def _check_services(self, services: list[str]) -> None:
        opt.check_service_names(services)
        wrong = next((s for s in services if not self._c.serves(s)), None)
        if wrong is not None:
            raise Fault(421, "wrong_broker", f"{wrong} is not served here; ask NEEDBROKER for a broker that does")

    def _admit(self, address: Address, origin: Origin, dialect: Dialect, role: str, o: opt.CheckConfig) -> None:
        session = self.all.get(address)
        if session is not None and session.identity != o.identity:
            self.drop(session)
            session = None
        if session is None:
            session = Session(address, origin, dialect, role, o.identity, 0.0, self._c.now, since=self._c.now)
            self.enter(session)
        session.dialect, session.stale_since = dialect, None
        session.interval = self._interval(o.hbeatinterval)
        self._c.later(("beat", address), session.interval)
        self._answer_config(session, o)
        if role == "peer":
            session.ready = True
            self.peer_negotiated(session)

    def _interval(self, wanted: float | None) -> float:
        """Longer than the default, if asked for; never shorter."""
        return max(wanted or 0.0, self._c.config.default_heartbeat_interval)

    def _answer_config(self, session: Session, o: opt.CheckConfig) -> None:
        told: Options = {
            "config_version": self._c.version_text,
            "time": self._c.wall,
            "hbeatinterval": session.interval,
        }
        told["broker"] = self._c.config.identity
        if o.config_version == self._c.version_text:
            session.version = self._c.version
            self._c.tell(session.address, session.dialect, "CONFIGACK", told)
            return
        tree = cfg.client_document(self._c.config, o.identity, o.services, session.role == "backend")
        self._fill_own_ends(tree)
        try:
            body = forms.write(tree, o.config_type)
        except forms.Unreadable as e:
            self.drop(session)
            raise Fault(400, "malformed", e.message) from None
        told |= {"config_type": o.config_type, "digest": cfg.digest(body)}
        self._c.tell(session.address, session.dialect, "CONFIG", told, [body])

    def _fill_own_ends(self, tree: Options) -> None:
        """Where this broker is, unless the configuration says it."""
        ends = self._c.ends
        for group in tree["group_config"]:
            for member in group.get("brokers", ()):
                if member["identity"] == self._c.config.identity:
                    for name in ("frontend", "backend", "public_key"):
                        if (value := getattr(ends, name)) and name not in member:
                            member[name] = value

    def enter(self, session: Session, claims: bool = True) -> None:
        """From now on this connection has a session; on links to fellows the identity is theirs and no claim."""
        self.all[session.address] = session
        if session.identity and claims:
            self._by_identity[session.identity] = session
        self._c.later(("lapse", session.address), LIVENESS * self._c.config.default_heartbeat_interval)

    # -------------------------------------------------------------------------------- being there

    def ready(self, session: Session, o: opt.Ready) -> None:
        """READY: these services, this much at once. Again and again if need be."""
        self._check_services(o.services)
        if len(o.services) > SERVICES_PER_WORKER:
            raise Fault(413, "too_large", f"a worker has at most {SERVICES_PER_WORKER} services")
        self._check_clock(session, o.time)
        worker = session.worker
        if worker is None:
            worker = session.worker = Worker(session.address, session.dialect)
        worker.dialect, worker.beats_while_busy = session.dialect, o.heartbeat
        worker.concurrency = o.concurrency
        session.ready, session.seq = True, 0
        session.interval = self._interval(o.hbeatinterval)
        self._note_version(session, o.config_version)
        self._routing.lru.replace(worker, o.services)
        self._set_epochs(worker, o.epochs)
        self._routing.lru.freed(worker)
        self.beat(session)
        self._serve(worker, o.services)

    def services(self, session: Session, o: opt.ServicesDelta) -> None:
        """The delta form of READY. A gap in the sequence means that something was lost: begin again."""
        worker = session.worker
        if worker is None or not session.ready or (o.seq and o.seq > session.seq + 1):
            self.force(session.address, session.dialect, "send READY with all services")
            return
        if o.seq and o.seq <= session.seq:
            return
        self._check_services(o.add)
        if len(worker.services) + len(o.add) > SERVICES_PER_WORKER:
            raise Fault(413, "too_large", f"a worker has at most {SERVICES_PER_WORKER} services")
        session.seq = o.seq or session.seq
        self._routing.lru.withdraw(worker, o.remove)
        self._routing.lru.offer(worker, o.add)
        self._set_epochs(worker, o.epochs)
        self._serve(worker, o.add)

    def _serve(self, worker: Worker, services: list[str]) -> None:
        if len(services) < 100:
            for service in services:
                self._routing.serve(service)
        else:
            self._routing.serve_worker(worker)

    def _set_epochs(self, worker: Worker, epochs: dict[str, int]) -> None:
        """An agent that has come here later than it came elsewhere is here; see fellows.py for other brokers."""
        for service, epoch in epochs.items():
            if service not in worker.services:
                continue
            worker.epochs[service] = epoch
            for other in list(self._routing.lru.workers(service)):
                if other is not worker and (held := other.epochs.get(service)) is not None:
                    self.withdraw(other if held < epoch else worker, service)

    def withdraw(self, worker: Worker, service: str) -> None:
        """Somebody else holds this service now; the old holder is told to drop it."""
        self._routing.lru.withdraw(worker, [service])
        self._c.counts["moved"] += 1
        if worker.dialect not in PLAIN:
            self._c.tell(worker.address, worker.dialect, "SERVICES", {"remove": [service]})

    def heartbeat(self, session: Session, o: opt.Heartbeat) -> None:
        if session.role == "peer":
            # A fellow with a wrong clock is shown, not cut: it may be ours. Its configuration comes by another way.
            session.skew, session.version = o.time - self._c.wall, int(o.config_version)
        else:
            self._check_clock(session, o.time)
            self._note_version(session, o.config_version)

    def _check_clock(self, session: Session, time: float) -> None:
        skew = session.skew = time - self._c.wall
        limit = self._c.config.max_skew
        session.behind = session.behind + 1 if skew < -limit else 0
        if skew > limit or session.behind >= BEHIND_BEATS:
            raise Fault(422, "clock_skew", f"the clocks differ by {min(abs(skew), 1e9):.1f} s; set them right")

    def _note_version(self, session: Session, version: str) -> None:
        """A client that goes on with an old configuration is told to negotiate, and refused when it will not."""
        session.version = int(version)
        if session.version >= self._c.version:
            session.stale_since, session.refusals = None, 0
            return
        if session.stale_since is None:
            session.stale_since = self._c.now + self._c.rng.random() * session.interval
        elif self._c.now - session.stale_since > LIVENESS * session.interval:
            session.refusals += 1
            if session.refusals > REFUSALS:
                raise Fault(412, "config_rejected", f"version {self._c.version} was offered {REFUSALS} times")
            session.stale_since = self._c.now
            self.force(session.address, session.dialect, "there is a newer configuration")

    # -------------------------------------------------------------------------- Majordomo workers

    def plain_ready(self, address: Address, origin: Origin, dialect: Dialect, service: str) -> None:
        """READY of RFC 7 or 18: one service, one request at a time; a second READY is out of turn."""
        session = self.all.get(address)
        try:
            opt.check_service_names([service])
        except Fault:
            self._c.failures.add(origin.name, "READY for mmi.*", self._c.now)
            service = ""
        allowed = self._c.config.allow_plain_mdp and self._c.serves(service)
        if session is not None or not service or not allowed:
            if session is not None:
                self.drop(session)
            self.disconnect(address, dialect)
            return
        interval = self._c.config.default_heartbeat_interval
        session = Session(address, origin, dialect, "backend", "", interval, self._c.now, since=self._c.now)
        session.worker = worker = Worker(address, dialect, beats_while_busy=False)
        session.ready = True
        self.enter(session)
        self._routing.lru.offer(worker, [service])
        self._routing.lru.freed(worker)
        self.beat(session)
        self._routing.serve(service)

    def disconnect(self, address: Address, dialect: Dialect) -> None:
        """DISCONNECT of the RFCs; the worker opens a new socket and says READY again."""
        self._c.send(address, wire.to_worker(dialect, "DISCONNECT"))

    # ---------------------------------------------------------------------------------- strangers

    def force(self, address: Address, dialect: Dialect, reason: str) -> None:
        """FORCENEGOTIATE, or DISCONNECT to plain workers; at most once per connection and interval."""
        last = self._told.get(address)
        if last is not None and self._c.now - last < self._c.config.default_heartbeat_interval:
            return
        self._told[address] = self._c.now
        self._told.move_to_end(address)
        if len(self._told) > STRANGERS:
            self._told.popitem(last=False)
        if dialect in PLAIN:
            self.disconnect(address, dialect)
        else:
            self._c.tell(address, dialect, "FORCENEGOTIATE", {"reason": reason})

    def force_all(self, reason: str) -> None:
        """Everybody negotiates afresh, spread over one interval so that they do not come at once."""
        for session in self.all.values():
            if not session.is_plain and session.role != "peer":
                self._c.later(("force", session.address, reason), self._c.rng.random() * session.interval)

    def refuse(self, address: Address, dialect: Dialect, fault: Fault, **more: object) -> None:
        """DISCONNECTERROR, the last frame of a session."""
        session = self.all.get(address)
        told: Options = {"code": fault.code, "message": fault.message, "reason": fault.reason, **more}
        if fault.code == 503:
            told.setdefault("retry_after_ms", RETRY_LATER)
        if fault.code == 422 and session is not None:
            told |= {"server_time": self._c.wall, "skew_ms": int(max(-1e15, min(1e15, 1000 * session.skew)))}
        if session is not None:
            self.drop(session)
        self._c.counts[f"refused_{fault.code}"] += 1
        self._c.tell(address, dialect, "DISCONNECTERROR", told)

    # --------------------------------------------------------------------------- beats and endings

    def beat(self, session: Session) -> None:
        """The broker beats to all, busy workers too."""
        self._c.send(session.address, self._beat_frames(session))
        self._c.later(("beat", session.address), session.interval)

    def _beat_frames(self, session: Session) -> list[bytes]:
        if session.is_plain:
            return wire.to_worker(session.dialect, "HEARTBEAT")
        options: Options = {"time": self._c.wall, "config_version": self._c.version_text}
        options |= self.beat_extras(session)
        return wire.scale0(session.dialect, "HEARTBEAT", opt.encode(options))

    def has_lapsed(self, session: Session) -> bool:
        """Silent for three intervals? Plain workers that work are allowed to be; busy_timeout watches them."""
        due = session.last_heard + LIVENESS * session.interval
        worker = session.worker
        busy = worker is not None and bool(worker.inflight) and not worker.beats_while_busy
        if due > self._c.now or busy:
            self._c.timers.set(("lapse", session.address), max(due, self._c.now + session.interval) if busy else due)
            return False
        self._c.counts["lapsed"] += 1
        return True

    def lapse(self, session: Session) -> None:
        if self.has_lapsed(session):
            self.farewell(session, Fault(408, "heartbeat_lost", f"nothing heard for {LIVENESS} intervals"))

    def farewell(self, session: Session, fault: Fault, retry_after_ms: int = 0) -> None:
        """The last word to a session, in its own dialect."""
        if not session.is_plain:
            more = {"retry_after_ms": retry_after_ms} if retry_after_ms else {}
            self.refuse(session.address, session.dialect, fault, **more)
            return
        self.drop(session)
        self.disconnect(session.address, session.dialect)

    def drop(self, session: Session, undelivered: bytes = b"") -> None:
        """Forget a session; what its worker held goes to others."""
        if self.all.get(session.address) is not session:
            return
        del self.all[session.address]
        if self._by_identity.get(session.identity) is session:
            del self._by_identity[session.identity]
        for kind in ("beat", "lapse"):
            self._c.timers.cancel((kind, session.address))
        if session.role == "peer":
            self.peer_lost(session)
        if session.worker is not None:
            self._routing.lose(session.worker, undelivered)

    def heard(self, session: Session) -> None:
        """Any frame counts as a beat."""
        session.last_heard = self._c.now
        if session.worker is not None and session.worker.slow:
            self._routing.heard(session.worker)
