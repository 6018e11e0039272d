"""What Helen does with what agents say: the one place where roster, journal, library, schedules and questions meet.

It holds no sockets and no files of its own; tap.py gives it all that it needs. Everything here runs in the reactor
thread and returns at once; what must be durable goes to the journal or the store and comes back later.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from attrs import define, field
from cryptography import x509
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from equus_protocol import messages as m
from equus_protocol import results
from equus_protocol.errors import LocalProtocolError
from helen import policy, records
from helen.authority import Authority, Identity
from helen.connection import AgentConnection, Clocks
from helen.credentials import NotEnrolled
from helen.dispatch import Dispatch
from helen.enrolment import Enrolled
from helen.journal.journal import Journal
from helen.journal.values import Batch, Entry, Origin, StoredResult
from helen.library import Library, Published
from helen.listening import AgentDoor
from helen.policy import Assignments, AssignmentsError, ScheduleEntry
from helen.roster import Agent, Latest, Roster
from helen.runs import Claim, Run, RunRefused, Runs, Target
from helen.store import Store

OVERLOAD_RETRY = 5  # seconds that an agent shall stay away when the journal takes nothing more
CLOCK_SAMPLES = 20  # results by which the offset of an agent's clock is judged
MAX_LABELS = 64  # of one agent
MAX_LABEL = 255  # characters of a key or a value


@define(eq=False)
class Desk:
    """What is on its way for one connection."""

    schedule: bytes | None = None  # as it was sent last
    told: str | None = None  # the digest of the set that `reload` was last said for
    files: deque[m.Fetch] = field(factory=deque)  # asked while the agent doesn't read what it has been sent
    manifests: deque[int] = field(factory=deque)  # asked before anything was published
    scheduled: dict[int, ScheduleEntry] = field(factory=dict)


class House:
    """The middle of Helen. `minimum` is the oldest version of Equus that is served without being told to reload."""

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        authority: Authority,
        journal: Journal,
        store: Store,
        *,
        minimum: tuple[int, ...] = (),
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.authority = authority
        self.journal = journal
        self.store = store
        self.library: Library | None = None
        self.door: AgentDoor | None = None
        self.signing_keys = ""
        self.assignments = Assignments()
        self.roster = Roster(self._attached, self._detached)
        self.roster.on_conflict = self._conflict
        self.runs = Runs(self._ask, self._cancel)
        self.dispatch = Dispatch(self._ask_scheduled)
        self.observers: list[Callable[[Agent, Latest], None]] = []
        self.stopping = False
        self._reactor = reactor
        self._minimum = minimum
        self._wall = wall
        self._steady = steady
        self._desks: dict[AgentConnection, Desk] = {}
        self._dirty: set[AgentConnection] = set()
        self._late: list[AgentConnection] = []
        self._held_back: set[AgentConnection] = set()
        self._claims: dict[tuple[str, int], Claim] = {}  # (agent, sequence in the spool `helen`) -> who asked
        self._offsets: dict[str, deque[float]] = {}
        self._flushing: Any = None
        self._due: Any = None
        self.counts: dict[str, int] = {"reports": 0, "results": 0, "acks": 0, "late": 0, "clashes": 0}
        authority.on_revoked(self._revoked)

    def clocks(self) -> Clocks:
        return Clocks(self._wall(), self._steady())

    # ---------------------------------------------------------------------------------------------- connections

    def identify(self, certificate: x509.Certificate | None, now: float) -> Identity:
        return self.authority.identify(certificate, now)

    def arrived(self, connection: AgentConnection) -> None:
        if self.door is not None:
            self.door.arrived(connection)

    def gone(self, connection: AgentConnection) -> None:
        if self.door is not None:
            self.door.gone(connection)
        self._dirty.discard(connection)
        self._held_back.discard(connection)
        self._desks.pop(connection, None)

    def hello(self, connection: AgentConnection, hello: m.Hello) -> None:
        if self.stopping:
            connection.refuse("shutting-down;retry-after=1", "Helen is stopping")
            return
        self.roster.arrive(connection, self._steady())

    def heard_from(self, connection: AgentConnection) -> None:
        if connection.admitted:
            self.roster.heard_from(connection)

    def lost(self, connection: AgentConnection) -> None:
        if connection.name:
            self.roster.leave(connection, self._steady())

    def soon(self, connection: AgentConnection) -> None:
        """Write what was said outside of a turn of the connection's own, together with all others, once."""
        self._dirty.add(connection)
        if self._flushing is None:
            self._flushing = self._reactor.callLater(0, self._flush)

    def later(self, connection: AgentConnection) -> None:
        """Go on listening in the next turn of the reactor."""
        self._late.append(connection)
        if self._flushing is None:
            self._flushing = self._reactor.callLater(0, self._flush)

    def _flush(self) -> None:
        self._flushing = None
        dirty, self._dirty = self._dirty, set()
        late, self._late = self._late, []
        for connection in dirty:
            connection.flush()
        for connection in late:
            connection.listen()

    def sweep(self) -> None:
        """Once a tick: what is over its time."""
        now = self._steady()
        self.roster.sweep(now)
        self.runs.sweep(now)
        if self.library is not None:
            self.library.tick(now, [agent.name for agent in self.roster.connected()] if self.library.ring else [])
        if self._held_back and not self.journal.full:
            self._let_go()

    def _attached(self, agent: Agent) -> None:
        connection = agent.link
        assert isinstance(connection, AgentConnection)
        clocks = self.clocks()
        agent.connected_at = agent.last_seen = clocks.wall
        agent.equus_version = connection.equus_version
        if self.door is not None:
            self.door.no_stranger(connection)
        if connection.identity is not None:
            self.authority.seen(connection.identity, clocks.wall)
        self._desks[connection] = Desk()
        self._remember(agent)
        link = {"event": "up", "address": connection.address, "version": connection.version}
        self.journal.change("link", link, agent.name)
        self.log.info(
            "{name} connected from {address}: {equus}, version {version}", name=agent.name, address=connection.address,
            equus=connection.equus_version, version=connection.version,
        )  # fmt: skip
        if self._is_too_old(connection.equus_version):
            connection.send(m.Reload())
        self._schedule(agent)

    def _detached(self, agent: Agent, link: Any) -> None:
        agent.connected_at = None
        agent.last_seen = self._wall()
        self._desks.pop(link, None)
        self.dispatch.drop(link)
        self.runs.gone(link, "the agent went away before it answered")
        self._remember(agent)
        self.journal.change("link", {"event": "down", "address": link.address}, agent.name)
        self.log.info("{name} has gone", name=agent.name)

    def _remember(self, agent: Agent) -> None:
        seen = self.store.call(records.agent_seen, agent.name, agent.last_seen or self._wall(), agent.address)
        seen.addErrback(self._store_failed)

    def _store_failed(self, failure: Failure) -> None:
        self.log.error("the store: {error}", error=failure.getErrorMessage())

    def _is_too_old(self, equus_version: str) -> bool:
        """`1.2.3` or `equus/1.2.3` against the minimum; what isn't written so is somebody else's agent, and welcome."""
        parts = equus_version.partition(";")[0].removeprefix("equus/").split(".")
        if not self._minimum or not all(part.isascii() and part.isdigit() for part in parts):
            return False
        return tuple(int(part[:6]) for part in parts) < self._minimum

    def _conflict(self, newer: Any) -> None:
        self.counts["clashes"] += 1
        self.authority.conflict(newer.name, newer.address, self._wall())

    def _revoked(self, name: str, keys: frozenset[str]) -> None:
        for connection in list(self.door.connections) if self.door is not None else ():
            if connection.identity is not None and connection.identity.key_hash in keys:
                connection.refuse("not-enrolled", f"{name} has been revoked")

    # ---------------------------------------------------------------------------------------------- what they say

    def heard(self, connection: AgentConnection, message: m.Message) -> None:
        """Anything but hello, ping and pong, from an agent that was admitted."""
        if isinstance(message, m.Report):
            self._report(connection, message)
        elif isinstance(message, m.Result):
            self._result(connection, message)
        elif isinstance(message, m.AskManifest):
            self._desks[connection].manifests.append(message.message_id)
            self._answer_manifests(connection)
        elif isinstance(message, m.Fetch):
            self._fetch(connection, message)
        elif isinstance(message, m.Loaded):
            self._loaded(connection, message)
        elif isinstance(message, m.Enrol):
            self.enrol(connection, message)

    def _report(self, connection: AgentConnection, report: m.Report) -> None:
        self.counts["reports"] += 1
        entry = Entry(
            connection.name, report.check, None, report.spool, report.sequence, Origin.SCHEDULED, self._wall(),
            report.blob,
        )  # fmt: skip
        if not self.journal.append(entry):
            connection.refuse(f"overloaded;retry-after={OVERLOAD_RETRY}", "the journal takes nothing more")
        elif self.journal.full:
            self._hold_back(connection)

    def _result(self, connection: AgentConnection, result: m.Result) -> None:
        """An answer is journalled first; whoever asked is told when it has come back durable."""
        self.counts["results"] += 1
        entry = self.dispatch.answered(connection, result.message_id)
        claim = self.runs.claim(connection, result.message_id)
        if entry is None and claim is None:
            self.counts["late"] += 1
        origin = Origin.SCHEDULED if entry is not None else Origin.ASKED
        check_id = entry.id if entry is not None else result.name
        sequence = self.journal.append_own(connection.name, check_id, result.name, origin, self._wall(), result.blob)
        if sequence is None:
            connection.refuse(f"overloaded;retry-after={OVERLOAD_RETRY}", "the journal takes nothing more")
            if claim is not None:
                self.runs.settle(claim, results.parse(result.blob))
            return
        if claim is not None:
            self._claims[connection.name, sequence] = claim
        if self.journal.full:
            self._hold_back(connection)

    def _hold_back(self, connection: AgentConnection) -> None:
        connection.hold()
        self._held_back.add(connection)

    def _let_go(self) -> None:
        waiting, self._held_back = self._held_back, set()
        for connection in waiting:
            connection.go_on()

    def on_durable(self, batch: Batch) -> None:
        """The journal has something on disk: say so, and let the present know."""
        for ack in batch.acks:
            agent = self.roster.agents.get(ack.agent)
            if agent is not None and agent.link is not None and agent.link.version == 2 and ack.sequence > 0:
                self.counts["acks"] += 1
                agent.link.send(m.Ack(ack.spool, ack.sequence))
        for record in batch.records:
            if isinstance(record, StoredResult):
                self._stored(record)
        if self._held_back and not self.journal.full:
            self._let_go()

    def _stored(self, record: StoredResult) -> None:
        entry, document = record.entry, record.document
        if entry.origin is Origin.ASKED:
            claim = self._claims.pop((entry.agent, entry.sequence), None)
            if claim is not None:
                self.runs.settle(claim, document)
            return
        agent = self.roster.know(entry.agent)
        if document.started is not None:
            self._judge_clock(agent, document.started + (document.took_ms or 0.0) / 1_000, entry.received)
        latest = Latest(
            entry.check_id, document.status, document.summary, entry.received, document.reason, document.code,
            document.took_ms, document.metrics,
        )  # fmt: skip
        kept = agent.took(latest)
        for observer in self.observers:
            observer(agent, kept)

    def _judge_clock(self, agent: Agent, ended: float, received: float) -> None:
        """A result takes no negative time to get here, so the largest of a few differences is the best guess."""
        samples = self._offsets.setdefault(agent.name, deque(maxlen=CLOCK_SAMPLES))
        samples.append(ended - received)
        agent.clock_offset = max(samples)

    def _loaded(self, connection: AgentConnection, loaded: m.Loaded) -> None:
        """What an agent runs now, and who it says it is."""
        agent = self.roster.know(connection.name)
        agent.digest = loaded.digest
        document = read_object(loaded.blob)
        agent.files = {k: v for k, v in _object(document, "files").items() if isinstance(v, dict)}
        agent.host = _object(document, "host")
        agent.labels = read_labels(document.get("labels"))
        agent.spool = _object(document, "spool")
        agent.isolation, agent.policy = _word(document.get("isolation")), _word(document.get("policy"))
        spool, first = agent.spool.get("id"), agent.spool.get("first")
        if isinstance(spool, str) and type(first) is int and 1 < first <= 2**31 - 1:
            self.journal.forget_below(agent.name, spool, first)
        facts = {"labels": agent.labels, "host": agent.host, "isolation": agent.isolation, "equus": agent.equus_version}
        self.store.call(records.agent_facts, agent.name, facts).addErrback(self._store_failed)
        if self.library is not None and self.library.ring is not None:
            failed = {n: str(f.get("error")) for n, f in agent.files.items() if f.get("state") != "active"}
            self.library.ring.heard(agent.name, agent.digest, failed, self._steady())
        self._offer(agent)
        self._schedule(agent)

    # ---------------------------------------------------------------------------------------------- code

    def on_published(self) -> None:
        """A new set: every agent is told, each once."""
        for connection, desk in list(self._desks.items()):
            self._answer_manifests(connection)
            agent = self.roster.know(connection.name)
            if connection.version == 1:
                connection.send(m.Reload())
                self._schedule(agent)
            elif desk.schedule is None:
                self._schedule(agent)
                self._offer(agent)
            else:
                self._offer(agent)

    def _offer(self, agent: Agent) -> None:
        """Say `reload` to an agent that runs another set than it should, once for each set."""
        published = self._set_of(agent)
        connection = agent.link
        if published is None or connection is None or connection.version != 2:
            return
        desk = self._desks[connection]  # type: ignore[index]  # the roster's links are our connections
        if agent.digest != published.digest and desk.told != published.digest:
            desk.told = published.digest
            connection.send(m.Reload())  # type: ignore[attr-defined]

    def _set_of(self, agent: Agent) -> Published | None:
        return self.library.offered(agent.name) if self.library is not None else None

    def _answer_manifests(self, connection: AgentConnection) -> None:
        published = self.library.offered(connection.name) if self.library is not None else None
        desk = self._desks.get(connection)
        while desk is not None and published is not None and desk.manifests and not connection.closing:
            connection.send(m.Manifest(desk.manifests.popleft(), published.envelope))

    def _fetch(self, connection: AgentConnection, fetch: m.Fetch) -> None:
        self._desks[connection].files.append(fetch)
        self._send_files(connection)

    def drained(self, connection: AgentConnection) -> None:
        """The agent has read what was written: further files may go."""
        self._send_files(connection)

    def _send_files(self, connection: AgentConnection) -> None:
        desk = self._desks.get(connection)
        while desk is not None and desk.files and not connection.congested and not connection.closing:
            fetch = desk.files.popleft()
            content = self.library.file(fetch.sha256) if self.library is not None else None
            if content is None:
                connection.refuse("unknown-file", f"it asks for {fetch.sha256[:80]!r}, which no published set names")
                return
            connection.send(m.File(fetch.message_id, fetch.sha256, content))

    # ---------------------------------------------------------------------------------------------- schedules

    def assign(self, assignments: Assignments) -> None:
        """From now on these are the truth; whoever is concerned hears of it."""
        self.assignments = assignments
        for agent in self.roster.connected():
            self._schedule(agent)

    def schedule_of(self, agent: Agent) -> tuple[ScheduleEntry, ...]:
        published = self._set_of(agent)
        tables = published.tables if published is not None else {}
        return policy.schedule(self.assignments, tables, agent.name, agent.labels)

    def _schedule(self, agent: Agent) -> None:
        """Send an agent its whole schedule, if that differs from what it has."""
        connection = agent.link
        if not isinstance(connection, AgentConnection) or self._set_of(agent) is None:
            return
        entries = self.schedule_of(agent)
        if connection.version == 1:
            self.dispatch.take(connection, entries, self._wall())
            self._wind()
            return
        try:
            blob = policy.to_json(entries)
        except AssignmentsError as error:
            self.log.error("{name} keeps its old schedule: {error}", name=agent.name, error=error)
            return
        desk = self._desks[connection]
        if desk.schedule != blob:
            desk.schedule = blob
            connection.send(m.Schedule(connection.next_id(), blob))

    def _wind(self) -> None:
        """One timer for all version 1 agents."""
        due = self.dispatch.due()
        if self._due is not None and self._due.active():
            self._due.cancel()
        self._due = None
        if due is not None and not self.stopping:
            self._due = self._reactor.callLater(max(0.0, due - self._wall()), self._run_due)

    def _run_due(self) -> None:
        self._due = None
        self.dispatch.run(self._wall())
        self._wind()

    def _ask_scheduled(self, link: Any, entry: ScheduleEntry) -> int | None:
        try:
            return self._ask(link, entry.check, encode_args(entry.args))
        except RunRefused:
            return None

    # ---------------------------------------------------------------------------------------------- questions

    def ask(
        self,
        check: str,
        agents: Iterable[Agent],
        args: dict[str, Any],
        timeout: float,
        on_target: Callable[[Target], None],
        on_end: Callable[[], None],
    ) -> Run:
        """Run a check now on these agents; raises RunRefused."""
        targets = [(agent.name, agent.link) for agent in agents]
        return self.runs.start(check, targets, encode_args(args), self._steady() + timeout, on_target, on_end)

    def _ask(self, link: Any, check: str, args: bytes) -> int:
        message_id = link.next_id()
        try:
            link.send(m.Check(check, message_id, args))
        except LocalProtocolError as error:
            raise RunRefused(str(error)) from error
        return int(message_id)

    def _cancel(self, link: Any, message_id: int) -> None:
        if link.version == 2 and not link.closing and message_id in link.conversation.outstanding:
            link.send(m.Cancel(message_id))

    # ---------------------------------------------------------------------------------------------- enrolment

    def enrol(self, connection: AgentConnection, enrol: m.Enrol) -> None:
        """By token for strangers, by certificate for those who hold one. Whatever is wrong is `not-enrolled`."""
        document = read_object(enrol.blob)
        csr, token = document.get("csr"), document.get("token")
        now = self._wall()
        if not isinstance(csr, str):
            connection.refuse("not-enrolled", "an enrolment without a `csr`")
            return
        connection.hold()
        if connection.identity is not None:
            done = self.authority.renew(connection.identity, enrol.name, csr, connection.address, now)
        else:
            secret = token if isinstance(token, str) else ""
            done = self.authority.enrol(enrol.name, secret, csr, connection.address, now)
        done.addCallbacks(
            lambda enrolled: self._enrolled(connection, enrol, enrolled),
            lambda failure: self._not_enrolled(connection, failure),
        )
        done.addErrback(lambda failure: self.log.failure("enrolment", failure))

    def _enrolled(self, connection: AgentConnection, enrol: m.Enrol, enrolled: Enrolled) -> None:
        self.roster.know(enrol.name)
        connection.send(m.Enrolled(enrol.message_id, enrolled.blob(self.signing_keys)))
        connection.go_on()

    def _not_enrolled(self, connection: AgentConnection, failure: Failure) -> None:
        if failure.check(NotEnrolled):
            connection.refuse("not-enrolled", failure.value.reason)
        else:
            self.log.failure("enrolment failed", failure)
            connection.refuse("internal", failure.getErrorMessage())

    # ---------------------------------------------------------------------------------------------- the end

    def say_goodbye(self, retry_after: int) -> None:
        """Tell everybody when to come back."""
        self.stopping = True
        for connection in list(self.door.connections) if self.door is not None else ():
            if connection.admitted or connection.name:
                connection.refuse(f"shutting-down;retry-after={retry_after}", "Helen is stopping")
            else:
                connection.drop("Helen is stopping")
        if self._due is not None and self._due.active():
            self._due.cancel()

    def all_gone(self) -> Deferred[None]:
        """Fires when no connection is left, or after a second: those that don't hang up are cut."""
        done: Deferred[None] = Deferred()
        until = self._steady() + 1.0

        def look() -> None:
            left = list(self.door.connections) if self.door is not None else []
            if left and self._steady() < until:
                self._reactor.callLater(0.02, look)
                return
            for connection in left:
                connection.drop("it does not hang up")
            done.callback(None)

        look()
        return done


def encode_args(args: dict[str, Any]) -> bytes:
    """The blob of a `check`: JSON as it was given, beyond ASCII too."""
    return json.dumps(args, ensure_ascii=False, separators=(",", ":")).encode()


def read_object(blob: bytes) -> dict[str, Any]:
    """A JSON object, or an empty one for whatever isn't one."""
    try:
        document = json.loads(blob)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def read_labels(labels: Any) -> dict[str, str]:
    """At most MAX_LABELS of them, of sound length; the rest is left out."""
    if not isinstance(labels, dict):
        return {}
    sound = [(k, v) for k, v in labels.items() if isinstance(v, str) and 0 < len(k) <= MAX_LABEL >= len(v)]
    return dict(sorted(sound)[:MAX_LABELS])


def _object(document: dict[str, Any], key: str) -> dict[str, Any]:
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def _word(value: Any) -> str | None:
    return value[:MAX_LABEL] if isinstance(value, str) else None
