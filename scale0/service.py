"""A broker as a Twisted service: it reads the clock, performs the effects of broker.py, and keeps the state folder.

    service = BrokerService(reactor, Path("broker.json"), Path("state"), security=None)
    service.setServiceParent(application)          # or startService(), stopService()
    service.broker                                 # the state machine, for those in the same process to look at
    service.share({"documents": [...]})            # publish what all brokers of the network share; a Deferred
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

import attrs
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredLock, inlineCallbacks
from twisted.internet.task import LoopingCall
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure

from scale0 import config as cfg
from scale0 import forms, publication
from scale0 import options as opt
from scale0.broker import LOCAL, Broker
from scale0.config import BrokerConfig, ConfigFault
from scale0.context import Announce, Effect, Entered, Log, Probe, Publish, Reload, Send, Store, Verify
from scale0.documents import SCOPE, Refused
from scale0.folder import Folder, Record, StoredDocument
from scale0.frames import parse as parse_frames
from scale0.loading import Loaded, first_state, load_file, password_is_right
from scale0.lru import Address
from scale0.ports import Ports, Security
from scale0.publication import ALL, NotAPublication, Publication, Seen
from scale0.reader import Network, Sent
from scale0.zap import Origin

KEEPALIVE = 1.0  # seconds between two keepalives of the configuration
ASK_AGAIN = 5.0  # seconds between two new subscriptions, when keepalives tell of a version that we lack
REPEAT = 1.0  # seconds between two repetitions of the documents for new subscribers
KEYS_AGAIN = 1.0  # seconds between two looks at the folder of authorized keys
IN_THREAD = 64 << 10  # bytes of a document from which on it is read in a thread: msgspec does 100 MB/s, the schema 5
LOCAL_WAITING = 100  # management requests from within this process that wait for their answer

log = Logger()


class BrokerService(Service):
    name = "scale0"

    def __init__(
        self,
        reactor: Any,
        config_file: Path,
        state_folder: Path,
        security: Security | None = None,
        signing_key: Ed25519PrivateKey | None = None,
        clock: Callable[[], tuple[float, float]] = lambda: (time.monotonic(), time.time()),
    ) -> None:
        """Reads the file at once, so that a fault in it is told before anything is started."""
        self._reactor, self._file, self._folder = reactor, config_file, Folder(state_folder)
        self._security, self._signing_key, self._clock = security, signing_key, clock
        self._loaded = load_file(config_file)
        self._wake: Any = None
        self._wake_at = float("inf")
        self._passwords, self._disk, self._reading = DeferredLock(), DeferredLock(), DeferredLock()
        self._local: dict[bytes, Deferred[dict[str, Any]]] = {}
        self._seen = Seen()
        self._loops: list[LoopingCall] = []
        self._asked_again = self._repeated = float("-inf")
        self._repeat: Any = None
        self._said: list[Publication] = []
        self._unkept: dict[str, Publication] = {}  # documents on their way to the disk, by scope
        self._own_version = 0
        self.http: str | None = None  # set by the front end, where there is one
        self._prepare()

    def _prepare(self) -> None:
        """The broker as it was left, or as the file says."""
        self._folder.prepare()
        record, loaded = self._folder.load(), self._loaded
        same_file = record is not None and record.file_digest == loaded.digest
        config = loaded.config
        if config.state == "joining":
            self._own_version = 0  # any configuration is newer than none
        elif record is None:
            self._own_version = loaded.changed_ms
        elif same_file:
            self._own_version = record.version
        else:
            self._own_version = max(record.version + 1, loaded.changed_ms)
        for scope, stored in (record.received if record else {}).items():
            if scope == ALL or same_file:
                config = self._restore(scope, stored, config)
        version = max(self._own_version, self._seen.version())
        security = self._security
        self.broker = Broker(
            config,
            version,
            random.Random(),
            lambda: os.urandom(16),
            security.authorized.bound_to if security else lambda key: None,
            security.authorized.is_authorized if security else lambda key: True,
        )
        self._take_up_documents(config.network)
        self._first_state = first_state(record, same_file, config.state, bool(self._seen.newest))
        self.ports = Ports(Network.of(self._reactor), config, security, self._is_banned)

    def _take_up_documents(self, network: str) -> None:
        """Those of the network, as they were before the restart."""
        for scope, stored in self._folder.load_documents().items():
            was = Publication(network, scope, stored.version, stored.form, stored.document, stored.signature)
            try:
                self.broker.sharing.documents.take(was, self._clock()[1])
            except Refused as refused:
                log.warn("a stored document is left out: {why}", why=str(refused))

    def _restore(self, scope: str, stored: StoredDocument, config: BrokerConfig) -> BrokerConfig:
        """What came by the network before the restart; the first one may have made a joining broker active."""
        was = Publication(config.network, scope, stored.version, stored.form, stored.document, stored.signature)
        try:
            config = self._read(was, config)
        except ConfigFault as e:
            log.warn("a stored configuration is left out: {fault}", fault=str(e))
        else:
            self._seen.take(was)
        return config

    # ---------------------------------------------------------------------------- start and stop

    def startService(self) -> None:
        super().startService()
        self.ports.open(self._heard, self._subscribed)
        ends, mine = self.ports.ends, self.broker.context.ends
        mine.frontend, mine.backend, mine.peer = (_reachable(ends[n]) for n in ("frontend", "backend", "peer"))
        mine.public_key = self._security.pair.public if self._security else ""
        now, wall = self._clock()
        self._perform(self.broker.start(now, wall, self._first_state))
        self.ports.call_fellows(self.broker.config, self._heard, self._link)
        self.ports.call_sources(self.broker.config, self._topics(), self._told_config)
        self._loop(self._keepalive, KEEPALIVE)
        if self._security is not None:
            self._loop(self._reload_keys, KEYS_AGAIN)

    def _loop(self, call: Callable[[], Any], interval: float) -> None:
        loop = LoopingCall(call)
        loop.clock = self._reactor
        loop.start(interval, now=False).addErrback(lambda f: log.failure("a loop of the broker ended", f))
        self._loops.append(loop)

    @inlineCallbacks
    def stopService(self) -> Any:
        super().stopService()
        self._perform(self.broker.stop(*self._clock()))
        for loop in self._loops:
            loop.stop()
        self._loops.clear()
        for call in (self._wake, self._repeat):
            if call is not None and call.active():
                call.cancel()
        self.ports.close()
        yield self._disk.run(lambda: None)  # what is being written is written to its end
        self._folder.forget_run()

    def set_http(self, url: str) -> None:
        """The front end listens there."""
        self.http = url
        if self.broker.state == "active":
            self._entered("active")

    # ------------------------------------------------------------------------------------- events

    def _heard(self, address: Address, frames: Sequence[bytes], origin: Origin) -> None:
        self._perform(self.broker.heard(address, frames, origin, *self._clock()))

    def _link(self, endpoint: str, up: bool) -> None:
        if self.running:
            self._perform(self.broker.link(endpoint, up, *self._clock()))

    def _tick(self) -> None:
        self._wake, self._wake_at = None, float("inf")
        self._perform(self.broker.tick(*self._clock()))

    def _is_banned(self, name: str) -> bool:
        return self.broker.context.failures.banned(name, self._clock()[0])

    def _perform(self, effects: list[Effect]) -> None:
        """Do what the broker wants, and what it wants in answer to how that went."""
        while effects:
            more: list[Effect] = []
            for effect in effects:
                if isinstance(effect, Send):
                    if (outcome := self._send(effect)) is not Sent.OK:
                        more += self.broker.undelivered(effect, outcome is Sent.GONE, *self._clock())
                else:
                    more += self._do(effect)
            effects = more
        self._sleep()

    def _send(self, effect: Send) -> Sent:
        if effect.address[0] == LOCAL:
            return self._answer_locally(effect)
        # A request that meets a full pipe goes to another worker; everything else waits for room.
        return self.ports.send(effect.address, effect.frames, hold=not effect.token)

    def _do(self, effect: Effect) -> list[Effect]:
        match effect:
            case Probe(address, frames, claim):
                gone = self.ports.send(address, frames, hold=False) is Sent.GONE
                return self.broker.probed(claim, gone, *self._clock())
            case Verify(ticket, stored, password):
                self._in_turn(self._passwords, lambda: password_is_right(stored, password)).addBoth(
                    lambda right: self._perform(self.broker.verified(ticket, right is True, *self._clock()))
                )
            case Reload(ticket):
                self._in_turn(self._reading, lambda: load_file(self._file)).addBoth(self._reloaded, ticket)
            case Store(ticket):
                record = self._record(ticket)
                self._in_turn(self._disk, lambda: self._folder.store(record)).addBoth(self._stored, ticket)
            case Publish():
                self._said = []
                self.ports.call_fellows(self.broker.config, self._heard, self._link)
                self._publish_all()
            case Announce(publication):
                self.ports.publish(publication.frames())
                self._keep_soon(publication)
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

    def _in_turn(self, lock: DeferredLock, work: Callable[[], Any]) -> Deferred[Any]:
        """Blocking work in a thread, one piece at a time."""
        return lock.run(deferToThreadPool, self._reactor, self._reactor.getThreadPool(), work)

    # ------------------------------------------------------------------------------------- the disk

    def _record(self, ticket: int) -> Record:
        state = self.broker.management.wanted_state if ticket else self.broker.state
        received = {
            scope: StoredDocument(p.version, p.form, p.document, p.signature)
            for scope, p in self._seen.newest.items()
            if not (scope == ALL and self._is_source)
        }
        return Record(state, self._own_version, self._loaded.digest, received)

    def _keep_soon(self, publication: Publication) -> None:
        """Onto the disk; while it is busy only the newest of each document waits."""
        is_due = bool(self._unkept)
        self._unkept[publication.scope] = publication
        if not is_due:
            self._in_turn(self._disk, self._keep).addErrback(_log_failure)

    def _keep(self) -> None:
        """In a thread."""
        unkept, self._unkept = self._unkept, {}
        for document in list(unkept.values()):
            self._folder.store_document(document)

    def _stored(self, outcome: Any, ticket: int) -> None:
        error = outcome.getErrorMessage() if isinstance(outcome, Failure) else ""
        if error:
            log.error("the state of the broker could not be stored: {error}", error=error)
        if ticket:
            self._perform(self.broker.stored(ticket, error, *self._clock()))

    def _entered(self, state: str) -> None:
        """run.json is for those who want to be served."""
        if state != "active":
            self._in_turn(self._disk, self._folder.forget_run).addErrback(_log_failure)
            return
        ends = self.ports.ends
        run = {"pid": os.getpid(), "identity": self.broker.config.identity, "state": state, **ends, "http": self.http}
        self._in_turn(self._disk, lambda: self._folder.write_run(run)).addErrback(_log_failure)
        log.info("Scale0 broker {identity} at {frontend}", **run)

    def _reloaded(self, outcome: Loaded | Failure, ticket: int) -> None:
        if isinstance(outcome, Failure):
            fresh: tuple[BrokerConfig, int] | str = outcome.getErrorMessage()
        else:
            self._loaded = outcome
            self._own_version = max(self.broker.version + 1, outcome.changed_ms)
            shared = self._seen.newest.get(ALL)
            config = outcome.config
            self._seen.newest.pop(config.identity, None)
            if shared is not None and not self._is_source:
                config = self._read(shared, config)
            fresh = config, self._own_version
        self._perform(self.broker.reloaded(ticket, fresh, *self._clock()))

    # ------------------------------------------------------------------- configuration by the network

    @property
    def _is_source(self) -> bool:
        """A broker that listens to nobody says what its network shares; others pass on what they heard."""
        return not self._loaded.config.config_sub_ports

    def _topics(self) -> list[bytes]:
        config = self.broker.config
        return [f"config/{config.network}/{scope}".encode() for scope in (config.identity, ALL, SCOPE)]

    def _told_config(self, frames: list[bytes]) -> None:
        """A publication has arrived."""
        config = self.broker.config
        try:
            new = publication.parse(frames)
        except NotAPublication as e:
            log.warn("a message on config_sub_ports was dropped: {fault}", fault=str(e))
            return
        if new.network == config.network and new.scope.startswith(SCOPE) and self.broker.state == "active":
            self._perform(self.broker.document(new, *self._clock()))
            return
        if new.network != config.network or new.scope not in (config.identity, ALL):
            return
        verdict = self._judge(new)
        if verdict == "conflict":
            text = f"two documents of version {new.version} for {new.scope}; the first one is kept"
            self._perform(self.broker.alarm(text, *self._clock()))
        elif verdict == "news" and new.is_keepalive:
            self._ask_again()
        elif verdict == "news":
            self._read_in_turn(new)

    def _judge(self, new: Publication) -> publication.Verdict:
        verdict = self._seen.judge(new)
        outdone = verdict == "news" and new.scope != ALL and new.version <= self._own_version
        return "old" if outdone else verdict

    def _ask_again(self) -> None:
        """A keepalive tells of a document that was lost on its way."""
        now = self._clock()[0]
        if now - self._asked_again >= ASK_AGAIN:
            self._asked_again = now
            self.ports.ask_again(self._topics())

    def _read_in_turn(self, new: Publication) -> None:
        if len(new.document) < IN_THREAD:
            reading = self._reading.run(self._read, new, self.broker.config)
        else:
            reading = self._in_turn(self._reading, lambda: self._read(new, self.broker.config))
        reading.addCallbacks(self._take, self._rejected, callbackArgs=[new], errbackArgs=[new])
        reading.addErrback(_log_failure)

    def _read(self, new: Publication, config: BrokerConfig) -> BrokerConfig:
        """The configuration with this document in it, or ConfigFault. Pure, and slow for a large one."""
        source = new.topic.decode()
        if config.config_key and not new.is_signed_by(config.config_key):
            raise ConfigFault(source, [cfg.Fault(1, "", "not signed by any of `config_key`")])
        if new.scope == ALL:
            return cfg.overlay(config, new.document, new.form, source)
        fresh = cfg.load(new.document, new.form, source, strict=False)
        if fresh.identity != config.identity:
            raise ConfigFault(source, [cfg.Fault(1, "identity", f"{fresh.identity} is another broker")])
        if config.config_key and not fresh.config_key:
            fresh = attrs.evolve(fresh, config_key=config.config_key)  # a signature cannot be signed away
        return fresh

    def _take(self, config: BrokerConfig, new: Publication) -> None:
        if self._judge(new) != "news":
            return  # another source was faster while this one was read
        self._seen.take(new)
        if new.scope != ALL and (shared := self._seen.newest.get(ALL)) is not None:
            config = self._read(shared, config)
        version = max(self.broker.version, new.version)
        self._perform(self.broker.configured(config, version, *self._clock()))

    def _rejected(self, failure: Failure, new: Publication) -> None:
        failure.trap(ConfigFault)
        text = f"configuration {new.version} is refused: {failure.getErrorMessage()}"
        self._perform(self.broker.alarm(text, *self._clock()))

    def _subscribed(self, message: bytes) -> None:
        """A new listener is told what is in force, as it cannot have heard it; many at once are told together."""
        if message[:1] == b"\1" and self._repeat is None and self.running:
            wait = max(0.0, self._repeated + REPEAT - self._clock()[0])
            self._repeat = self._reactor.callLater(wait, self._repeat_all)

    def _repeat_all(self) -> None:
        self._repeat, self._repeated = None, self._clock()[0]
        self._publish_all()

    def _publications(self) -> list[Publication]:
        """What this broker has to say: documents that it heard, and the shared part of its file if it is a source."""
        if self._said:
            return self._said
        config = self.broker.config
        mine = Publication(config.network, config.identity, self.broker.version)
        said = {config.identity: mine, **self._seen.newest}
        if self._is_source and ALL not in said:
            said[ALL] = self._shared(config, self.broker.version)
        self._said = list(said.values())
        return self._said

    def _shared(self, config: BrokerConfig, version: int) -> Publication:
        tree = {name: value for name, value in cfg.dump(config).items() if name in cfg.SHARED}
        new = Publication(config.network, ALL, version, "JSON", msgspec.json.encode(tree))
        return new if self._signing_key is None else new.signed(self._signing_key)

    def _publish_all(self) -> None:
        for said in (*self._publications(), *self.broker.sharing.documents.all()):
            self.ports.publish(said.frames())

    def _keepalive(self) -> None:
        for said in self._publications():
            self.ports.publish(said.keepalive())

    def share(self, tree: dict[str, Any]) -> int:
        """Put names of config.SHARED into force here and in all the network; the version given to it."""
        config = self.broker.config
        raw = forms.write(tree, "JSON")
        merged = cfg.overlay(config, raw, "JSON", "share()")
        version = max(self.broker.version + 1, int(1000 * self._clock()[1]))
        new = self._shared(merged, version)
        self._seen.take(new)
        self._perform(self.broker.configured(merged, version, *self._clock()))
        return version

    # ------------------------------------------------------------------------------ keys, management

    def _reload_keys(self) -> Any:
        assert self._security is not None
        return deferToThreadPool(self._reactor, self._reactor.getThreadPool(), self._security.authorized.reload)

    def manage(self, request: opt.ManagementReq, origin: Origin, proven: bool = False) -> Deferred[dict[str, Any]]:
        """A management request of this process: by HTTP, or from Python. The answer is that of MANAGEMENTREP."""
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
        told = opt.decode_any(message.options)
        if told.pop("data_in_body", False):
            told["data"] = msgspec.json.decode(message.body[0])
        waiting.callback(told)
        return Sent.OK


def _reachable(endpoint: str) -> str:
    """An endpoint to tell others; a wildcard tells them nothing."""
    return "" if "://0.0.0.0:" in endpoint or "://[::]:" in endpoint else endpoint


def _log_failure(failure: Failure) -> None:
    log.failure("the broker goes on without this", failure)
