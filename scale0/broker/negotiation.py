"""Negotiates role, identity and configuration with a connection that introduces itself by CHECKCONFIG. Pure.

An identity that another connection holds is claimed: the holder is probed first, and keeps it if it lives.
"""

from __future__ import annotations

from scale0.broker.context import BACKEND, FRONTEND, Context, Options, Probe
from scale0.broker.requests.worker_pool import Address
from scale0.broker.session import Session
from scale0.broker.sessions import Sessions
from scale0.broker.takeovers import Takeovers
from scale0.broker.worker_offers import check_services
from scale0.config import config as cfg
from scale0.config import syntax, values
from scale0.wire import options as opt
from scale0.wire.frames import Dialect
from scale0.wire.options import Fault
from scale0.wire.zap import Origin

CLAIMS = 1_000  # identities of which the holders are probed at once


class Negotiation:
    """Begins and renews the sessions of one broker, and answers with CONFIG, CONFIGACK or a refusal."""

    def __init__(self, context: Context, sessions: Sessions) -> None:
        self._c, self._sessions = context, sessions
        self._takeovers = Takeovers(context)
        self._claims: dict[int, tuple[Session, Address, Origin, Dialect, opt.CheckConfig]] = {}
        self._claim = 0

    def check_config(self, address: Address, origin: Origin, dialect: Dialect, o: opt.CheckConfig) -> Session | None:
        """Begin or renew the session of a connection that says CHECKCONFIG, and answer it.

        Returns None if another connection holds the identity, with another key or in a contest (takeovers.py): that one
        is probed first, see `probed`.

        Raises Fault if the claims are not allowed on this port, or if too many holders are being probed.
        """
        role = self._role(address, o.role)
        self._check_claims(role, o)
        holder = self._sessions.by_identity.get(o.identity)
        if holder is None or holder.address == address:
            return self._admit(address, origin, dialect, role, o)
        if origin.key and origin.key == holder.origin.key and not self._takeovers.is_contested(o.identity):
            self._sessions.drop(holder)  # the same key on a new connection: the newest wins
            return self._admit(address, origin, dialect, role, o)
        if len(self._claims) >= CLAIMS:
            raise Fault(409, "identity_in_use", f"{o.identity} is held by another connection")
        self._claim += 1
        self._claims[self._claim] = (holder, address, origin, dialect, o)
        self._c.effects.append(Probe(holder.address, self._sessions.heartbeat_frames(holder), self._claim))
        return None

    def probed(self, claim: int, gone: bool) -> Session | None:
        """Give an identity to the claiming connection if its holder is `gone`; refuse it otherwise.

        Returns the session that was admitted, or None. A Fault raised on the way becomes the refusal.
        """
        holder, address, origin, dialect, o = self._claims.pop(claim)
        if gone and self._sessions.all.get(holder.address) is holder:
            self._sessions.drop(holder)
        elif not gone and origin.key and origin.key == holder.origin.key:
            self._takeovers.alarm(o.identity, origin.key, (holder.origin.address, origin.address))
        try:
            if o.identity in self._sessions.by_identity:
                raise Fault(409, "identity_in_use", f"{o.identity} is held by a living peer")
            return self._admit(address, origin, dialect, self._role(address, o.role), o)
        except Fault as fault:
            self._sessions.refuse(address, dialect, fault)
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
            check_services(self._c, o.services)

    def _admit(self, address: Address, origin: Origin, dialect: Dialect, role: str, o: opt.CheckConfig) -> Session:
        session = self._sessions.all.get(address)
        if session is not None and session.identity != o.identity:
            self._sessions.drop(session)
            session = None
        if session is None:
            session = Session(address, origin, dialect, role, o.identity, 0.0, self._c.now, since=self._c.now)
            self._sessions.enter(session)
        session.dialect, session.stale_since = dialect, None
        session.is_own = self._c.grants.is_own(o.token)
        session.interval = self._sessions.interval(o.hbeatinterval)
        self._c.later(("beat", address), session.interval)
        self._answer_config(session, o)
        if role == "peer":
            session.ready = True
        return session

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
            self._sessions.drop(session)
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
