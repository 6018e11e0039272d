"""The broker as one state machine: an event and the time in, effects out. Pure; it owns no socket, file or clock.

    broker = Broker(config, version, rng=..., token=...)
    effects = broker.start(now, wall)              joining, active or disabled
    effects = broker.heard(address, frames, origin, now, wall)
    effects = broker.tick(now, wall)               when `due` says so

`now` is monotonic and decides what has lapsed; `wall` is UNIX time and is only told and compared with clocks of others.
Each effect that asks for something (context.py) is answered by the method that its docstring names.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from scale0 import options as opt
from scale0.config import BrokerConfig
from scale0.context import BACKEND, FRONTEND, PEER, Context, Effect, Entered, Options, Publish, Send, Store
from scale0.fellows import Fellows
from scale0.frames import CLIENT, EITHER, Dialect, Message, Nonsense, is_service_name, parse
from scale0.lru import Address
from scale0.majordomo import Majordomo
from scale0.management import Asked, Management
from scale0.options import Fault
from scale0.places import belongs
from scale0.publication import Publication
from scale0.queues import Row
from scale0.routing import Routing
from scale0.sessions import RETRY_DISABLED, RETRY_LATER, Session, Sessions
from scale0.sharing import Sharing
from scale0.zap import Origin, may_use

LOCAL = "local"  # the socket name of management requests that come by HTTP or from Python in this process
COUNTED = frozenset({400, 401, 403, 412, 413, 422, 426})  # refusals that are the peer's own doing
LOG_EVERY = 60.0  # seconds between two lines about one peer's nonsense
LOGGED = 10_000  # peers remembered for that


class Broker:
    def __init__(
        self,
        config: BrokerConfig,
        version: int,
        rng: random.Random,
        token: Callable[[], bytes],
        bound_to: Callable[[str], str | None] = lambda key: None,
        is_authorized: Callable[[str], bool] = lambda key: True,
    ) -> None:
        """`bound_to` names the only identity that a CURVE key may use, if any; `is_authorized` may change its mind."""
        self.context = self._c = Context(config, version, rng, token)
        self.routing = Routing(self._c)
        self.sessions = Sessions(self._c, self.routing)
        self.fellows = Fellows(self._c, self.sessions, self.routing)
        self.management = Management(self._c, self.sessions, self.routing, self.fellows)
        self.management.enter = self._enter
        self.majordomo = Majordomo(self._c, self.sessions, self.routing, self.fellows)
        self.sharing = Sharing(self._c, self.sessions, self.fellows)
        self.sessions.beat_extras = self._extras
        self._bound_to, self._is_authorized = bound_to, is_authorized
        self._logged: OrderedDict[str, float] = OrderedDict()
        self._c.failures.always(config.error_clients)
        self._on_timer: dict[str, Callable[..., None]] = {
            "row": self.routing.expire,
            "run": self._overdue,
            "spill": self.routing.spill,
            "beat": self._beat,
            "lapse": self._lapse,
            "force": self._force,
            "tables": self.fellows.push,
            "check": self.fellows.check_again,
        }
        self._on_command: dict[str, Callable[[Address, Origin, Message, Any], None]] = {
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
            "FORWARD": self._from_fellow,
            "TABLE": self._from_fellow,
            "TABLEREQ": self._from_fellow,
            "PUBLISH": self._publish,
            "DOCUMENTS": self._compare,
            "PUBLISHED": lambda address, origin, message, o: None,  # of a fellow: it will say what it has
            "CONFIG": lambda address, origin, message, o: self.fellows.told_config(address, o),
            "CONFIGACK": lambda address, origin, message, o: self.fellows.told_config(address, o),
            "FORCENEGOTIATE": lambda address, origin, message, o: self.fellows.forced(address),
            "DISCONNECTERROR": lambda address, origin, message, o: self.fellows.refused(address, o),
        }

    @property
    def state(self) -> str:
        return self._c.state

    @property
    def config(self) -> BrokerConfig:
        return self._c.config

    @property
    def version(self) -> int:
        return self._c.version

    @property
    def due(self) -> float | None:
        """When `tick` is wanted next."""
        return self._c.timers.next()

    # ------------------------------------------------------------------------------------- events

    def start(self, now: float, wall: float, state: str = "") -> list[Effect]:
        """`state`: what it was when it last ran, if that is to outlive what the configuration says."""
        self._at(now, wall)
        self._set_state(state or self._c.config.state)
        return self._take()

    def heard(self, address: Address, frames: Sequence[bytes], origin: Origin, now: float, wall: float) -> list[Effect]:
        """A message on one of our sockets, its routing id taken off; `address` is (socket, routing id)."""
        self._at(now, wall)
        if self._c.failures.banned(origin.name, now):
            self._c.failures.dropped(origin.name)
            return self._take()
        session = self.sessions.all.get(address)
        if session is not None:
            self.sessions.heard(session)
        try:
            message = parse(frames)
        except Nonsense as e:
            self._nonsense(origin, str(e))
            return self._take()
        try:
            self._message(address, origin, message)
        except Fault as fault:
            if fault.code in COUNTED:
                self._failure(origin, fault.reason)
            self.sessions.refuse(address, message.dialect, fault)
        return self._take()

    def tick(self, now: float, wall: float) -> list[Effect]:
        self._at(now, wall)
        for key in self._c.timers.due(now):
            self._on_timer[key[0]](*key[1:])
        return self._take()

    def undelivered(self, sent: Send, gone: bool, now: float, wall: float) -> list[Effect]:
        """A message was not sent: its peer has gone, or its pipe is full."""
        self._at(now, wall)
        session = self.sessions.all.get(sent.address)
        row = self.routing.rows.get(sent.token) if sent.token else None
        if gone and session is not None:
            self.sessions.drop(session, sent.token)
        elif row is not None and row.worker is not None:
            (self.routing.lose if gone else self.routing.full)(row.worker, sent.token)
        else:
            self._c.counts["unsent"] += 1
        return self._take()

    def probed(self, claim: int, gone: bool, now: float, wall: float) -> list[Effect]:
        self._at(now, wall)
        self.sessions.probed(claim, gone)
        return self._take()

    def verified(self, ticket: int, right: bool, now: float, wall: float) -> list[Effect]:
        self._at(now, wall)
        self.management.verified(ticket, right)
        return self._take()

    def stored(self, ticket: int, error: str, now: float, wall: float) -> list[Effect]:
        self._at(now, wall)
        self.management.stored(ticket, error)
        return self._take()

    def reloaded(self, ticket: int, fresh: tuple[BrokerConfig, int] | str, now: float, wall: float) -> list[Effect]:
        """The file was read again: a configuration and its version, or what is wrong with it."""
        self._at(now, wall)
        if isinstance(fresh, str):
            self._c.log("error", f"the configuration stays as it was: {fresh}")
            self.management.reloaded(ticket, fresh)
        else:
            self._configure(*fresh)
            self.sessions.force_all("the configuration was reloaded")
            self.management.reloaded(ticket, "")
        return self._take()

    def configured(self, config: BrokerConfig, version: int, now: float, wall: float) -> list[Effect]:
        """A newer configuration has come by the network, or from Python."""
        self._at(now, wall)
        self._configure(config, version)
        if self._c.state == "joining":
            self._set_state("active")
        return self._take()

    def document(self, publication: Publication, now: float, wall: float) -> list[Effect]:
        """A document of the network has come on config_sub_ports."""
        self._at(now, wall)
        self.sharing.heard(publication)
        return self._take()

    def alarm(self, text: str, now: float, wall: float) -> list[Effect]:
        """Something that an operator should look at, such as two documents of one version."""
        self._at(now, wall)
        self._alarm(text)
        return self._take()

    def _alarm(self, text: str) -> None:
        self.management.alarms.append(text)
        self._c.log("error", text)

    def link(self, endpoint: str, up: bool, now: float, wall: float) -> list[Effect]:
        """Our connection to a fellow broker was made, or lost."""
        self._at(now, wall)
        if self._c.state != "disabled":
            (self.fellows.link_up if up else self.fellows.link_down)(endpoint)
        return self._take()

    def manage(
        self, ticket: bytes, request: opt.ManagementReq, origin: Origin, now: float, wall: float, proven: bool = False
    ) -> list[Effect]:
        """A management request from within this process; the answer is a Send to (LOCAL, ticket).

        `proven`: the password of this very auth_id was right a while ago, so that a page may be looked at again.
        """
        self._at(now, wall)
        asked = Asked((LOCAL, ticket), origin, Dialect.S0, request)
        if proven:
            self.management.perform(asked)
        else:
            self._ask_management(asked)
        return self._take()

    def stop(self, now: float, wall: float) -> list[Effect]:
        """Going down: a last word to everybody, so that they need not wait for silence."""
        self._at(now, wall)
        if self._c.state == "active":
            self._farewells("draining", RETRY_LATER)
        return self._take()

    # --------------------------------------------------------------------------- the event in hand

    def _at(self, now: float, wall: float) -> None:
        self._c.now, self._c.wall = now, wall

    def _take(self) -> list[Effect]:
        self.fellows.note_changes()
        for text in self.sharing.alarms:
            self._alarm(text)
        self.sharing.alarms.clear()
        effects, self._c.effects = self._c.effects, []
        return effects

    def _nonsense(self, origin: Origin, what: str) -> None:
        self._c.counts["nonsense"] += 1
        self._failure(origin, what)
        last = self._logged.get(origin.name)
        if last is None or self._c.now - last >= LOG_EVERY:
            self._logged[origin.name] = self._c.now
            if len(self._logged) > LOGGED:
                self._logged.popitem(last=False)
            self._c.log("warn", f"dropped a message from {origin.name or 'a peer'}: {what}")

    def _failure(self, origin: Origin, reason: str) -> None:
        if origin.name and self._c.failures.add(origin.name, reason, self._c.now):
            self._c.log("warn", f"{origin.name} keeps failing ({reason}) and is ignored for a while")

    def _message(self, address: Address, origin: Origin, message: Message) -> None:
        if origin.key and not self._is_authorized(origin.key):
            raise Fault(401, "bad_credentials", "this key is not, or no longer, authorized")
        if self._c.state == "disabled":
            self._while_disabled(address, origin, message)
        elif message.side is EITHER:
            o = opt.decode(message.command, message.options, message.version)
            self._scale0(address, origin, message, o)
        elif self._c.state == "joining":
            self._c.counts["dropped_joining"] += 1
        elif message.side is CLIENT:
            if address[0] != FRONTEND:
                self._nonsense(origin, "a client's command on another port than the frontend's")
            else:
                self.majordomo.request(address, message)
        elif address[0] == BACKEND or (self._c.one_port and address[0] == FRONTEND):
            self.majordomo.worker(address, origin, message)
        else:
            self._nonsense(origin, "a worker's command on another port than the backend's")

    def _while_disabled(self, address: Address, origin: Origin, message: Message) -> None:
        """Read and dropped, but for the one request that ends it."""
        self._c.counts["dropped_disabled"] += 1
        if message.command == "MANAGEMENTREQ" and message.side is EITHER:
            try:
                o = opt.decode(message.command, message.options, message.version)
            except Fault:
                return
            self._manage(address, origin, message, o)

    def _scale0(self, address: Address, origin: Origin, message: Message, o: Any) -> None:
        command, socket = message.command, address[0]
        is_link = socket not in (FRONTEND, BACKEND, PEER)
        if not belongs(command, socket, is_link, self._c.one_port):
            raise Fault(400, "malformed", f"{command} does not belong on this port")
        if self._c.state == "joining" and socket in (FRONTEND, BACKEND) and command != "MANAGEMENTREQ":
            fault = Fault(503, "joining", "this broker has no configuration yet")
            self.sessions.refuse(address, message.dialect, fault)
            return
        self._on_command[command](address, origin, message, o)

    # ---------------------------------------------------------------------------------- Scale0

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
        self.sessions.check_config(address, origin, message.dialect, o)

    def _session(self, address: Address, message: Message) -> Session | None:
        """The session, or FORCENEGOTIATE for want of one."""
        session = self.sessions.all.get(address)
        if session is None or session.is_plain:
            if address not in self.fellows.links:  # there it is we who negotiate, and shall
                self.sessions.force(address, message.dialect, "unknown here")
            return None
        return session

    def _ready(self, address: Address, origin: Origin, message: Message, o: opt.Ready) -> None:
        if (session := self._session(address, message)) is not None:
            self.sessions.ready(session, o)

    def _services(self, address: Address, origin: Origin, message: Message, o: opt.ServicesDelta) -> None:
        if (session := self._session(address, message)) is not None:
            self.sessions.services(session, o)

    def _heartbeat(self, address: Address, origin: Origin, message: Message, o: opt.Heartbeat) -> None:
        if (session := self._session(address, message)) is not None:
            self.sessions.heartbeat(session, o)
            if session.role == "peer":
                self.fellows.heartbeat(session, o)
                self.sharing.beat(session, o)

    def _request(self, address: Address, origin: Origin, message: Message, o: opt.Request) -> None:
        c, service = self._c, o.service
        if not is_service_name(service):
            raise Fault(400, "malformed", "no service name")
        session = self.sessions.all.get(address)
        if address[0] == BACKEND and (session is None or session.is_plain or not session.ready):
            raise Fault(400, "malformed", "on this port a backend that is ready may ask, and nobody else")
        if session is None:
            self.sessions.force(address, message.dialect, "unknown here")  # served all the same
        if service.startswith("mmi."):
            code = self.majordomo.mmi(service, message.body)
            c.tell(address, message.dialect, "FINAL", {"id": o.id, "code": 200}, [code])
            return
        idempotent = c.policy(service).idempotent and o.idempotent is not False
        deadline = None if o.timeout_ms is None else c.now + o.timeout_ms / 1000
        row = Row(c.token(), address, message.dialect, service, o.id, message.body, o.priority, idempotent, deadline)
        if not c.serves(service):
            self.routing.refuse(row, 421, "wrong_broker", f"{service} is not served here; ask NEEDBROKER")
        elif service.startswith("equus.") and not self.fellows.knows(service):
            self.routing.refuse(row, 404, "unknown_agent", f"no Helen in reach has {service.removeprefix('equus.')}")
        else:
            self.routing.accept(row)

    def _cancel(self, address: Address, origin: Origin, message: Message, o: opt.Cancel) -> None:
        self.routing.cancel(address, o.id)

    def _reply(self, address: Address, origin: Origin, message: Message, o: opt.Reply) -> None:
        session = self.sessions.all.get(address)
        if session is None or session.worker is None:
            if address not in self.fellows.links:
                self.sessions.force(address, message.dialect, "unknown worker")
            return
        try:
            token = bytes.fromhex(o.id)
        except ValueError:
            token = b""
        if o.refused and session.worker.fellow:
            self.routing.handed_back(session.worker, token)
        elif not self.routing.reply(session.worker, token, message.body, message.command == "FINAL", o.code, o.reason):
            raise Fault(400, "malformed", "a reply to a request that another worker has")

    def _manage(self, address: Address, origin: Origin, message: Message, o: opt.ManagementReq) -> None:
        self._ask_management(Asked(address, origin, message.dialect, o))

    def _ask_management(self, asked: Asked) -> None:
        if self._c.state != "disabled" or asked.request.command == "enable":
            self.management.request(asked)

    def _need_broker(self, address: Address, origin: Origin, message: Message, o: opt.NeedBroker) -> None:
        self._c.tell(address, message.dialect, "USEBROKER", self.fellows.find_broker(o))

    def _disconnect(self, address: Address, origin: Origin, message: Message, o: opt.Nothing) -> None:
        session = self.sessions.all.get(address)
        if session is not None and not session.is_plain:
            self.sessions.drop(session)

    def _from_fellow(self, address: Address, origin: Origin, message: Message, o: Any) -> None:
        if (session := self._session(address, message)) is None:
            return
        if isinstance(o, opt.Forward):
            self.fellows.forward(session, o, message.body)
        elif isinstance(o, opt.Table):
            self.fellows.told_table(session, o)
        else:
            self.fellows.table_wanted(session)

    def _publish(self, address: Address, origin: Origin, message: Message, o: opt.Publish) -> None:
        if (session := self._session(address, message)) is not None:
            self.sharing.publish(session, o, message.body)

    def _compare(self, address: Address, origin: Origin, message: Message, o: opt.DocumentsTold) -> None:
        if (session := self._session(address, message)) is not None:
            self.sharing.compared(session, o)

    def _extras(self, session: Session) -> Options:
        return (self.fellows.extras() if session.role == "peer" else {}) | self.sharing.extras(session)

    # ----------------------------------------------------------------------------------- timers

    def _overdue(self, token: bytes) -> None:
        worker = self.routing.overdue(token)
        session = self.sessions.all.get(worker.address) if worker is not None else None
        if session is not None:
            self.sessions.farewell(session, Fault(408, "heartbeat_lost", "silent for longer than busy_timeout"))

    def _beat(self, address: Address) -> None:
        if (session := self.sessions.all.get(address)) is not None:
            self.sessions.beat(session)

    def _lapse(self, address: Address) -> None:
        if (session := self.sessions.all.get(address)) is not None:
            (self.fellows if address in self.fellows.links else self.sessions).lapse(session)

    def _force(self, address: Address, reason: str) -> None:
        if (session := self.sessions.all.get(address)) is not None:
            self.sessions.force(address, session.dialect, reason)

    # ----------------------------------------------------------------------------------- states

    def _set_state(self, state: str) -> None:
        if state != self._c.state:
            self._c.log("info", f"{self._c.state} -> {state}")
            self._c.state = state
            self._c.effects.append(Entered(state))
            self._c.effects.append(Store(0))

    def _enter(self, state: str) -> None:
        """What management wants. A broker that is enabled joins again; its configuration lets it pass at once."""
        if state == "disabled":
            self._farewells("disabled", RETRY_DISABLED)
            self._set_state("disabled")
        elif self._c.state == "disabled":
            self._set_state("joining")
            self._set_state("active")
            for address in self.fellows.links:
                self.fellows.check_again(address)

    def _farewells(self, reason: str, retry_after_ms: int) -> None:
        self.routing.drop_all(503, reason, f"this broker is {reason}")
        self.fellows.farewell()
        for session in list(self.sessions.all.values()):
            self.sessions.farewell(session, Fault(503, reason, f"this broker is {reason}"), retry_after_ms)

    def _configure(self, config: BrokerConfig, version: int) -> None:
        self._c.use(config, version)
        self._c.failures.always(config.error_clients)
        self.sharing.configured()
        self._c.log("info", f"configuration {version} is in force")
        self._c.effects += [Store(0), Publish()]
        for session in list(self.sessions.all.values()):
            worker = session.worker
            if session.role == "backend" and worker is not None and not all(map(self._c.serves, worker.services)):
                self.sessions.farewell(
                    session, Fault(421, "wrong_broker", "one of its services is not served here now")
                )
