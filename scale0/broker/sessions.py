"""Begins, keeps and ends sessions: negotiation, heartbeats, clocks. Pure: a part of the broker.

A session is one connection (socket and routing id) that has introduced itself: a Majordomo worker by READY, a Scale0
client, worker or broker by CHECKCONFIG. Majordomo clients have none. It ends by DISCONNECT, by an error of its own, by
three intervals of silence, or when a message to it finds no connection.
"""

from __future__ import annotations

from collections import OrderedDict

from scale0.broker.clocks import Clocks
from scale0.broker.context import BACKEND, FRONTEND, LIVENESS, Context, Options, Probe
from scale0.broker.peers import Peers
from scale0.broker.routing import Routing
from scale0.broker.session import Session
from scale0.broker.takeovers import Takeovers
from scale0.broker.worker_pool import Address, Worker
from scale0.config import config as cfg
from scale0.config import syntax, values
from scale0.documents.collection import Documents
from scale0.wire import frames as wire
from scale0.wire import options as opt
from scale0.wire.actions import AGENT_SERVICE
from scale0.wire.frames import PLAIN, Dialect
from scale0.wire.options import Fault
from scale0.wire.zap import Origin

BEHIND_BEATS = 3  # heartbeats running that must be late before a clock is believed wrong: a queue or a stop ages one
WARN_SKEW = 5.0  # seconds from which on `status` lists a clock
FORCED = (
    65_536  # connections of which the last FORCENEGOTIATE is remembered, so that none gets more than one an interval
)
CLAIMS = 1_000  # identities of which the holders are probed at once
REFUSALS = 5  # times that a client may be told of a new configuration and keep the old one
SERVICES_PER_WORKER = 20_000  # a Helen with its agents; twice the 10,000 that one is built for
RETRY_LATER, RETRY_DISABLED = 1000, 30_000  # ms after which a refused peer may come back


class Sessions:
    """Holds all sessions, by address and by identity. `documents` are those that heartbeats tell the digest of."""

    def __init__(self, context: Context, routing: Routing, peers: Peers, documents: Documents) -> None:
        self._c, self._routing, self._peers, self._documents = context, routing, peers, documents
        self.all: dict[Address, Session] = {}
        self.clocks = Clocks(context)
        self._takeovers = Takeovers(context)
        self._by_identity: dict[str, Session] = {}
        self._forced: OrderedDict[Address, float] = OrderedDict()
        self._claims: dict[int, tuple[Session, Address, Origin, Dialect, opt.CheckConfig]] = {}
        self._claim = 0

    # ------------------------------------------------------------------------------- negotiation

    def check_config(self, address: Address, origin: Origin, dialect: Dialect, o: opt.CheckConfig) -> Session | None:
        """Begin or renew the session of a connection that says CHECKCONFIG, and answer it.

        Returns None if another connection holds the identity, with another key or in a contest (takeovers.py): that one
        is probed first, see `probed`. Raises Fault if
        the claims are not allowed on this port, or if too many holders are being probed.
        """
        role = self._role(address, o.role)
        self._check_claims(role, o)
        holder = self._by_identity.get(o.identity)
        if holder is None or holder.address == address:
            return self._admit(address, origin, dialect, role, o)
        if origin.key and origin.key == holder.origin.key and not self._takeovers.is_contested(o.identity):
            self.drop(holder)  # the same key on a new connection: the newest wins
            return self._admit(address, origin, dialect, role, o)
        if len(self._claims) >= CLAIMS:
            raise Fault(409, "identity_in_use", f"{o.identity} is held by another connection")
        self._claim += 1
        self._claims[self._claim] = (holder, address, origin, dialect, o)
        self._c.effects.append(Probe(holder.address, self._heartbeat_frames(holder), self._claim))
        return None

    def probed(self, claim: int, gone: bool) -> Session | None:
        """Give an identity to the claiming connection if its holder is `gone`; refuse it otherwise.

        Returns the session that was admitted, or None. A Fault raised on the way becomes the refusal.
        """
        holder, address, origin, dialect, o = self._claims.pop(claim)
        if gone and self.all.get(holder.address) is holder:
            self.drop(holder)
        elif not gone and origin.key and origin.key == holder.origin.key:
            self._takeovers.alarm(o.identity, origin.key, (holder.origin.address, origin.address))
        try:
            if o.identity in self._by_identity:
                raise Fault(409, "identity_in_use", f"{o.identity} is held by a living peer")
            return self._admit(address, origin, dialect, self._role(address, o.role), o)
        except Fault as fault:
            self.refuse(address, dialect, fault)
            return None

    def _role(self, address: Address, wanted: str) -> str:
        here = {FRONTEND: "frontend", BACKEND: "backend"}.get(address[0], "peer")
        role = wanted or here
        if role != here and not (self._c.one_port and address[0] == FRONTEND and role != "peer"):
            raise Fault(400, "malformed", f"role {role} does not belong on the {here} port")
        return role

    def _check_claims(self, role: str, o: opt.CheckConfig) -> None:
        try:
            values.IDENTITY(o.identity)
        except ValueError as e:
            raise Fault(400, "malformed", f"an identity has {e}") from None
        if role == "backend":
            self._check_services(o.services)

    def _check_services(self, services: list[str]) -> None:
        opt.check_service_names(services)
        wrong = next((s for s in services if not self._c.serves(s)), None)
        if wrong is not None:
            raise Fault(421, "wrong_broker", f"{wrong} is not served here; ask NEEDBROKER for a broker that does")

    def _admit(self, address: Address, origin: Origin, dialect: Dialect, role: str, o: opt.CheckConfig) -> Session:
        session = self.all.get(address)
        if session is not None and session.identity != o.identity:
            self.drop(session)
            session = None
        if session is None:
            session = Session(address, origin, dialect, role, o.identity, 0.0, self._c.now, since=self._c.now)
            self.enter(session)
        session.dialect, session.stale_since = dialect, None
        session.is_own = self._c.grants.is_own(o.token)
        session.interval = self._interval(o.hbeatinterval)
        self._c.later(("beat", address), session.interval)
        self._answer_config(session, o)
        if role == "peer":
            session.ready = True
        return session

    def _interval(self, wanted: float | None) -> float:
        """Return the heartbeat interval of a session: longer than the default, if asked for; never shorter."""
        return max(wanted or 0.0, self._c.config.default_heartbeat_interval)

    def _answer_config(self, session: Session, o: opt.CheckConfig) -> None:
        options: Options = {
            "config_version": self._c.version_text,
            "time": self._c.wall,
            "hbeatinterval": session.interval,
            "broker": self._c.config.identity,
        }
        if o.config_version == self._c.version_text:
            session.version = self._c.version
            self._c.tell(session.address, session.dialect, "CONFIGACK", options)
            return
        tree = cfg.client_document(self._c.config, o.identity, o.services, session.role == "backend")
        self._fill_own_endpoints(tree)
        try:
            body = syntax.write(tree, o.config_type)
        except syntax.Unreadable as e:
            self.drop(session)
            raise Fault(400, "malformed", e.message) from None
        options |= {"config_type": o.config_type, "digest": cfg.digest(body)}
        self._c.tell(session.address, session.dialect, "CONFIG", options, [body])

    def _fill_own_endpoints(self, tree: Options) -> None:
        """Add the endpoints of this broker, unless the configuration has them."""
        for group in tree["group_config"]:
            for member in group.get("brokers", ()):
                if member["identity"] == self._c.config.identity:
                    for name in ("frontend", "backend", "public_key"):
                        if (value := getattr(self._c.endpoints, name)) and name not in member:
                            member[name] = value

    def enter(self, session: Session, claims: bool = True) -> None:
        """Add a session; without `claims` its identity is not taken, as on links, where it is the peer broker's."""
        self.all[session.address] = session
        if session.identity and claims:
            self._by_identity[session.identity] = session
        self._c.later(("lapse", session.address), LIVENESS * self._c.config.default_heartbeat_interval)

    # ------------------------------------------------------------------- readiness and heartbeats

    def ready(self, session: Session, o: opt.Ready) -> None:
        """Give a worker the services and the concurrency of its READY, which may come any number of times.

        Raises Fault if a service is not allowed here or to this peer, there are too many, or the clocks differ.
        """
        self._check_offer(session, o.services, o.epochs)
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
        self._routing.pool.replace(worker, o.services)
        self._set_epochs(worker, session.identity, o.epochs, o.seals)
        self._routing.pool.freed(worker)
        self.beat(session)
        self._serve(worker, o.services)

    def services(self, session: Session, o: opt.ServicesDelta) -> None:
        """Change the services of a worker; a gap in `seq` means that something was lost, and it must negotiate again.

        Raises Fault if a service is not allowed here or to this peer, or there are too many.
        """
        worker = session.worker
        if worker is None or not session.ready or (o.seq and o.seq > session.seq + 1):
            self.force(session.address, session.dialect, "send READY with all services")
            return
        if o.seq and o.seq <= session.seq:
            return
        self._check_offer(session, o.add, o.epochs)
        if len(worker.services) + len(o.add) > SERVICES_PER_WORKER:
            raise Fault(413, "too_large", f"a worker has at most {SERVICES_PER_WORKER} services")
        session.seq = o.seq or session.seq
        self._routing.pool.withdraw(worker, o.remove)
        self._routing.pool.offer(worker, o.add)
        self._set_epochs(worker, session.identity, o.epochs, o.seals)
        self._serve(worker, o.add)

    def _serve(self, worker: Worker, services: list[str]) -> None:
        if len(services) < 100:
            for service in services:
                self._routing.serve(service)
        else:
            self._routing.serve_worker(worker)

    def _check_offer(self, session: Session, services: list[str], epochs: dict[str, int]) -> None:
        """Raise Fault if the peer may not offer a service, or claims to have attached an agent in the future."""
        self._check_services(services)
        caller = self._c.grants.caller(session.origin, self._c.config, session.is_own)
        why = self._c.grants.why_not_offer(caller, services, session.origin.key)
        if why:
            self._c.counts["not_allowed"] += 1
            self._c.alarm_once(f"{session.identity} may not offer what it offers: {why}")
            raise Fault(403, "not_allowed", why)
        late = next((s for s, epoch in epochs.items() if self.is_to_come(s, epoch)), None)
        if late is not None:
            raise Fault(422, "clock_skew", f"{late}: its epoch lies in the future; set the clocks right")

    def is_to_come(self, service: str, epoch: int) -> bool:
        """Return True for the attachment of an agent later than now, and than clocks may differ.

        Epochs of agents are unix milliseconds: one that never comes would hold its agent for ever.
        """
        return service.startswith(AGENT_SERVICE) and epoch > 1000 * (self._c.wall + self._c.config.max_skew)

    def _set_epochs(self, worker: Worker, identity: str, epochs: dict[str, int], seals: dict[str, str]) -> None:
        """Note attach epochs; of two workers here that offer a service, the one with the higher epoch keeps it.

        peer_links.py does the same between brokers.
        """
        for service, epoch in epochs.items():
            if service not in worker.services:
                continue
            worker.epochs[service] = epoch
            worker.seals.pop(service, None)
            if service in seals:
                worker.seals[service] = seals[service]
            for other in list(self._routing.pool.workers(service)):
                if other is worker or (held := other.epochs.get(service)) is None:
                    continue
                if held < epoch:
                    self.withdraw(other, service, (identity, epoch), seals.get(service, ""))
                else:
                    session = self.all.get(other.address)
                    self.withdraw(
                        worker, service, (session.identity if session else "", held), other.seals.get(service, "")
                    )

    def withdraw(self, worker: Worker, service: str, holder: tuple[str, int], seal: str = "") -> None:
        """Take a service from a worker, as a newer holder (its identity and epoch) has it, and tell the worker."""
        self._routing.pool.withdraw(worker, [service])
        self._c.counts["moved"] += 1
        if worker.dialect not in PLAIN:
            options: Options = {"remove": [service], "holders": {service: holder}}
            self._c.tell(
                worker.address, worker.dialect, "SERVICES", options | ({"seals": {service: seal}} if seal else {})
            )

    def heartbeat(self, session: Session, o: opt.Heartbeat) -> None:
        """Note clock and configuration of a session. Raises Fault for a wrong clock or an old configuration."""
        if session.role == "peer":
            # A peer broker with a wrong clock is shown, not cut: the wrong one may be here. Its configuration comes by
            # config_sub_ports.
            session.version = int(o.config_version)
            self._note_clock(session, o.time - self._c.wall)
        else:
            self._check_clock(session, o.time)
            self._note_version(session, o.config_version)

    def _check_clock(self, session: Session, time: float) -> None:
        skew, limit = time - self._c.wall, self._c.config.max_skew
        if -limit - self._c.age <= skew < -limit:
            return  # the message is as old as this broker has stood still
        self._note_clock(session, skew)
        session.behind = session.behind + 1 if skew < -limit else 0
        if (skew > limit or session.behind >= BEHIND_BEATS) and not self.clocks.is_ours(skew):
            raise Fault(422, "clock_skew", f"the clocks differ by {min(abs(skew), 1e9):.1f} s; set them right")

    def _note_clock(self, session: Session, skew: float) -> None:
        session.skew, session.is_timed = skew, True
        self.clocks.note(session.origin.key or session.identity, skew)

    def _note_version(self, session: Session, version: str) -> None:
        """Make a client negotiate that goes on with an old configuration; refuse it when it does not do so."""
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

    # --------------------------------------------------------- connections that must negotiate, refusals

    def force(self, address: Address, dialect: Dialect, reason: str) -> None:
        """Send FORCENEGOTIATE, or DISCONNECT to plain workers, at most once per connection and interval."""
        last = self._forced.get(address)
        if last is not None and self._c.now - last < self._c.config.default_heartbeat_interval:
            return
        self._forced[address] = self._c.now
        self._forced.move_to_end(address)
        if len(self._forced) > FORCED:
            self._forced.popitem(last=False)
        if dialect in PLAIN:
            self.disconnect(address, dialect)
        else:
            self._c.tell(address, dialect, "FORCENEGOTIATE", {"reason": reason})

    def disconnect(self, address: Address, dialect: Dialect) -> None:
        """Send DISCONNECT to a Majordomo worker, which then opens a new socket and says READY again."""
        self._c.send(address, wire.to_worker(dialect, "DISCONNECT"))

    def force_all(self, reason: str) -> None:
        """Make all clients and workers negotiate again, spread over one interval so that they do not come at once."""
        for session in self.all.values():
            if not session.is_plain and session.role != "peer":
                self._c.later(("force", session.address, reason), self._c.rng.random() * session.interval)

    def refuse(self, address: Address, dialect: Dialect, fault: Fault, **more: object) -> None:
        """Send DISCONNECTERROR, the last message of a session, and drop the session; `more` are further options."""
        session = self.all.get(address)
        options: Options = {"code": fault.code, "message": fault.message, "reason": fault.reason, **more}
        if fault.code == 503:
            options.setdefault("retry_after_ms", RETRY_LATER)
        if fault.code == 422 and session is not None:
            options |= {"server_time": self._c.wall, "skew_ms": int(max(-1e15, min(1e15, 1000 * session.skew)))}
        if session is not None:
            self.drop(session)
        self._c.counts[f"refused_{fault.code}"] += 1
        self._c.tell(address, dialect, "DISCONNECTERROR", options)

    # --------------------------------------------------------------------------- own heartbeats, endings

    def beat(self, session: Session) -> None:
        """Send a heartbeat and set the timer of the next; busy workers get them too."""
        self._c.send(session.address, self._heartbeat_frames(session))
        self._c.later(("beat", session.address), session.interval)

    def _heartbeat_frames(self, session: Session) -> list[bytes]:
        if session.is_plain:
            return wire.to_worker(session.dialect, "HEARTBEAT")
        options: Options = {"time": self._c.wall, "config_version": self._c.version_text}
        is_peer = session.role == "peer"
        if is_peer:
            options |= {"state": self._c.state, "seq": self._peers.own.seq, "digest": self._peers.own.digest}
            options["broker"] = self._c.config.identity
        if is_peer or session.shares:
            options["documents"] = self._documents.digest
        return wire.scale0(session.dialect, "HEARTBEAT", opt.encode(options))

    def has_lapsed(self, session: Session) -> bool:
        """Return True after three intervals of silence, else set the timer again.

        Plain workers that work are allowed to be silent; busy_timeout watches them. A tick that comes late judges by
        the time at which it was due.
        """
        now, due = self._c.now, session.last_received + LIVENESS * session.interval
        worker = session.worker
        busy = worker is not None and bool(worker.inflight) and not worker.beats_while_busy
        if due > now or busy:
            self._c.at(("lapse", session.address), max(due, now + session.interval) if busy else due)
            return False
        if due > now - self._c.late:  # it was in time when this tick was due: what it sent since may wait to be read
            self._c.at(("lapse", session.address), now + self._c.late)
            return False
        self._c.counts["lapsed"] += 1
        return True

    def lapse(self, session: Session) -> None:
        """End a session that has been silent for too long."""
        if self.has_lapsed(session):
            self.end(session, Fault(408, "heartbeat_lost", f"nothing received for {LIVENESS} intervals"))

    def end(self, session: Session, fault: Fault, retry_after_ms: int = 0) -> None:
        """End a session with a message in its own dialect."""
        if not session.is_plain:
            more = {"retry_after_ms": retry_after_ms} if retry_after_ms else {}
            self.refuse(session.address, session.dialect, fault, **more)
            return
        self.drop(session)
        self.disconnect(session.address, session.dialect)

    def drop(self, session: Session, undelivered: bytes = b"") -> None:
        """Forget a session; requests that its worker held are retried. `undelivered` is a token that never left."""
        if self.all.get(session.address) is not session:
            return
        del self.all[session.address]
        if self._by_identity.get(session.identity) is session:
            del self._by_identity[session.identity]
        for kind in ("beat", "lapse"):
            self._c.timers.cancel((kind, session.address))
        if session.role == "peer":
            self._peers.remove(session)
        if session.worker is not None:
            self._routing.lose(session.worker, undelivered)

    def received(self, session: Session) -> None:
        """Note that something was received; any message counts as a heartbeat."""
        session.last_received = self._c.now
        if session.worker is not None and session.worker.slow:
            self._routing.received(session.worker)
