"""Wires Helen to ZeroMQ: brokers that it hosts, and the networks in which it takes part.

Everything here needs the extra `zmq`: helen/service.py imports it only when a setting asks for it. `open` takes ports
and reads keys, and refuses in a sentence; `start` begins to serve once Helen does; `leave` and `close` end it.
"""

from __future__ import annotations

import re
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

from attrs import evolve
from twisted.application.service import Service
from twisted.internet.defer import Deferred, gatherResults, maybeDeferred, succeed
from twisted.logger import Logger

from helen.agents.roster import Agent
from helen.cluster import network_key
from helen.cluster.attachments import Attachments
from helen.cluster.dial_keys import DialKeys
from helen.cluster.far_tunnels import FarTunnels
from helen.cluster.helen_list import HelenList
from helen.cluster.moved_agents import MovedAgents, service_of
from helen.cluster.network_health import Figure, NetworkHealth
from helen.cluster.network_key import NetworkKey
from helen.cluster.scale0_backend import Offer, Scale0Backend
from helen.cluster.served_tunnels import ServedTunnels
from helen.cluster.sharing import Sharing
from helen.files.state_dir import StateError, make_folder
from helen.jobs.fleet_tasks import PUSH_SLOTS, SLOTS, FleetTasks
from helen.jobs.jobs import Jobs
from helen.parts import Parts
from helen.settings.network_settings import Broker, NetworkSettings, is_trusted
from helen.storage.agent_rows import AuditEntry, audit
from helen.web.overview import overview_for
from scale0.broker.management_pages import FrontEnd
from scale0.broker.service import BrokerService
from scale0.broker.sockets import Security
from scale0.config.config import ConfigFault
from scale0.config.keys import ANY, AuthorizedKeys, KeyEntry, KeyFault, Pair, load_pair
from scale0.endpoint.connection import Keys
from scale0.endpoint.document_holder import DocumentHolder
from scale0.endpoint.negotiation import Target
from scale0.wire.reader import Network, SocketError
from zerotask.broker.scale0_gateway import Scale0Network
from zerotask.client import Client
from zerotask.node.node import Node
from zerotask.service import Settings, StartError, ZeroTaskService
from zerotask.storage.schema import StoreError
from zerotask.wire.links import Link, SocketLink

REFUSALS = (ConfigFault, KeyFault, SocketError, StartError, StoreError)
IPC_MOST = 107  # bytes of a socket's path: what the kernel takes
STOP_WAIT = 0.2  # seconds in which tasks may end by themselves when Helen stops; the others are given back
_WILD = re.compile(r"tcp://(?:0\.0\.0\.0|\[::\]|\*):")


INSECURE = (
    "--insecure-network: every program that reaches the brokers may publish checks, ask agents and answer for them. For"
    " trials only: give keys with roles instead"
)


class NetworkRefused(StateError):
    """Tells in a sentence what keeps Helen from taking part."""


class Admitted(AuthorizedKeys):
    """Admits the keys of the folder and this Helen's own: it connects to the brokers that it hosts."""

    def __init__(self, folder: Any, own: Pair) -> None:
        self._own = own.public
        super().__init__(folder)

    def is_authorized(self, key: str) -> bool:
        """Return True for a key of the folder, and for our own."""
        return key == self._own or bool(super().is_authorized(key))

    def bound_to(self, key: str) -> str | None:
        return None if key == self._own else super().bound_to(key)

    def entry_of(self, key: str) -> KeyEntry | None:
        """Return what the folder says of a key; our own is a Helen's, of any identity."""
        return KeyEntry(ANY, ("helen", "admin")) if key == self._own else super().entry_of(key)


class HelenNetwork:
    """Takes part in Scale0 and ZeroTask for one Helen; `backend` is None without Scale0, `jobs` without ZeroTask."""

    log = Logger()

    def __init__(self, parts: Parts) -> None:
        self.settings: NetworkSettings = parts.live.settings.network
        self.identity = self.settings.identity or identity_of(parts.live.settings.names)
        self.backend: Scale0Backend | None = None
        self.broker: BrokerService | None = None
        self.sharing: Sharing | None = None  # what is shared with other Helens, if anything is
        self.far_tunnels: FarTunnels | None = None  # to agents of other Helens; with a network key
        self.jobs: Jobs | None = None
        self.zerotask: ZeroTaskService | None = None
        self._reactor = parts.reactor
        self._parts = parts
        self._hosted: list[Service] = []
        self._security: Security | None = None
        self._others = HelenList(parts.sessions, parts.live.address)
        self._moved: MovedAgents | None = None
        self._is_leaving = False
        self._token = secrets.token_hex(32)  # by which a broker in this process knows our own connections
        self._dial_keys: DialKeys | None = None
        self._node: Node | None = None
        self._links: list[Link] = []  # our connections to ZeroTask
        parts.drain.leaving.subscribe(self.hide)
        parts.drain.staying.subscribe(self.offer)
        parts.drain.drained.subscribe(self.drained)
        parts.published.subscribe(lambda: self.changed("checks"))
        parts.key_rotation.taken.subscribe(lambda: self.changed("keys"))

    # ---------------------------------------------------------------------------------------------- starting

    def open(self) -> None:
        """Take ports, read keys and configurations. Raises NetworkRefused."""
        try:
            self._security = self._read_keys()
            self._dial_keys = None if self._security is None else DialKeys(self.settings, self._security)
            if self.settings.embed_scale0 is not None:
                self._host_scale0(self.settings.embed_scale0)
            trusted = [each for each in self.settings.scale0 if self.settings.insecure or is_trusted(each)]
            brokers = [*map(self._target, trusted), *self._own_broker("backend")]
            if self.settings.embed_zerotask:
                self._host_zerotask()
            elif self.settings.zerotask is not None and self._dial_keys is not None:
                self._dial_keys.of_broker(self.settings.zerotask)  # the key has to be there at the start
        except REFUSALS as error:
            raise NetworkRefused(str(error)) from error
        if self.settings.is_wanted and self.settings.insecure:
            self.log.warn(INSECURE)
        for sentence in self._left_out():
            self.log.warn("{sentence}", sentence=sentence)
        if brokers:
            key = None if self.settings.network_key is None else network_key.load(self.settings.network_key)
            sharer = None if key is None else self._open_sharing(key)
            attachments = Attachments(self.identity, key, self._reactor.seconds, time.time)
            tunnel = None if key is None else self._open_tunnels(key)
            offer = Offer(self._overview_of_all, self._parts.library.file, tunnel)
            told = self._configured
            self.backend = Scale0Backend(
                self._reactor,
                self._parts.sessions,
                self.identity,
                brokers,
                offer,
                self._dial_keys,
                told,
                sharer,
                attachments,
                self._audit_of("Scale0"),
            )

    def _open_tunnels(self, key: NetworkKey) -> Callable[[Sequence[bytes]], Any]:
        """Make what asks other Helens for tunnels to their agents; return what answers them."""
        sessions, note = self._parts.sessions, self._audit_of("Scale0")
        self.far_tunnels = FarTunnels(
            self._reactor, self.identity, key, self._ask_helen, self._other_identities, time.time
        )
        return ServedTunnels(self._reactor, self.identity, key, sessions, time.time, note).answer

    def _ask_helen(self, identity: str, *body: bytes, timeout: float) -> Deferred[Sequence[bytes]]:
        assert self.backend is not None
        return self.backend.ask_helen(identity, *body, timeout=timeout)

    def _other_identities(self) -> list[str]:
        """Return the other Helens, those first that live."""
        helens = None if self.sharing is None else self.sharing.helens
        return [] if helens is None else list(dict.fromkeys([*helens.live, *helens.others]))

    def _open_sharing(self, key: NetworkKey) -> DocumentHolder:
        self.sharing = Sharing(self._parts, self.identity, key, self._others.live)
        self.sharing.open()
        return self.sharing.replication.sharer

    def _configured(self, document: dict[str, Any]) -> None:
        """Take a [ CLIENT CONFIG ] of our broker."""
        groups = [str(group.get("name", "")) for group in document.get("group_config", [])]
        self._others.configured(document)
        self._others.grouped(groups)
        if self.sharing is not None:
            self.sharing.configured(groups[0] if groups else "")

    def _has_moved(self, agent: str) -> None:
        self._parts.evaluator.forget(agent, "another Helen has it")

    def _overview_of_all(self) -> Deferred[Any]:
        return Deferred.fromCoroutine(overview_for(evolve(self._parts, network=self), None))

    def has_agent(self, name: str) -> Deferred[bool | None]:
        """Fire with True if some Helen of the network has an agent of this name; None: there is no broker to ask."""
        return succeed(False) if self.backend is None else self.backend.is_there(service_of(name))

    def other_helens(self) -> list[str]:
        """Return addresses, HOST:PORT, where agents of ours may go."""
        return self._others.known()

    def drained(self, is_drained: bool) -> None:
        """Tell the other Helens whether agents shall go to them instead."""
        if self.sharing is not None:
            self.sharing.drained(is_drained)

    def hide(self, agent: Agent) -> None:
        """Withdraw the service of an agent that is about to leave."""
        if self.backend is not None:
            self.backend.hide(agent)

    def offer(self, agent: Agent) -> None:
        """Offer the service of an agent that stays."""
        if self.backend is not None and self.backend.worker.running:
            self.backend.offer(agent)

    def changed(self, name: str) -> None:
        """Publish what Helens share and has changed here."""
        if self.sharing is not None:
            self.sharing.changed(name)

    async def start(self) -> None:
        """Begin to serve, once Helen does."""
        if self.backend is not None:
            self._others.start()
            if self.sharing is not None:
                self.sharing.start(self.backend)
            self.backend.start()
            self._moved = MovedAgents(self._reactor, self._parts.sessions, self.backend.is_there, self._has_moved)
            self._moved.start()
        if self.settings.embed_zerotask or self._zerotask_broker() is not None:
            await self._join_zerotask()

    async def _join_zerotask(self) -> None:
        """Join as a node, for what others ask of the fleet, and as a client, for jobs that are submitted at Helen."""
        parts, name = self._parts, f"helen.{self.identity}"
        self._tasks = FleetTasks(
            self._reactor, parts.sessions, parts.library, parts.state / "jobs",
            is_job=lambda task_id: task_id in jobs, note=self._audit_of("ZeroTask"),
        )  # fmt: skip
        self._client = Client(self._zerotask_link(), self._reactor, name)
        jobs = Jobs(self._reactor, self._client, self._tasks, f"equus.check.{self.identity}", parts.one_off.prepare)
        await jobs.load()
        if self._is_leaving:
            return
        self._tasks.start()
        queries, tasks, link = self._tasks.queries(self.identity), self._tasks, self._zerotask_link()
        self._node = Node(link, self._reactor, name, queries, tasks.run, tasks.cancel, SLOTS)
        tasks.on_waiting.subscribe(self._node.set_waiting)
        pushes, link = tasks.pushes(), self._zerotask_link()
        self._push_node = Node(link, self._reactor, f"{name}.push", pushes, tasks.run, tasks.cancel, PUSH_SLOTS)
        self._client.start()
        self._node.start()
        self._push_node.start()
        self.jobs = jobs

    def _audit_of(self, entry: str) -> Callable[[str, str, str], None]:
        """Return what writes into the audit what came through this entry."""

        def note(actor: str, action: str, subject: str) -> None:
            written = self._parts.store.call(audit, AuditEntry(time.time(), actor, action, subject[:200], entry))
            written.addErrback(lambda failure: self.log.error("the audit: {why}", why=failure.getErrorMessage()))

        return note

    def _zerotask_broker(self) -> Broker | None:
        """Return the broker of tasks that is elsewhere, unless a peer without a key could pass for it."""
        broker = self.settings.zerotask
        return broker if broker is not None and (self.settings.insecure or is_trusted(broker)) else None

    def _left_out(self) -> list[str]:
        """Return a sentence for each broker that this Helen does not join, as any program could pass for it."""
        if self.settings.insecure:
            return []
        named = [("--scale0", broker) for broker in self.settings.scale0]
        named += [] if self.settings.zerotask is None else [("--zerotask", self.settings.zerotask)]
        return [
            f"{setting} {broker.endpoint} is not joined: without keys any program of this machine may answer there, and"
            f" ask. Give --curve-key, --authorized-keys and {broker.endpoint}#NAME, or --insecure-network for a trial"
            for setting, broker in named
            if not is_trusted(broker)
        ]

    def _zerotask_link(self) -> Link:
        self._links.append(self._new_link())
        return self._links[-1]

    def _new_link(self) -> Link:
        if self.zerotask is not None:
            return self.zerotask.local_link()
        broker, keys = self._zerotask_broker(), self._dial_keys
        assert broker is not None
        return SocketLink(self._reactor, broker.endpoint, None if keys is None else lambda: keys.of_broker(broker))

    def _read_keys(self) -> Security | None:
        chosen = self.settings
        if chosen.curve_key is None or chosen.authorized_keys is None:
            return None
        if not chosen.authorized_keys.is_dir():
            raise KeyFault(f"{chosen.authorized_keys}: no such folder; it holds one NAME.key for each peer")
        pair = load_pair(chosen.curve_key)
        return Security(pair, Admitted(chosen.authorized_keys, pair))

    @property
    def _keys(self) -> Keys | None:
        return None if self._security is None else Keys(self._security.pair.public, self._security.pair.secret)

    def _host_scale0(self, file: Any) -> None:
        folder = self._parts.state / "scale0"
        make_folder(folder)
        self.broker = BrokerService(
            self._reactor, file, folder, self._security, is_open=self.settings.insecure, token=self._token
        )
        self._host(self.broker)
        if self.broker.broker.config.http:
            self._host(FrontEnd(self._reactor, self.broker))

    def _host(self, service: Service) -> None:
        """Start a service. What it raises is for `open`; a later failure is told in the log."""
        started = service.startService()
        self._hosted.append(service)
        if isinstance(started, Deferred):
            started.addErrback(lambda failure: self.log.failure("a part of the network does not start", failure))

    def _host_zerotask(self) -> None:
        """Host ZeroTask on sockets in the state directory, which only our user can open, unless a setting says
        otherwise.
        """
        folder = self._parts.state / "zerotask"
        make_folder(folder)
        listen = self.settings.zerotask_listen or f"ipc://{folder}/tasks.sock"
        publish = f"{listen}.p" if listen.startswith("ipc:") else f"{listen.rpartition(':')[0]}:0"
        if len(publish.removeprefix("ipc://").encode()) > IPC_MOST:
            raise NetworkRefused(
                f"{publish} is longer than a socket's path may be: give --zerotask-listen tcp://127.0.0.1:5555, which"
                " every user of this machine can reach, or a shorter --state"
            )
        pair = None if self._security is None else self._security.pair
        keys = None if self._security is None else self._security.authorized
        settings = Settings(folder, listen, publish, pair, keys, self._zerotask_network(), self.settings.insecure)
        self.zerotask = ZeroTaskService(settings, self._reactor)
        self._host(self.zerotask)

    def _zerotask_network(self) -> Scale0Network | None:
        """Return the way by which ZeroTask serves `zerotask.broker` and Titanic in the network of the broker that we
        host.
        """
        if self.broker is None:
            return None
        return Scale0Network(
            f"{self.identity}.zerotask", self._own_broker("backend"), self._own_broker("frontend"), self._keys
        )

    def _own_broker(self, end: str) -> tuple[Target, ...]:
        """Return the way to the broker that we host: over loopback, whatever it is bound to."""
        if self.broker is None:
            return ()
        key = "" if self._security is None else self._security.pair.public
        return (Target(_WILD.sub("tcp://127.0.0.1:", self.broker.sockets.endpoints[end]), key, token=self._token),)

    def _target(self, broker: Broker) -> Target:
        return Target(broker.endpoint, self.key_of(broker))

    def key_of(self, broker: Broker) -> str:
        """Return a broker's public key; empty without CURVE."""
        if not broker.name or self._security is None:
            return ""
        return str(self._security.authorized.key_of(broker.name))

    # ---------------------------------------------------------------------------------------------- looking, ending

    def overview(self) -> dict[str, Any]:
        """Return `scale0` (identity, state), `shared` and `zerotask` (hosted, jobs); None for what is not used.

        Where anything is in trouble there is also `troubles`, a list of sentences; with --insecure-network `insecure`,
        a sentence.
        """
        backend, jobs, found = self.backend, self.jobs, self.troubles()
        trial = {"insecure": INSECURE} if self.settings.insecure else {}
        return (
            trial
            | ({"troubles": found} if found else {})
            | {
                "scale0": None if backend is None else {"identity": self.identity, "state": backend.state},
                "shared": None if self.sharing is None else self.sharing.overview(),
                "zerotask": None if jobs is None else {"hosted": self.zerotask is not None, "jobs": len(jobs)},
            }
        )

    def troubles(self) -> list[str]:
        """Return a sentence for each trouble of the connections to Scale0 and ZeroTask."""
        if self._is_leaving:
            return []
        return [*self._left_out(), *self._health().troubles()]

    def figures(self) -> list[Figure]:
        """Return name, help and value of each gauge of the connections, for /metrics."""
        return self._health().figures()

    def _health(self) -> NetworkHealth:
        hosts = self._security is not None and (self.broker is not None or self.zerotask is not None)
        keys = self._security.authorized if self._security is not None and hosts else None
        return NetworkHealth(
            keys, self.backend, self.broker, self.sharing, self._node, self._links, self.zerotask, self.jobs
        )

    async def leave(self) -> None:
        """Leave the brokers, which send further requests to others."""
        self._is_leaving = True
        if self.backend is not None and self.backend.worker.running:
            self.backend.stop()
            self._others.stop()
            if self._moved is not None:
                self._moved.stop()
            if self.sharing is not None:
                await self.sharing.stop()
        if self.jobs is not None:
            self.jobs.stop()
            self._tasks.stop()
            assert self._node is not None
            await gatherResults([self._node.stop(STOP_WAIT), self._push_node.stop(STOP_WAIT), self._client.stop()])

    async def close(self) -> None:
        """End the brokers that we host, and with them all sockets."""
        for service in reversed(self._hosted):
            await maybeDeferred(service.stopService)
        await Network.of(self._reactor).close()


def identity_of(names: tuple[str, ...]) -> str:
    """Return the identity of a Helen in the network: its first name, or this machine's."""
    name = names[0] if names else socket.gethostname()
    return re.sub(r"[^A-Za-z0-9._:-]", "-", name)[:100].lstrip("._:-") or "helen"
