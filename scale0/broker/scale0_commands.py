"""Dispatches Scale0 commands: checks the port that each came on, and gives it to the part that serves it. Pure.

A part of the broker. With one port for frontends and backends, either may send its commands there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scale0.broker.context import BACKEND, FRONTEND, PEER, Context, Options
from scale0.broker.majordomo import Majordomo
from scale0.broker.management_requests import Management, ManagementRequest
from scale0.broker.negotiation import Negotiation
from scale0.broker.peer_links import PeerLinks
from scale0.broker.peers import Peers
from scale0.broker.requests.queues import PendingRequest
from scale0.broker.requests.routing import Routing
from scale0.broker.requests.worker_pool import Address
from scale0.broker.session import Session
from scale0.broker.sessions import Sessions
from scale0.broker.sharing import Sharing
from scale0.broker.worker_offers import WorkerOffers
from scale0.wire import options as opt
from scale0.wire.frames import Message, is_service_name
from scale0.wire.options import Fault
from scale0.wire.zap import Origin, may_use

FROM_WORKERS = frozenset({"READY", "SERVICES"})
REPLIES = frozenset({"PARTIAL", "FINAL"})
FROM_PEERS = frozenset({"FORWARD", "TABLE", "TABLEREQ"})
SHARED = frozenset({"PUBLISH", "DOCUMENTS"})
ANYWHERE = frozenset({"CHECKCONFIG", "HEARTBEAT", "NEEDBROKER", "MANAGEMENTREQ", "DISCONNECT", "CANCEL"})


def belongs(command: str, socket: str, is_link: bool, one_port: bool) -> bool:
    """Return True if a command may come on this socket at all; if it may come now is checked elsewhere.

    `is_link`: the socket is our own connection to a peer broker.
    """
    if command == "REQUEST":
        return socket in (FRONTEND, BACKEND)  # a backend may ask for something, too
    if command in SHARED:
        return socket != FRONTEND or one_port
    if command in FROM_WORKERS:
        return socket == BACKEND or (one_port and socket == FRONTEND)
    if command in REPLIES:
        return socket != FRONTEND or one_port
    if command in FROM_PEERS:
        return socket == PEER or is_link
    return command in ANYWHERE or is_link


class Scale0Commands:
    """Dispatches the commands of Scale0. `bound_to` returns the only identity that a key may use, None for any."""

    def __init__(
        self,
        context: Context,
        sessions: Sessions,
        routing: Routing,
        peers: Peers,
        peer_links: PeerLinks,
        sharing: Sharing,
        management: Management,
        majordomo: Majordomo,
        negotiation: Negotiation,
        offers: WorkerOffers,
        bound_to: Callable[[str], str | None],
    ) -> None:
        self._c, self._sessions, self._routing, self._peers = context, sessions, routing, peers
        self._peer_links, self._sharing, self._management = peer_links, sharing, management
        self._majordomo, self._negotiation, self._offers, self._bound_to = majordomo, negotiation, offers, bound_to
        self._handlers: dict[str, Callable[[Address, Origin, Message, Any], None]] = {
            "CHECKCONFIG": self._check_config,
            "READY": self._ready,
            "SERVICES": self._services,
            "HEARTBEAT": self._heartbeat,
            "REQUEST": self._request,
            "CANCEL": self._cancel,
            "PARTIAL": self._reply,
            "FINAL": self._reply,
            "MANAGEMENTREQ": self._manage,
            "NEEDBROKER": self._need_broker,
            "DISCONNECT": self._disconnect,
            "FORWARD": self._forward,
            "TABLE": self._table,
            "TABLEREQ": self._table_wanted,
            "PUBLISH": self._publish,
            "DOCUMENTS": self._compare,
            "PUBLISHED": lambda address, origin, message, o: None,  # from a peer: DOCUMENTS will list what it has
            "CONFIG": lambda address, origin, message, o: self._peer_links.config_received(address, o),
            "CONFIGACK": lambda address, origin, message, o: self._peer_links.config_received(address, o),
            "FORCENEGOTIATE": lambda address, origin, message, o: self._peer_links.forced(address),
            "DISCONNECTERROR": lambda address, origin, message, o: self._peer_links.refused(address, o),
        }

    def handle(self, address: Address, origin: Origin, message: Message) -> None:
        """Serve one command. Raises Fault, which the sender is told, if it is malformed or not allowed."""
        o = opt.decode(message.command, message.options, message.version)
        command, socket = message.command, address[0]
        is_link = socket not in (FRONTEND, BACKEND, PEER)
        if not belongs(command, socket, is_link, self._c.one_port):
            raise Fault(400, "malformed", f"{command} does not belong on this port")
        if self._c.state == "joining" and socket in (FRONTEND, BACKEND) and command != "MANAGEMENTREQ":
            fault = Fault(503, "joining", "this broker has no configuration yet")
            self._sessions.refuse(address, message.dialect, fault)
            return
        self._handlers[command](address, origin, message, o)

    def handle_while_disabled(self, address: Address, origin: Origin, message: Message) -> None:
        """Serve a management request, which may enable the broker; a malformed one is dropped."""
        if message.command == "MANAGEMENTREQ":
            try:
                o = opt.decode(message.command, message.options, message.version)
            except Fault:
                return
            self._manage(address, origin, message, o)

    # --------------------------------------------------------------------------------- negotiation

    def _check_config(self, address: Address, origin: Origin, message: Message, o: opt.CheckConfig) -> None:
        bound = self._bound_to(origin.key) if origin.key else None
        if not may_use(bound, o.identity):
            raise Fault(403, "not_allowed", f"this key belongs to {bound}, not to {o.identity}")
        if o.role == "peer" or address[0] == PEER:
            if o.identity == self._c.config.identity:
                raise Fault(409, "identity_in_use", f"{o.identity} is this broker; is its own port among its peers?")
            member = self._c.config.member(o.identity)
            if member is not None and member.public_key and origin.key and origin.key != member.public_key:
                raise Fault(403, "not_allowed", f"{o.identity} has another key in the group's configuration")
        self.admitted(self._negotiation.check_config(address, origin, message.dialect, o))

    def admitted(self, session: Session | None) -> None:
        """Add a session to the channels of its peer broker, if it is of one."""
        if session is not None and session.role == "peer":
            self._peer_links.joined(session)

    def _session(self, address: Address, message: Message) -> Session | None:
        """Return the session of a connection; without one send FORCENEGOTIATE and return None."""
        session = self._sessions.all.get(address)
        if session is None or session.is_plain:
            if address not in self._peers.links:  # there this broker negotiates, and will do so by itself
                self._sessions.force(address, message.dialect, "unknown here")
            return None
        return session

    def _ready(self, address: Address, origin: Origin, message: Message, o: opt.Ready) -> None:
        if (session := self._session(address, message)) is not None:
            self._offers.ready(session, o)

    def _services(self, address: Address, origin: Origin, message: Message, o: opt.ServicesDelta) -> None:
        if (session := self._session(address, message)) is not None:
            self._offers.services(session, o)

    def _heartbeat(self, address: Address, origin: Origin, message: Message, o: opt.Heartbeat) -> None:
        if (session := self._session(address, message)) is not None:
            self._sessions.heartbeat(session, o)
            if session.role == "peer":
                self._peer_links.heartbeat(session, o)
                self._sharing.beat(session, o)

    def _disconnect(self, address: Address, origin: Origin, message: Message, o: opt.Nothing) -> None:
        session = self._sessions.all.get(address)
        if session is not None and not session.is_plain:
            self._sessions.drop(session)

    # ------------------------------------------------------------------------- requests and replies

    def _request(self, address: Address, origin: Origin, message: Message, o: opt.Request) -> None:
        c, service = self._c, o.service
        if not is_service_name(service):
            raise Fault(400, "malformed", "no service name")
        session = self._sessions.all.get(address)
        if address[0] == BACKEND and (session is None or session.is_plain or not session.ready):
            raise Fault(400, "malformed", "on this port only a backend that is ready may ask")
        if session is None:
            self._sessions.force(address, message.dialect, "unknown here")  # served all the same
        if service.startswith("mmi."):
            code = self._majordomo.mmi(service, message.body)
            c.tell(address, message.dialect, "FINAL", {"id": o.id, "code": 200}, [code])
            return
        idempotent = c.policy(service).idempotent and o.idempotent is not False
        deadline = None if o.timeout_ms is None else c.now + o.timeout_ms / 1000
        request = PendingRequest(
            c.token(), address, message.dialect, service, o.id, message.body, o.priority, idempotent, deadline
        )
        caller = c.grants.caller(origin, c.config, session is not None and session.is_own)
        request.asked_by = c.grants.asker(caller, service, "" if session is None else session.identity, origin)
        why = c.grants.why_not_ask(caller, service, origin.key)
        if why:
            c.counts["not_allowed"] += 1
            self._routing.refuse(request, 403, "not_allowed", why)
        elif not c.serves(service):
            self._routing.refuse(request, 421, "wrong_broker", f"{service} is not served here; ask NEEDBROKER")
        elif service.startswith("equus.") and not self._routing.knows(service):
            agent = service.removeprefix("equus.")
            self._routing.refuse(request, 404, "unknown_agent", f"no Helen in reach has {agent}")
        else:
            self._routing.accept(request)

    def _cancel(self, address: Address, origin: Origin, message: Message, o: opt.Cancel) -> None:
        self._routing.cancel(address, o.id)

    def _reply(self, address: Address, origin: Origin, message: Message, o: opt.Reply) -> None:
        session = self._sessions.all.get(address)
        if session is None or session.worker is None:
            if address not in self._peers.links:
                self._sessions.force(address, message.dialect, "unknown worker")
            return
        try:
            token = bytes.fromhex(o.id)
        except ValueError:
            token = b""
        if o.refused and session.worker.peer:
            self._routing.handed_back(session.worker, token)
        elif not self._routing.reply(session.worker, token, message.body, message.command == "FINAL", o.code, o.reason):
            raise Fault(400, "malformed", "a reply to a request that another worker has")

    # ----------------------------------------------------------------- management, peers, documents

    def _manage(self, address: Address, origin: Origin, message: Message, o: opt.ManagementReq) -> None:
        self.manage(ManagementRequest(address, origin, message.dialect, o))

    def manage(self, request: ManagementRequest) -> None:
        """Have a management request checked; a disabled broker is silent to all but `enable`."""
        if self._c.state != "disabled" or request.options.command == "enable":
            self._management.request(request)

    def _need_broker(self, address: Address, origin: Origin, message: Message, o: opt.NeedBroker) -> None:
        self._c.tell(address, message.dialect, "USEBROKER", self._peers.find_broker(o))

    def _forward(self, address: Address, origin: Origin, message: Message, o: opt.Forward) -> None:
        if (session := self._session(address, message)) is not None:
            self._peer_links.forward(session, o, message.body)

    def _table(self, address: Address, origin: Origin, message: Message, o: opt.Table) -> None:
        if (session := self._session(address, message)) is not None:
            self._peer_links.table_received(session, o)

    def _table_wanted(self, address: Address, origin: Origin, message: Message, o: opt.TableReq) -> None:
        if (session := self._session(address, message)) is not None:
            self._peer_links.table_wanted(session)

    def _publish(self, address: Address, origin: Origin, message: Message, o: opt.Publish) -> None:
        if (session := self._session(address, message)) is not None:
            why = self._why_not_share(session, origin)
            if not why:
                self._sharing.publish(session, o, message.body)
            elif session.role != "peer":
                options: Options = {"name": o.name, "version": o.version, "verdict": "refused", "reason": why}
                self._c.tell(address, message.dialect, "PUBLISHED", options)

    def _compare(self, address: Address, origin: Origin, message: Message, o: opt.DocumentsTold) -> None:
        session = self._session(address, message)
        if session is not None and not self._why_not_share(session, origin):
            self._sharing.compared(session, o)

    def _why_not_share(self, session: Session, origin: Origin) -> str:
        c, is_link = self._c, session.address in self._peers.links
        why = c.grants.why_not_share(c.grants.caller(origin, c.config, session.is_own, is_link), origin.key)
        c.counts["not_allowed"] += bool(why)
        return why
