"""Keeps and ends sessions: heartbeats, clocks, versions of the configuration. Pure: a part of the broker.

negotiation.py begins sessions, and worker_offers.py takes the services of workers.

A session is one connection (socket and routing id) that has introduced itself: a Majordomo worker by READY, a Scale0
client, worker or broker by CHECKCONFIG. Majordomo clients have none. It ends by DISCONNECT, by an error of its own, by
three intervals of silence, or when a message to it finds no connection.
"""

from __future__ import annotations

from collections import OrderedDict

from scale0.broker.clocks import Clocks
from scale0.broker.context import LIVENESS, Context, Options
from scale0.broker.peers import Peers
from scale0.broker.requests.routing import Routing
from scale0.broker.requests.worker_pool import Address
from scale0.broker.session import Session
from scale0.documents.collection import Documents
from scale0.wire import frames as wire
from scale0.wire import options as opt
from scale0.wire.frames import PLAIN, Dialect
from scale0.wire.options import Fault

BEHIND_BEATS = 3  # heartbeats running that must be late before a clock is believed wrong: a queue or a stop ages one
WARN_SKEW = 5.0  # seconds from which on `status` lists a clock
FORCED = (
    65_536  # connections of which the last FORCENEGOTIATE is remembered, so that none gets more than one an interval
)
REFUSALS = 5  # times that a client may be told of a new configuration and keep the old one
RETRY_LATER, RETRY_DISABLED = 1000, 30_000  # ms after which a refused peer may come back


class Sessions:
    """Holds all sessions, by address and by identity. `documents` are those that heartbeats tell the digest of."""

    def __init__(self, context: Context, routing: Routing, peers: Peers, documents: Documents) -> None:
        self._c, self._routing, self._peers, self._documents = context, routing, peers, documents
        self.all: dict[Address, Session] = {}
        self.clocks = Clocks(context)
        self.by_identity: dict[str, Session] = {}
        self._forced: OrderedDict[Address, float] = OrderedDict()

    def interval(self, wanted: float | None) -> float:
        """Return the heartbeat interval of a session: longer than the default, if asked for; never shorter."""
        return max(wanted or 0.0, self._c.config.default_heartbeat_interval)

    def enter(self, session: Session, claims: bool = True) -> None:
        """Add a session; without `claims` its identity is not taken, as on links, where it is the peer broker's."""
        self.all[session.address] = session
        if session.identity and claims:
            self.by_identity[session.identity] = session
        self._c.later(("lapse", session.address), LIVENESS * self._c.config.default_heartbeat_interval)

    # --------------------------------------------------------------------------- clocks and versions

    def heartbeat(self, session: Session, o: opt.Heartbeat) -> None:
        """Note clock and configuration of a session. Raises Fault for a wrong clock or an old configuration."""
        if session.role == "peer":
            # A peer broker with a wrong clock is shown, not cut: the wrong one may be here. Its configuration comes by
            # config_sub_ports.
            session.version = int(o.config_version)
            self._note_clock(session, o.time - self._c.wall)
        else:
            self.check_clock(session, o.time)
            self.note_version(session, o.config_version)

    def check_clock(self, session: Session, time: float) -> None:
        """Note the clock of a session by the unix time that it tells. Raises Fault if it is wrong."""
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

    def note_version(self, session: Session, version: str) -> None:
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
        self._c.send(session.address, self.heartbeat_frames(session))
        self._c.later(("beat", session.address), session.interval)

    def heartbeat_frames(self, session: Session) -> list[bytes]:
        """Return the message that is this broker's heartbeat in the dialect of a session."""
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
        if self.by_identity.get(session.identity) is session:
            del self.by_identity[session.identity]
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
