"""Wires what this Helen shares with the others of its network: the shared parts of this folder and Helen's own.

sharing = Sharing(parts, identity, key, told)
Scale0Backend(..., sharer=sharing.replication.sharer)
sharing.start(backend)
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from groundwork.atomic_write import write_durably
from helen.agents.roster import Agent, Roster
from helen.cluster.document_store import DocumentStore
from helen.cluster.network_key import NetworkKey
from helen.cluster.presence import LOOK_SECONDS, HelensPart, Presence
from helen.cluster.replication import GATHERED, SOON, Replication
from helen.cluster.scale0_backend import Scale0Backend
from helen.cluster.shared_acks import AcksPart
from helen.cluster.shared_agents import NAMES, AgentsPart
from helen.cluster.shared_assignments import AssignmentsPart
from helen.cluster.shared_authorities import AuthoritiesPart
from helen.cluster.shared_checks import ChecksPart
from helen.cluster.shared_downtimes import WindowsPart
from helen.cluster.shared_grace import GracePart
from helen.cluster.shared_notifications import NotificationsPart
from helen.cluster.shared_signing_keys import SigningKeysPart
from helen.evaluation.evaluator import Evaluator
from helen.files.state_dir import make_folder
from helen.journal.values import StoredChange
from helen.keys import certificates
from helen.parts import Parts
from helen.settings.settings import address
from helen.states.model import LINK

NOT_JOINED = (
    "this Helen has not met its network yet: an agent that enrolled now would pin keys that may not be the network's."
    " Is one of the brokers of --scale0 up?"
)
# Events after which an acknowledgement counts no more; the text of a record is searched, since most are others.
ENDS_ACK = re.compile(rb'"action": ?"ack-ended"|"reason": ?"retired"')
REFRESH_SECONDS = 3_600.0  # between looks at whether the network lacks something that expires or was missed


class Sharing:
    """Holds the shared parts. `told(others)` gets the other Helens that live, whenever they change."""

    log = Logger()

    def __init__(
        self, wired: Parts, identity: str, key: NetworkKey, told: Callable[[dict[str, Presence]], None]
    ) -> None:
        self._wired, self.identity = wired, identity
        self._backend: Scale0Backend | None = None
        authority, wall = wired.authority, time.time
        self.windows = WindowsPart(
            lambda: wired.evaluator.timeline.windows, wired.journal.change, wall, lambda: self.changed("windows")
        )
        self.acks = AcksPart(
            identity, lambda: wired.evaluator.timeline, _AgentsHere(wired.sessions.roster, wired.evaluator),
            lambda document, *key: wired.journal.change("ack", document, *key), wall, lambda: self.changed("acks"),
        )  # fmt: skip
        self.helens = HelensPart(identity, self._presence(), wall, lambda: self.changed("helens"), self._is_there, told)
        self.checks = ChecksPart(
            wired.library,
            identity,
            wall,
            self._fetch,
            lambda: [*self.helens.live, *self.helens.others],
            lambda: self.replication.in_force("keys"),
            wired.reactor.seconds,
            lambda within: self.changed("checks", within),
        )
        parts = (
            SigningKeysPart(wired.keys, key, lambda: authority.has_given, self._keys_taken),
            AuthoritiesPart(authority, wall, lambda: self.changed("authorities")),
            AgentsPart(authority, wall, self._agents_changed, wired.evaluator.forget),
            GracePart(authority, wall, lambda: self.changed("renewals")),
            self.helens,
            self.checks,
            AssignmentsPart(wired.assignments, identity),
            self.windows,
            self.acks,
            NotificationsPart(wired.notifier.config_file, key, identity, self._set_aside),
        )
        self.replication = Replication(wired.reactor, key, DocumentStore(wired.state), parts, wall, self._joined)
        self._loops: list[LoopingCall] = []

    def open(self) -> None:
        """Load what was in force before this start; agents enrol once the network was met. Blocks."""
        self.replication.open()
        if not self.replication.has_joined:
            self._wired.authority.enrolment.closed = NOT_JOINED

    def start(self, backend: Scale0Backend) -> None:
        """Begin to adopt and to publish."""
        self._backend = backend
        self._wired.assignments.observers.append(lambda: self.changed("assignments"))
        self._wired.evaluator.window_observers.append(self.windows.noticed)
        self._wired.notifier.config_file.observers.append(lambda: self.changed("notifications"))
        self._wired.evaluator.ack_observers.append(self._acknowledged)
        self._wired.evaluator.observers.append(self._decided)
        self._wired.sessions.delivery.scheduled.subscribe(self._scheduled)
        self.replication.start()
        for interval, call in ((LOOK_SECONDS, self.helens.look), (REFRESH_SECONDS, self._refresh)):
            loop = LoopingCall(call)
            loop.clock = self._wired.reactor
            loop.start(interval, now=False).addErrback(lambda failure: self.log.failure("a look around", failure))
            self._loops.append(loop)

    async def stop(self) -> None:
        """End timers; a write that is under way is finished."""
        self._wired.sessions.delivery.scheduled.unsubscribe(self._scheduled)
        for loop in self._loops:
            if loop.running:
                loop.stop()
        await self.replication.stop()

    def changed(self, name: str, within: float = SOON) -> None:
        """Publish a document that has changed here, within so many seconds."""
        self.replication.changed(name, within)

    def _keys_taken(self) -> None:
        self._wired.key_rotation.take()
        self.changed("checks")  # the set that the network has from us may be signed by the old ones

    def _agents_changed(self, name: str, at_once: bool) -> None:
        self.changed(name, SOON if at_once else GATHERED)
        self.changed("keys", GATHERED)  # with the first agent our roots are pinned

    def _refresh(self) -> None:
        for name in (*NAMES, "helens", "authorities", "windows", "acks"):
            self.changed(name)

    # ---------------------------------------------------------------------------------------------- acknowledgements

    def _scheduled(self, agent: Agent, entries: object) -> None:
        """Bring an agent's acknowledgements with it: its rules are in the journal, and no result of this connection."""
        if agent.link is not None:
            self.acks.came(agent.name)

    def _acknowledged(self, record: StoredChange) -> None:
        self._look_at_ack(record, b'"carry"' not in record.change.document)

    def _decided(self, record: StoredChange) -> None:
        if ENDS_ACK.search(record.change.document):
            self._look_at_ack(record, False)

    def _look_at_ack(self, record: StoredChange, is_order: bool) -> None:
        agent, check_id = record.change.agent, record.change.check_id
        if agent is not None and check_id is not None:
            evaluated = self._wired.evaluator.when_evaluated(record.at)
            evaluated.addCallback(lambda _: self.acks.noticed(agent, check_id, is_order))
            evaluated.addErrback(lambda failure: self.log.failure("sharing an acknowledgement", failure))

    def _set_aside(self, text: str) -> Deferred[None]:
        path = self._wired.state / "replaced" / self._wired.notifier.config_file.path.name
        self.log.warn(
            "{name} is replaced by the network's; the text of before lies in {path}", name=path.name, path=path
        )
        return deferToThread(_write_aside, path, text)

    def _joined(self) -> None:
        self._wired.authority.enrolment.closed = ""

    # ---------------------------------------------------------------------------------------------- where we are

    def _presence(self) -> Presence:
        live = self._wired.live
        host, _ = address(live.address, "--listen")
        names = live.settings.names
        ca = "" if live.settings.insecure_plaintext else certificates.pem(self._wired.authority.material.ca)
        return Presence(live.address, names[0] if names else host, ca)

    def configured(self, group: str) -> None:
        """Take the group of our broker."""
        own = self.helens.own
        self.helens.become(Presence(own.address, own.name, own.ca, group, own.drained))

    def drained(self, is_drained: bool) -> None:
        """Tell the others whether agents shall go to them instead."""
        own = self.helens.own
        self.helens.become(Presence(own.address, own.name, own.ca, own.group, is_drained))

    def _is_there(self, service: str) -> Deferred[bool | None]:
        assert self._backend is not None
        return self._backend.is_there(service)

    def _fetch(self, identity: str, sha256: str) -> Deferred[bytes | None]:
        assert self._backend is not None
        return self._backend.fetch(identity, sha256)

    def overview(self) -> dict[str, Any]:
        """Return the overview of the replication and, under `helens`, the addresses of those that live by identity."""
        helens = {name: presence.address for name, presence in sorted(self.helens.live.items())}
        return self.replication.overview() | {"helens": helens}


class _AgentsHere:
    """Knows which agents this Helen judges, and what they run."""

    def __init__(self, roster: Roster, evaluator: Evaluator) -> None:
        self._roster, self._evaluator = roster, evaluator

    def has(self, agent: str) -> bool:
        """Return True if an agent is connected here, and the journal says what it runs."""
        known = self._roster.agents.get(agent)
        return known is not None and known.link is not None and self._evaluator.has_rules(agent)

    def runs(self, agent: str, check_id: str) -> bool:
        """Return True if the journal says that an agent runs a check. Its link always has a state."""
        return check_id == LINK or self._evaluator.rule_of(agent, check_id) is not None


def _write_aside(path: Path, text: str) -> None:
    make_folder(path.parent)
    write_durably(path, text.encode())
