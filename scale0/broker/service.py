"""Runs a broker as a Twisted service: it reads the clock, performs the effects of broker.py, keeps the state folder.

    service = BrokerService(reactor, Path("broker.json"), Path("state"), security=None)
    service.setServiceParent(application)          # or startService(), stopService()
    service.broker                                 # the state machine, for code in the same process to look at
    service.share({"documents": [...]})            # publish what all brokers of the network share; the version
    service.manage(ManagementReq(...), origin)     # a management request without a socket; a Deferred of its answer

`twistd scale0` runs one; `twistd helen` may run one beside itself, on the same reactor.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from twisted.application.service import Service
from twisted.internet.defer import Deferred, inlineCallbacks, succeed
from twisted.internet.task import LoopingCall
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure

from groundwork.one_by_one import OneByOne
from scale0.broker.broker import LOCAL, Broker
from scale0.broker.config_exchange import KEEPALIVE, ConfigExchange
from scale0.broker.configurations import Configurations
from scale0.broker.context import (
    FRONTEND,
    Announce,
    Effect,
    Entered,
    Log,
    Probe,
    Publish,
    Reload,
    Send,
    Store,
    Verify,
)
from scale0.broker.grants import Grants
from scale0.broker.requests.worker_pool import Address
from scale0.broker.sockets import BrokerSockets, Security
from scale0.broker.startup import Loaded, load_file, password_is_right
from scale0.broker.state_folder import StateFolder
from scale0.config.config import ConfigFault
from scale0.config.schema import BrokerConfig
from scale0.documents.collection import Refused
from scale0.documents.publication import Publication
from scale0.wire import options as opt
from scale0.wire.frames import parse as parse_frames
from scale0.wire.reader import Network, Sent
from scale0.wire.zap import Caller, Origin

KEYS_AGAIN = 1.0  # seconds between two looks at the folder of authorized keys
LOCAL_WAITING = 100  # management requests from within this process that wait for their answer

INSECURE = (
    "--insecure-network: every program that reaches this broker may answer for agents and ask them. For trials only:"
    " give keys with roles instead"
)
log = Logger()


class BrokerService(Service):
    """Owns the sockets, the timer, the threads and the state folder of one Broker."""

    name = "scale0"

    def __init__(
        self,
        reactor: Any,
        config_file: Path,
        state_folder: Path,
        security: Security | None = None,
        signing_key: Ed25519PrivateKey | None = None,
        clock: Callable[[], tuple[float, float]] = lambda: (time.monotonic(), time.time()),
        is_open: bool = False,
        token: str = "",
    ) -> None:
        """Read the configuration file at once, so that a fault in it is told before anything is started.

        `clock` returns monotonic and unix seconds. `is_open`: every peer may offer and ask what is Helen's, for a
        trial. `token` makes known the peers that live in this process. Raises ConfigFault for a faulty file.
        """
        self._is_open, self._token = is_open, token
        self._reactor, self._file, self._folder = reactor, config_file, StateFolder(state_folder)
        self._security, self._clock = security, clock
        loaded = load_file(config_file)
        self._folder.prepare()
        self._configurations = Configurations(loaded, self._folder.load(), signing_key)
        for fault in self._configurations.left_out:
            log.warn("a stored configuration is left out: {fault}", fault=fault)
        self.broker = self._new_broker()
        self._take_up_documents()
        config = self.broker.config
        self.sockets = BrokerSockets(Network.of(reactor), config, security, self._is_kept_out)
        self._passwords, self._disk, reading = OneByOne(), OneByOne(), OneByOne()
        self._reading = reading
        self._exchange = ConfigExchange(
            reactor, self.broker, self._configurations, self.sockets, reading, clock, self._perform, self._in_turn
        )
        self._wake: Any = None
        self._wake_at = float("inf")
        self._local: dict[bytes, Deferred[dict[str, Any]]] = {}
        self._loops: list[LoopingCall] = []
        self._unstored: dict[str, Publication] = {}  # documents on their way to the disk, by scope
        self.http: str | None = None  # the URL of the HTTP pages, where they are on

    def _new_broker(self) -> Broker:
        keys = self._security.authorized if self._security else None
        return Broker(
            self._configurations.config,
            self._configurations.version,
            random.Random(),
            lambda: os.urandom(16),
            keys.bound_to if keys else lambda key: None,
            keys.is_authorized if keys else lambda key: True,
            Grants(keys.entry_of if keys else lambda key: None, self._token, self._is_open),
        )

    def _take_up_documents(self) -> None:
        """Give the broker the documents of the network that it had before the restart."""
        network = self.broker.config.network
        for scope, stored in self._folder.load_documents().items():
            was = Publication(network, scope, stored.version, stored.form, stored.document, stored.signature)
            try:
                self.broker.sharing.documents.take(was, self._clock()[1])
            except Refused as refused:
                log.warn("a stored document is left out: {why}", why=str(refused))

    # ---------------------------------------------------------------------------- start and stop

    def startService(self) -> None:
        """Open the sockets and let the broker enter its first state. Raises ConfigFault if a port is taken."""
        super().startService()
        if self._is_open:
            log.warn(INSECURE)
        self.sockets.open(self._received, self._exchange.subscribed)
        bound, own = self.sockets.endpoints, self.broker.context.endpoints
        own.frontend, own.backend, own.peer = (_reachable(bound[n]) for n in ("frontend", "backend", "peer"))
        own.public_key = self._security.pair.public if self._security else ""
        now, wall = self._clock()
        self._perform(self.broker.start(now, wall, self._configurations.first_state))
        self._connect_peers()
        self._exchange.connect()
        self._loop(self._exchange.keepalive, KEEPALIVE)
        if self._security is not None:
            self._loop(self._reload_keys, KEYS_AGAIN)

    def _loop(self, call: Callable[[], Any], interval: float) -> None:
        loop = LoopingCall(call)
        loop.clock = self._reactor
        loop.start(interval, now=False).addErrback(lambda f: log.failure("a loop of the broker ended", f))
        self._loops.append(loop)

    def _connect_peers(self) -> None:
        self.sockets.connect_peers(self.broker.config, self._received, self._link)

    @inlineCallbacks
    def stopService(self) -> Any:
        """End all sessions, close the sockets and remove run.json; the Deferred fires once the disk is quiet."""
        super().stopService()
        self._perform(self.broker.stop(*self._clock()))
        for loop in self._loops:
            loop.stop()
        self._loops.clear()
        self._exchange.stop()
        if self._wake is not None and self._wake.active():
            self._wake.cancel()
        self.sockets.close()
        yield self._disk.run(lambda: succeed(None))  # what is being written is written to its end
        self._folder.forget_run()

    def set_http(self, url: str) -> None:
        """Note the URL of the HTTP pages, for run.json."""
        self.http = url
        if self.broker.state == "active":
            self._entered("active")

    # ------------------------------------------------------------------------------------- events

    def _received(self, address: Address, frames: Sequence[bytes], origin: Origin) -> None:
        self._perform(self.broker.received(address, frames, origin, *self._clock()))

    def _link(self, endpoint: str, up: bool) -> None:
        if self.running:
            self._perform(self.broker.link(endpoint, up, *self._clock()))

    def _tick(self) -> None:
        self._wake, self._wake_at = None, float("inf")
        self._perform(self.broker.tick(*self._clock()))

    def _is_kept_out(self, caller: Caller) -> bool:
        """Return True for a banned peer, unless it may be an operator: its messages are looked at, see Broker."""
        if not self.broker.context.failures.banned(caller.key or caller.address, self._clock()[0]):
            return False
        return caller.domain != FRONTEND or not self.broker.is_manager(caller.key, caller.address)

    def _perform(self, effects: list[Effect]) -> None:
        """Carry out effects, and those that come of their outcome."""
        while effects:
            more: list[Effect] = []
            for effect in effects:
                if isinstance(effect, Send):
                    if (outcome := self._send(effect)) is not Sent.OK:
                        more += self.broker.undelivered(effect, outcome is Sent.GONE, *self._clock())
                else:
                    more += self._carry_out(effect)
            effects = more
        self._sleep()

    def _send(self, effect: Send) -> Sent:
        if effect.address[0] == LOCAL:
            return self._answer_locally(effect)
        # A request that meets a full pipe goes to another worker; every other message waits for room.
        return self.sockets.send(effect.address, effect.frames, hold=not effect.token)

    def _carry_out(self, effect: Effect) -> list[Effect]:
        match effect:
            case Probe(address, frames, claim):
                gone = self.sockets.send(address, frames, hold=False) is Sent.GONE
                return self.broker.probed(claim, gone, *self._clock())
            case Verify(ticket, stored, password):
                self._in_turn(self._passwords, lambda: password_is_right(stored, password)).addBoth(
                    lambda right: self._perform(self.broker.verified(ticket, right is True, *self._clock()))
                )
            case Reload(ticket):
                self._in_turn(self._reading, lambda: load_file(self._file)).addBoth(self._reloaded, ticket)
            case Store(ticket, state):
                record = self._configurations.record(state or self.broker.state)
                self._in_turn(self._disk, lambda: self._folder.store(record)).addBoth(self._stored, ticket)
            case Publish():
                self._connect_peers()
                self._exchange.changed()
            case Announce(publication):
                self.sockets.publish(publication.frames())
                self._store_soon(publication)
            case Entered(state):
                self._entered(state)
            case Log(level, text):
                getattr(log, level)("{text}", text=text)
        return []

    def _sleep(self) -> None:
        due = self.broker.due
        if due is None or not self.running or due >= self._wake_at:
            return
        delay = max(0.0, due - self._clock()[0])
        if self._wake is not None and self._wake.active():
            self._wake.reset(delay)
        else:
            self._wake = self._reactor.callLater(delay, self._tick)
        self._wake_at = due

    def _in_turn(self, queue: OneByOne, work: Callable[[], Any]) -> Deferred[Any]:
        """Run blocking work in a thread, one piece at a time of each queue."""
        return queue.run(lambda: deferToThreadPool(self._reactor, self._reactor.getThreadPool(), work))

    # ------------------------------------------------------------------------------------- the disk

    def _store_soon(self, publication: Publication) -> None:
        """Store a document; while the disk is busy only the newest version of each waits."""
        is_due = bool(self._unstored)
        self._unstored[publication.scope] = publication
        if not is_due:
            self._in_turn(self._disk, self._store_documents).addErrback(_log_failure)

    def _store_documents(self) -> None:
        """Write the documents that wait; runs in a thread."""
        unstored, self._unstored = self._unstored, {}
        for document in list(unstored.values()):
            self._folder.store_document(document)

    def _stored(self, outcome: Any, ticket: int) -> None:
        error = outcome.getErrorMessage() if isinstance(outcome, Failure) else ""
        if error:
            log.error("the state of the broker could not be stored: {error}", error=error)
        if ticket:
            self._perform(self.broker.stored(ticket, error, *self._clock()))

    def _entered(self, state: str) -> None:
        """Write run.json while the broker serves, and remove it when it does not."""
        if state != "active":
            self._in_turn(self._disk, self._folder.forget_run).addErrback(_log_failure)
            return
        run = {"pid": os.getpid(), "identity": self.broker.config.identity, "state": state}
        run |= {**self.sockets.endpoints, "http": self.http}
        self._in_turn(self._disk, lambda: self._folder.write_run(run)).addErrback(_log_failure)
        log.info("Scale0 broker {identity} at {frontend}", **run)

    def _reloaded(self, outcome: Loaded | Failure, ticket: int) -> None:
        fresh: tuple[BrokerConfig, int] | str
        if isinstance(outcome, Failure):
            fresh = outcome.getErrorMessage()
        else:
            try:
                fresh = self._configurations.reload(outcome, self.broker.version), self._configurations.own_version
            except ConfigFault as fault:
                fresh = f"what its network shares does not fit the file: {fault}"
        self._perform(self.broker.reloaded(ticket, fresh, *self._clock()))

    def _reload_keys(self) -> Any:
        assert self._security is not None
        return deferToThreadPool(self._reactor, self._reactor.getThreadPool(), self._security.authorized.reload)

    # ----------------------------------------------------------------------------- for this process

    def share(self, tree: dict[str, Any]) -> int:
        """Put names of schema.SHARED into force here and in all the network; return the version given to them.

        Raises ConfigFault if anything in the tree is wrong.
        """
        return self._exchange.share(tree)

    def manage(self, request: opt.ManagementReq, origin: Origin, proven: bool = False) -> Deferred[dict[str, Any]]:
        """Ask for a management command, from the HTTP pages or from Python.

        The Deferred fires with the answer of MANAGEMENTREP, with the keys `code`, `reason`, `message` and `data`.
        """
        answer: Deferred[dict[str, Any]] = Deferred()
        if len(self._local) >= LOCAL_WAITING:
            answer.callback({"code": 503, "reason": "busy", "message": "too many requests at once", "data": {}})
            return answer
        if self.broker.state == "disabled" and request.command != "enable":
            answer.callback({"code": 503, "reason": "disabled", "message": "only enable is answered now", "data": {}})
            return answer
        ticket = os.urandom(8)
        self._local[ticket] = answer
        self._perform(self.broker.manage(ticket, request, origin, *self._clock(), proven))
        return answer

    def _answer_locally(self, effect: Send) -> Sent:
        waiting = self._local.pop(effect.address[1], None)
        if waiting is None:
            return Sent.GONE
        message = parse_frames(effect.frames)
        answer = opt.decode_any(message.options)
        if answer.pop("data_in_body", False):
            answer["data"] = msgspec.json.decode(message.body[0])
        waiting.callback(answer)
        return Sent.OK


def _reachable(endpoint: str) -> str:
    """Return an endpoint to tell others; a wildcard tells them nothing, so it becomes empty."""
    return "" if "://0.0.0.0:" in endpoint or "://[::]:" in endpoint else endpoint


def _log_failure(failure: Failure) -> None:
    log.failure("the broker goes on without this", failure)
