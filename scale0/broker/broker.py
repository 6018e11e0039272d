"""Runs the broker as one state machine: an event and the time in, effects out. Pure; it owns no socket, file or clock.

    broker = Broker(config, version, rng=..., token=...)
    effects = broker.start(now, wall)              joining, active or disabled
    effects = broker.received(address, frames, origin, now, wall)
    effects = broker.tick(now, wall)               when `due` says so

`now` is monotonic seconds and decides what has lapsed; `wall` is unix seconds, which are only told, and compared with
the clocks of others. An Effect that asks for something (context.py) is answered by the method that its docstring names.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Sequence

from scale0.broker.context import BACKEND, FRONTEND, Context, Effect, Send
from scale0.broker.grants import OPEN, Grants
from scale0.broker.lifecycle import Lifecycle
from scale0.broker.majordomo import Majordomo
from scale0.broker.management_requests import Management, ManagementRequest
from scale0.broker.negotiation import Negotiation
from scale0.broker.peer_links import PeerLinks
from scale0.broker.peers import Peers
from scale0.broker.requests.routing import Routing
from scale0.broker.requests.worker_pool import Address
from scale0.broker.scale0_commands import Scale0Commands
from scale0.broker.sessions import Sessions
from scale0.broker.sharing import Sharing
from scale0.broker.stalls import Stalls
from scale0.broker.worker_offers import WorkerOffers
from scale0.config.schema import BrokerConfig
from scale0.documents.collection import Documents
from scale0.documents.publication import Publication
from scale0.wire import options as opt
from scale0.wire.frames import CLIENT, EITHER, Dialect, MalformedMessage, Message, parse
from scale0.wire.options import Fault
from scale0.wire.zap import Origin, is_local

LOCAL = "local"  # the socket name of management requests that come by HTTP or from Python in this process
# Refusals that are the peer's own doing. 422 is not: the wrong clock may be ours.
COUNTED = frozenset({400, 401, 403, 412, 413, 426})
LOG_EVERY = 60.0  # seconds between two lines about one peer's malformed messages
LOGGED = 10_000  # peers remembered for that


class Broker:
    """Takes events and returns effects; the parts that it is made of are its attributes."""

    def __init__(
        self,
        config: BrokerConfig,
        version: int,
        rng: random.Random,
        token: Callable[[], bytes],
        bound_to: Callable[[str], str | None] = lambda key: None,
        is_authorized: Callable[[str], bool] = lambda key: True,
        grants: Grants = OPEN,
    ) -> None:
        """Make a broker that is joining.

        `bound_to` returns the only identity that a CURVE key may use, None for any. `is_authorized` is asked at each
        message, as keys are removed while the broker runs. `grants` knows what each peer may do.
        """
        self.context = self._c = c = Context(config, version, rng, token, grants)
        self._c.failures.always(config.error_clients)
        self._is_authorized = is_authorized
        self._logged: OrderedDict[str, float] = OrderedDict()
        documents = Documents(config.network, config.config_key)
        self.peers = Peers(c)
        self.routing = Routing(c, self.peers)
        self.sessions = Sessions(c, self.routing, self.peers, documents)
        self.negotiation = Negotiation(c, self.sessions)
        self.offers = WorkerOffers(c, self.sessions, self.routing)
        self._stalls = Stalls(c, self.sessions, self.routing)
        self.sharing = Sharing(c, self.sessions, self.peers, documents)
        self._peer_links = PeerLinks(c, self.sessions, self.routing, self.peers, self.sharing, self.offers)
        self._lifecycle = Lifecycle(c, self.sessions, self.routing, self._peer_links, self.sharing)
        self.management = Management(c, self.sessions, self.routing, self.peers, self._lifecycle)
        self._majordomo = Majordomo(c, self.sessions, self.routing)
        self._commands = Scale0Commands(
            c, self.sessions, self.routing, self.peers, self._peer_links, self.sharing, self.management,
            self._majordomo, self.negotiation, self.offers, bound_to,
        )  # fmt: skip
        self._on_timer = self._timer_handlers()

    def _timer_handlers(self) -> dict[str, Callable[..., None]]:
        """Return the handler for each kind of timer, the first element of its key; the others are the arguments."""
        return {
            "request": self.routing.ends.expire,
            "running": self._overdue,
            "spill": self.routing.spill,
            "beat": self._beat,
            "lapse": self._lapse,
            "force": self._force,
            "tables": self._peer_links.push,
            "check": self._peer_links.check_again,
        }

    @property
    def state(self) -> str:
        """Return joining, active or disabled."""
        return self._c.state

    @property
    def config(self) -> BrokerConfig:
        """Return the configuration in force."""
        return self._c.config

    @property
    def version(self) -> int:
        """Return the version of the configuration in force."""
        return self._c.version

    @property
    def due(self) -> float | None:
        """Return the time at which `tick` is wanted next, monotonic seconds."""
        return self._c.timers.next()

    # Events. Each takes `now`, monotonic seconds, and `wall`, unix seconds.

    def start(self, now: float, wall: float, state: str = "") -> list[Effect]:
        """Enter the first state, at `now` (monotonic) and `wall` (unix seconds).

        `state` is the one that the broker was left in, if that outlives what the configuration says.
        """
        self._at(now, wall)
        self._lifecycle.set_state(state or self._c.config.state)
        return self._effects()

    def received(
        self, address: Address, frames: Sequence[bytes], origin: Origin, now: float, wall: float
    ) -> list[Effect]:
        """Take a message, from which the routing id is taken off; `address` is (socket, routing id).

        The times are monotonic (`now`) and unix seconds (`wall`).
        """
        self._at(now, wall)
        if self._c.failures.banned(origin.name, now) and not self._asks_for_management(origin, frames):
            self._c.failures.dropped(origin.name)
            return self._effects()
        session = self.sessions.all.get(address)
        if session is not None:
            self.sessions.received(session)
        try:
            message = parse(frames)
        except MalformedMessage as e:
            self._malformed(origin, str(e))
            return self._effects()
        try:
            self._message(address, origin, message)
        except Fault as fault:
            if fault.code in COUNTED:
                self._failure(origin, fault.reason)
            self.sessions.refuse(address, message.dialect, fault)
        return self._effects()

    def tick(self, now: float, wall: float) -> list[Effect]:
        """Fire the timers that are due, at `now` (monotonic) and `wall` (unix seconds)."""
        self._at(now, wall)
        for key in self._c.timers.due(now):
            self._on_timer[key[0]](*key[1:])
        return self._effects()

    def undelivered(self, sent: Send, gone: bool, now: float, wall: float) -> list[Effect]:
        """Learn that a message was not sent: its peer has gone, or its pipe is full (monotonic and unix seconds)."""
        self._at(now, wall)
        session = self.sessions.all.get(sent.address)
        request = self.routing.requests.get(sent.token) if sent.token else None
        if gone and session is not None:
            self.sessions.drop(session, sent.token)
        elif request is not None and request.worker is not None:
            (self.routing.lose if gone else self.routing.full)(request.worker, sent.token)
        else:
            self._c.counts["unsent"] += 1
        return self._effects()

    def probed(self, claim: int, gone: bool, now: float, wall: float) -> list[Effect]:
        """Learn if the holder of a claimed identity is `gone` (monotonic and unix seconds)."""
        self._at(now, wall)
        self._commands.admitted(self.negotiation.probed(claim, gone))
        return self._effects()

    def verified(self, ticket: int, right: bool, now: float, wall: float) -> list[Effect]:
        """Learn if the password of a management request was right (monotonic and unix seconds)."""
        self._at(now, wall)
        self.management.verified(ticket, right)
        return self._effects()

    def stored(self, ticket: int, error: str, now: float, wall: float) -> list[Effect]:
        """Learn that the state is durable, or the error (monotonic and unix seconds)."""
        self._at(now, wall)
        self.management.stored(ticket, error)
        return self._effects()

    def reloaded(self, ticket: int, fresh: tuple[BrokerConfig, int] | str, now: float, wall: float) -> list[Effect]:
        """Learn what the file says now: a configuration and its version, or its faults (monotonic and unix seconds)."""
        self._at(now, wall)
        if isinstance(fresh, str):
            self._c.log("error", f"the configuration stays as it was: {fresh}")
            self.management.reloaded(ticket, fresh)
        else:
            self._lifecycle.configure(*fresh)
            self.sessions.force_all("the configuration was reloaded")
            self.management.reloaded(ticket, "")
        return self._effects()

    def configured(self, config: BrokerConfig, version: int, now: float, wall: float) -> list[Effect]:
        """Put a configuration into force that came by the network or from Python (monotonic and unix seconds)."""
        self._at(now, wall)
        self._lifecycle.configure(config, version)
        if self._c.state == "joining":
            self._lifecycle.set_state("active")
        return self._effects()

    def document(self, publication: Publication, now: float, wall: float) -> list[Effect]:
        """Take a document of the network that came on config_sub_ports (monotonic and unix seconds)."""
        self._at(now, wall)
        self.sharing.take(publication)
        return self._effects()

    def alarm(self, text: str, now: float, wall: float) -> list[Effect]:
        """Note a fault that an operator should look at (monotonic and unix seconds)."""
        self._at(now, wall)
        self._c.alarm(text)
        return self._effects()

    def link(self, endpoint: str, up: bool, now: float, wall: float) -> list[Effect]:
        """Learn that our connection to a peer broker was made, or lost (monotonic and unix seconds)."""
        self._at(now, wall)
        if self._c.state != "disabled":
            (self._peer_links.link_up if up else self._peer_links.link_down)(endpoint)
        return self._effects()

    def manage(
        self, ticket: bytes, options: opt.ManagementReq, origin: Origin, now: float, wall: float, proven: bool = False
    ) -> list[Effect]:
        """Take a management request from within this process; the answer is a Send to (LOCAL, ticket).

        `proven`: the password of this very auth_id was right a while ago, so that a page may be looked at again. The
        times are monotonic (`now`) and unix seconds (`wall`).
        """
        self._at(now, wall)
        request = ManagementRequest((LOCAL, ticket), origin, Dialect.S0, options)
        if proven:
            self.management.perform(request)
        else:
            self._commands.manage(request)
        return self._effects()

    def stop(self, now: float, wall: float) -> list[Effect]:
        """End all sessions with a message, as the process ends (monotonic and unix seconds)."""
        self._at(now, wall)
        self._lifecycle.stop()
        return self._effects()

    # --------------------------------------------------------------------------- the present event

    def _at(self, now: float, wall: float) -> None:
        self._stalls.at(now, wall)

    def _effects(self) -> list[Effect]:
        """Return the effects of the present event."""
        self._peer_links.note_changes()
        effects, self._c.effects = self._c.effects, []
        return effects

    def _asks_for_management(self, origin: Origin, frames: Sequence[bytes]) -> bool:
        """Return True for a management request that may pass a ban of its address.

        All programs of a machine share an address: a faulty one must not lock out the operator's. The ban of a key is
        that of one peer, and a ban for guessed passwords is there to hold back such requests.
        """
        if not self.is_manager(origin.key, origin.address):
            return False
        try:
            return parse(frames).command == "MANAGEMENTREQ"
        except MalformedMessage:
            return False

    def is_manager(self, key: str, address: str) -> bool:
        """Return True if a peer without a key may ask for management from this address, although it is banned."""
        return not key and is_local(address) and not self._c.guesses.banned(address, self._c.now)

    def _malformed(self, origin: Origin, what: str) -> None:
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
            self._c.counts["dropped_disabled"] += 1
            if message.side is EITHER:
                self._commands.handle_while_disabled(address, origin, message)
        elif message.side is EITHER:
            self._commands.handle(address, origin, message)
        elif self._c.state == "joining":
            self._c.counts["dropped_joining"] += 1
        elif message.side is CLIENT:
            if address[0] != FRONTEND:
                self._malformed(origin, "a client's command on another port than the frontend's")
            else:
                self._majordomo.request(address, origin, message)
        elif address[0] == BACKEND or (self._c.one_port and address[0] == FRONTEND):
            self._majordomo.worker(address, origin, message)
        else:
            self._malformed(origin, "a worker's command on another port than the backend's")

    # ----------------------------------------------------------------------------------- timers

    def _overdue(self, token: bytes) -> None:
        worker = self.routing.overdue(token)
        session = self.sessions.all.get(worker.address) if worker is not None else None
        if session is not None:
            self.sessions.end(session, Fault(408, "heartbeat_lost", "silent for longer than busy_timeout"))

    def _beat(self, address: Address) -> None:
        if (session := self.sessions.all.get(address)) is not None:
            self.sessions.beat(session)

    def _lapse(self, address: Address) -> None:
        if (session := self.sessions.all.get(address)) is not None:
            (self._peer_links if address in self.peers.links else self.sessions).lapse(session)

    def _force(self, address: Address, reason: str) -> None:
        if (session := self.sessions.all.get(address)) is not None:
            self.sessions.force(address, session.dialect, reason)
