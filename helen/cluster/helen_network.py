"""Wires Helen to Scale0 and ZeroTask: begins, ends and tells the state of all that it takes part in there.

hosted_brokers.py has the brokers in this process, scale0_backend.py the connection to Scale0, sharing.py the documents
that Helens share, and task_membership.py the nodes of ZeroTask.

Everything here needs the extra `zmq`: helen/service.py imports it only when a setting asks for it. `open` takes ports
and reads keys, and refuses in a sentence; `start` begins to serve once Helen does; `leave` and `close` end it.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from helen.agents.roster import Agent
from helen.cluster import network_key
from helen.cluster.attachments import Attachments
from helen.cluster.dial_keys import DialKeys
from helen.cluster.far_tunnels import FarTunnels
from helen.cluster.helen_list import HelenList
from helen.cluster.hosted_brokers import HostedBrokers, NetworkRefused
from helen.cluster.moved_agents import MovedAgents, service_of
from helen.cluster.named_brokers import INSECURE, NamedBrokers
from helen.cluster.network_health import Figure, NetworkHealth
from helen.cluster.network_key import NetworkKey
from helen.cluster.scale0_backend import Offer, Scale0Backend
from helen.cluster.served_tunnels import ServedTunnels
from helen.cluster.sharing import Sharing
from helen.cluster.task_membership import TaskMembership
from helen.jobs.jobs import Jobs
from helen.parts import Parts
from helen.settings.network_settings import NetworkSettings
from helen.storage.agent_rows import AuditEntry, audit
from helen.web.overview import overview_for
from scale0.config.config import ConfigFault
from scale0.config.keys import KeyFault
from scale0.endpoint.document_holder import DocumentHolder
from scale0.endpoint.effects import Target
from scale0.wire.reader import Network, SocketError
from zerotask.service import StartError
from zerotask.storage.schema import StoreError

REFUSALS = (ConfigFault, KeyFault, SocketError, StartError, StoreError)


class HelenNetwork:
    """Takes part in Scale0 and ZeroTask for one Helen; `backend` is None without Scale0, `jobs` without ZeroTask.

    `hosted` has the brokers in this process, `sharing` is None unless Helens share documents, and `far_tunnels`, to
    agents of other Helens, is None without a network key.
    """

    log = Logger()

    def __init__(self, parts: Parts) -> None:
        self.settings: NetworkSettings = parts.live.settings.network
        self.identity = self.settings.identity or identity_of(parts.live.settings.names)
        self.backend: Scale0Backend | None = None
        self.sharing: Sharing | None = None
        self.far_tunnels: FarTunnels | None = None
        self.hosted = HostedBrokers(parts.reactor, self.settings, parts.state, self.identity)
        self._named = NamedBrokers(self.settings)
        self._reactor = parts.reactor
        self._parts = parts
        self._others = HelenList(parts.sessions, parts.live.address)
        self._moved: MovedAgents | None = None
        self._is_leaving = False
        self._dial_keys: DialKeys | None = None
        self._tasks: TaskMembership | None = None
        parts.drain.leaving.subscribe(self.hide)
        parts.drain.staying.subscribe(self.offer)
        parts.drain.drained.subscribe(self.drained)
        parts.published.subscribe(lambda: self.changed("checks"))
        parts.key_rotation.taken.subscribe(lambda: self.changed("keys"))

    # ---------------------------------------------------------------------------------------------- starting

    def open(self) -> None:
        """Take ports, read keys and configurations. Raises NetworkRefused."""
        try:
            brokers = self._open_brokers()
        except REFUSALS as error:
            raise NetworkRefused(str(error)) from error
        if self.settings.is_wanted and self.settings.insecure:
            self.log.warn(INSECURE)
        for sentence in self._named.left_out():
            self.log.warn("{sentence}", sentence=sentence)
        if brokers:
            self.backend = self._open_backend(brokers)

    def _open_brokers(self) -> list[Target]:
        """Host the brokers that settings ask for; return those of Scale0 that Helen connects to."""
        self.hosted.read_keys()
        security = self.hosted.security
        self._dial_keys = None if security is None else DialKeys(self.settings, security)
        if self.settings.embed_scale0 is not None:
            self.hosted.host_scale0(self.settings.embed_scale0)
        brokers = [*self._named.scale0_targets(security), *self.hosted.targets("backend")]
        if self.settings.embed_zerotask:
            self.hosted.host_zerotask()
        elif self.settings.zerotask is not None and self._dial_keys is not None:
            self._dial_keys.of_broker(self.settings.zerotask)  # the key has to be there at the start
        return brokers

    def _open_backend(self, brokers: list[Target]) -> Scale0Backend:
        key = None if self.settings.network_key is None else network_key.load(self.settings.network_key)
        sharer = None if key is None else self._open_sharing(key)
        attachments = Attachments(self.identity, key, self._reactor.seconds, time.time)
        tunnel = None if key is None else self._open_tunnels(key)
        offer = Offer(self._overview_of_all, self._parts.library.file, tunnel)
        return Scale0Backend(
            self._reactor,
            self._parts.sessions,
            self.identity,
            brokers,
            offer,
            self._dial_keys,
            self._configured,
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
        if self.settings.embed_zerotask or self._named.zerotask is not None:
            self._tasks = TaskMembership(
                self._parts,
                self.identity,
                self.hosted.zerotask,
                self._named.zerotask,
                self._dial_keys,
                self._audit_of("ZeroTask"),
            )
            await self._tasks.join()

    @property
    def jobs(self) -> Jobs | None:
        """Return the jobs of ZeroTask; None as long as Helen is no member there."""
        return None if self._tasks is None else self._tasks.jobs

    def _audit_of(self, entry: str) -> Callable[[str, str, str], None]:
        """Return what writes into the audit what came through this entry."""

        def note(actor: str, action: str, subject: str) -> None:
            written = self._parts.store.call(audit, AuditEntry(time.time(), actor, action, subject[:200], entry))
            written.addErrback(lambda failure: self.log.error("the audit: {why}", why=failure.getErrorMessage()))

        return note

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
                "zerotask": None if jobs is None else {"hosted": self.hosted.zerotask is not None, "jobs": len(jobs)},
            }
        )

    def troubles(self) -> list[str]:
        """Return a sentence for each trouble of the connections to Scale0 and ZeroTask."""
        if self._is_leaving:
            return []
        return [*self._named.left_out(), *self._health().troubles()]

    def figures(self) -> list[Figure]:
        """Return name, help and value of each gauge of the connections, for /metrics."""
        return self._health().figures()

    def _health(self) -> NetworkHealth:
        hosted, tasks = self.hosted, self._tasks
        node, links = (None, []) if tasks is None else (tasks.node, tasks.links)
        return NetworkHealth(
            hosted.admitted_keys(), self.backend, hosted.scale0, self.sharing, node, links, hosted.zerotask, self.jobs
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
        if self._tasks is not None:
            await self._tasks.leave()

    async def close(self) -> None:
        """End the brokers that we host, and with them all sockets."""
        await self.hosted.close()
        await Network.of(self._reactor).close()


def identity_of(names: tuple[str, ...]) -> str:
    """Return the identity of a Helen in the network: its first name, or this machine's."""
    name = names[0] if names else socket.gethostname()
    return re.sub(r"[^A-Za-z0-9._:-]", "-", name)[:100].lstrip("._:-") or "helen"
