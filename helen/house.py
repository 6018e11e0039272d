"""What Helen does with what agents say: the one place where roster, journal, supply and questions meet.

It holds no sockets and no files of its own; tap.py gives it all that it needs. Everything here runs in the reactor
thread and returns at once; what must be durable goes to the journal or the store and comes back later.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from cryptography import x509
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread
from twisted.logger import Logger
from twisted.python.failure import Failure

from equus_protocol import messages as m
from equus_protocol import once, results
from helen import one_shots, records
from helen.authority import Authority, Identity
from helen.certificates import BadRequest
from helen.connection import AgentConnection, Clocks, Hold
from helen.credentials import NotEnrolled
from helen.enrolment import Enrolled, EnrolRequest
from helen.journal.journal import Journal
from helen.journal.values import OWN_SPOOL, Batch, Entry, Origin, StoredResult
from helen.library import Library
from helen.listening import AgentDoor
from helen.loaded import LoadReport, read_loaded
from helen.roster import Agent, Latest, Roster
from helen.runs import ASKED_AT_ONCE, Claim, Run, Runs, Target
from helen.store import Store, StoreClosed
from helen.supply import Supply, ask, encode_args
from helen.telemetry import Words
from helen.turns import Turns

OVERLOAD_RETRY = 5  # seconds that an agent shall stay away when the journal takes nothing more
CLOCK_SAMPLES = 20  # results by which the offset of an agent's clock is judged
READ_AT_ONCE = 65_536  # bytes of a load report: about a millisecond; greater ones are read in a thread
COMPLAIN_SECONDS = 60.0  # between two log lines about a store that doesn't work
LOOK_SECONDS = 0.02  # between two looks whether all connections have ended
HANG_UP_SECONDS = 1.0  # that agents have to hang up when Helen stops
CUT_SECONDS = 0.5  # that connections which were cut have to be gone


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
        self.door: AgentDoor | None = None
        self.signing_keys = ""  # what is pinned by whoever enrols: public keys, and the root that names them
        self.root = ""
        self.minimum = minimum
        self.roster = Roster(self._attached, self._detached)
        self.roster.on_conflict = self._conflict
        self.turns = Turns(reactor)
        self.supply = Supply(reactor, self.roster, self.turns, wall)
        self.runs = Runs(ask, cancel)
        self.observers: list[Callable[[Agent, Latest], None]] = []
        self.on_attached: list[Callable[[Agent], None]] = []  # an agent has come
        self.on_detached: list[Callable[[Agent], None]] = []  # it has gone, or comes anew: then both are called
        self.on_loaded: list[Callable[[Agent], None]] = []  # it has said what it runs
        self.stopping = False
        self.closed_to_agents = ""  # the error for whoever says hello; empty: they are welcome
        self.sessions: dict[str, int] = {"admitted": 0, "refused": 0}
        self.errors = Words()  # the error words that agents were sent
        self.counts: dict[str, int] = {"reports": 0, "results": 0, "passive": 0, "acks": 0, "late": 0, "clashes": 0}
        self._reactor = reactor
        self._wall = wall
        self._steady = steady
        self._held_back: set[AgentConnection] = set()
        self._claims: dict[tuple[str, int], Claim] = {}  # (agent, sequence in the spool `helen`) -> who asked
        self._submitted: dict[tuple[str, int], Deferred[None]] = {}  # the same -> who reported it from outside
        self._offsets: dict[str, deque[float]] = {}
        self._complained_at = -COMPLAIN_SECONDS
        authority.on_revoked(self._revoked)

    @property
    def library(self) -> Library | None:
        return self.supply.library

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
        self.turns.forget(connection)
        self._held_back.discard(connection)
        self.supply.forget(connection)

    def hello(self, connection: AgentConnection, hello: m.Hello) -> None:
        if self.stopping:
            connection.refuse("shutting-down;retry-after=1", "Helen is stopping")
            return
        if self.closed_to_agents:
            connection.refuse(self.closed_to_agents, "this Helen is drained")
            return
        self.roster.arrive(connection, self._steady())

    def heard_from(self, connection: AgentConnection) -> None:
        if connection.admitted:
            self.roster.heard_from(connection)

    def lost(self, connection: AgentConnection) -> None:
        if connection.name:
            self.roster.leave(connection, self._steady())

    def refused(self, connection: AgentConnection, slug: str) -> None:
        """We have sent it an error word."""
        self.errors.count(slug.partition(";")[0])
        if not connection.admitted:
            self.sessions["refused"] += 1

    def failed(self, connection: AgentConnection, failure: Failure) -> None:
        """Something of ours broke while we listened to it."""
        self.log.failure("what {name} said", failure, name=connection.name or "a stranger")

    def soon(self, connection: AgentConnection) -> None:
        self.turns.soon(connection)

    def later(self, connection: AgentConnection) -> None:
        self.turns.later(connection)

    def drained(self, connection: AgentConnection) -> None:
        """The agent has read what was written: further files may go."""
        self.supply.answer(connection)

    def sweep(self) -> None:
        """Once a tick: what is over its time."""
        now = self._steady()
        self.roster.sweep(now)
        self.runs.sweep(now)
        if self.library is not None:
            self.library.tick(now, self.followers)
        if self._held_back and not self.journal.full:
            self._let_go()

    def followers(self) -> list[str]:
        """Agents that are connected and run a set of ours: those of whom a rollout may expect something."""
        releases = self.library.releases if self.library is not None else None
        agents = self.roster.connected() if releases is not None else []
        return [
            agent.name for agent in agents
            if agent.version == 2 and releases.is_ours(agent.digest) and not _holds_back(agent)
        ]  # fmt: skip

    def _attached(self, agent: Agent) -> None:
        connection = agent.link
        assert isinstance(connection, AgentConnection)
        self.sessions["admitted"] += 1
        clocks = self.clocks()
        agent.connected_at = agent.last_seen = clocks.wall
        agent.revoked_at = None
        agent.equus_version = connection.equus_version
        if self.door is not None:
            self.door.no_stranger(connection)
        if connection.identity is not None:
            self.authority.seen(connection.identity, clocks.wall)
        self._remember(agent)
        link = {"event": "up", "address": connection.address, "version": connection.version}
        self.journal.change("link", link, agent.name)
        self.log.info(
            "{name} connected from {address}: {equus}, version {version}", name=agent.name, address=connection.address,
            equus=connection.equus_version, version=connection.version,
        )  # fmt: skip
        if self._is_too_old(connection.equus_version):
            connection.send(m.Reload())
        self.supply.attached(agent, connection)
        for observer in self.on_attached:
            observer(agent)

    def _detached(self, agent: Agent, link: Any) -> None:
        agent.connected_at = None
        agent.last_seen = self._wall()
        self.supply.forget(link)
        self.runs.gone(link, "the agent went away before it answered")
        self._remember(agent)
        self.journal.change("link", {"event": "down", "address": link.address}, agent.name)
        self.log.info("{name} has gone", name=agent.name)
        for observer in self.on_detached:
            observer(agent)

    def _remember(self, agent: Agent) -> None:
        seen = self.store.call(records.agent_seen, agent.name, agent.last_seen or self._wall(), agent.address)
        seen.addErrback(self._store_failed)

    def _store_failed(self, failure: Failure) -> None:
        """Agents say again what was not kept; one line a minute tells of it."""
        if failure.check(StoreClosed) or self._steady() - self._complained_at < COMPLAIN_SECONDS:
            return
        self._complained_at = self._steady()
        self.log.error("what is known of agents is not kept: {error}", error=failure.getErrorMessage())

    def _is_too_old(self, equus_version: str) -> bool:
        """`1.2.3` or `equus/1.2.3` against the minimum; what isn't written so is somebody else's agent, and welcome."""
        parts = equus_version.partition(";")[0].removeprefix("equus/").split(".")
        if not self.minimum or not all(part.isascii() and part.isdigit() for part in parts):
            return False
        return tuple(int(part[:6]) for part in parts) < self.minimum

    def _conflict(self, newer: Any) -> None:
        self.counts["clashes"] += 1
        self.roster.know(newer.name).clash = {"at": self._wall(), "address": newer.address}
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
        elif isinstance(message, m.AskManifest | m.Fetch):
            self.supply.wants(connection, message)
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
            self._overloaded(connection)
        elif self.journal.full:
            self._hold_back(connection)

    def _result(self, connection: AgentConnection, result: m.Result) -> None:
        """An answer is journalled first; whoever asked is told when it has come back durable."""
        self.counts["results"] += 1
        entry = self.supply.dispatch.answered(connection, result.message_id)
        claim = self.runs.claim(connection, result.message_id)
        if entry is None and claim is None:
            self.counts["late"] += 1
        if result.name == once.NAME:  # of code that is in no set: for whoever asked, and kept nowhere
            if claim is not None:
                one_shots.answered(self.runs, claim, result)
            return
        origin = Origin.SCHEDULED if entry is not None else Origin.ASKED
        check_id = entry.id if entry is not None else result.name
        sequence = self.journal.append_own(connection.name, check_id, result.name, origin, self._wall(), result.blob)
        if sequence is None:
            if claim is not None:
                self.runs.settle(claim, results.parse(result.blob), result.blob)
            self._overloaded(connection)
            return
        if claim is not None:
            self._claims[connection.name, sequence] = claim
        if self.journal.full:
            self._hold_back(connection)

    def _overloaded(self, connection: AgentConnection) -> None:
        connection.refuse(f"overloaded;retry-after={OVERLOAD_RETRY}", "the journal takes nothing more")

    def _hold_back(self, connection: AgentConnection) -> None:
        connection.hold(Hold.JOURNAL)
        self._held_back.add(connection)

    def _let_go(self) -> None:
        """One after the other: what they have to say may fill the journal again."""
        waiting, self._held_back = self._held_back, set()
        self.turns.walk(waiting, self._let_one_go)

    def _let_one_go(self, connection: AgentConnection) -> None:
        if self.journal.full:
            self._held_back.add(connection)
        elif not connection.closing:
            connection.go_on(Hold.JOURNAL)

    def on_durable(self, batch: Batch) -> None:
        """The journal has something on disk: say so, and let the present know."""
        for ack in batch.acks:
            agent = self.roster.agents.get(ack.agent)
            if agent is not None and agent.link is not None and agent.link.version == 2 and ack.sequence > 0:
                self.counts["acks"] += 1
                agent.link.send(m.Ack(ack.spool, ack.sequence))  # type: ignore[attr-defined]
        self.recall(batch.records)
        if self._held_back and not self.journal.full:
            self._let_go()

    def recall(self, stored: Iterable[Any]) -> None:
        """Results that are durable: new ones, and at start those that came last before it."""
        for record in stored:
            if isinstance(record, StoredResult):
                self._stored(record)

    def _stored(self, record: StoredResult) -> None:
        entry, document = record.entry, record.document
        if entry.origin is Origin.ASKED:
            claim = self._claims.pop((entry.agent, entry.sequence), None)
            if claim is not None:
                self.runs.settle(claim, document, entry.blob)  # type: ignore[arg-type]  # it has all that is read of one
            self._kept(entry)
            return
        is_passive = entry.origin is Origin.PASSIVE
        agent = self.roster.host(entry.agent) if is_passive else self.roster.know(entry.agent)
        if agent.revoked_at is not None:  # its last words, that were on their way to the disk
            return
        if document.started is not None and not is_passive:
            self._judge_clock(agent, document.started + (document.took_ms or 0.0) / 1_000, entry.received)
        latest = Latest(
            entry.check_id, document.status, document.summary, entry.received, document.reason, document.code,
            document.took_ms, document.metrics,
        )  # fmt: skip
        kept = agent.took(latest)
        for observer in self.observers:
            observer(agent, kept)
        self._kept(entry)

    def _kept(self, entry: Entry) -> None:
        waiting = self._submitted.pop((entry.agent, entry.sequence), None) if entry.spool == OWN_SPOOL else None
        if waiting is not None:
            waiting.callback(None)

    def submit(self, name: str, check_id: str, blob: bytes, origin: Origin = Origin.PASSIVE) -> Deferred[None] | None:
        """A result from outside: fires once it is on disk. None: the journal takes nothing more."""
        sequence = self.journal.append_own(name, check_id, None, origin, self._wall(), blob)
        if sequence is None:
            return None
        self.counts["passive"] += 1
        done = self._submitted[name, sequence] = Deferred()
        return done

    def facts_of(self, name: str, check_id: str) -> tuple[dict[str, str], str]:
        """For whoever tells people of it: the agent's labels, and what the check said last."""
        agent = self.roster.agents.get(name)
        latest = None if agent is None else agent.latest.get(check_id)
        return {} if agent is None else agent.labels, "" if latest is None else latest.summary

    def _judge_clock(self, agent: Agent, ended: float, received: float) -> None:
        """A result takes no negative time to get here, so the largest of a few differences is the best guess."""
        samples = self._offsets.setdefault(agent.name, deque(maxlen=CLOCK_SAMPLES))
        samples.append(ended - received)
        agent.clock_offset = max(samples)

    def _loaded(self, connection: AgentConnection, loaded: m.Loaded) -> None:
        """What an agent runs now, and who it says it is. Nothing more is heard of it before that is known."""
        if len(loaded.blob) <= READ_AT_ONCE:
            self._take_report(connection, loaded.digest, read_loaded(loaded.blob))
            return
        connection.hold(Hold.REPORT)
        read = deferToThread(read_loaded, loaded.blob)
        read.addCallback(lambda report: self._take_report(connection, loaded.digest, report))
        read.addErrback(lambda failure: self.failed(connection, failure))
        read.addBoth(lambda _: connection.go_on(Hold.REPORT))

    def _take_report(self, connection: AgentConnection, digest: str, report: LoadReport) -> None:
        if connection.closing:
            return
        agent = self.roster.know(connection.name)
        agent.digest, agent.files, agent.not_active = digest, report.files, report.not_active
        agent.host, agent.labels, agent.spool = report.host, report.labels, report.spool
        agent.isolation, agent.policy, agent.troubles = report.isolation, report.policy, report.troubles
        if report.spool_begins is not None:
            self.journal.forget_below(agent.name, *report.spool_begins)
        facts = {"labels": agent.labels, "host": agent.host, "isolation": agent.isolation, "equus": agent.equus_version}
        if facts != agent.facts:
            agent.facts = facts
            self.store.call(records.agent_facts, agent.name, facts).addErrback(self._facts_lost, agent)
        for observer in self.on_loaded:
            observer(agent)
        self.supply.offer(agent)
        self.supply.schedule(agent)

    def _facts_lost(self, failure: Failure, agent: Agent) -> None:
        agent.facts = {}
        self._store_failed(failure)

    # ---------------------------------------------------------------------------------------------- questions

    def ask(
        self,
        check: str,
        agents: Iterable[Agent],
        args: dict[str, Any] | bytes,
        timeout: float,
        on_target: Callable[[Target], None],
        on_end: Callable[[], None],
    ) -> Run:
        """Run a check now on these agents; raises RunRefused. A great fleet is asked a few at a time."""
        targets = [(agent.name, agent.link) for agent in agents]
        blob = args if isinstance(args, bytes) else encode_args(args)
        run = self.runs.start(check, targets, blob, self._steady() + timeout, on_target, on_end)
        self.turns.walk(range(-(-len(run.unasked) // ASKED_AT_ONCE)), lambda _: self.runs.advance(run))
        return run

    # ---------------------------------------------------------------------------------------------- enrolment

    def enrol(self, connection: AgentConnection, enrol: m.Enrol) -> None:
        """By token for strangers, by certificate for those who hold one. Whatever is wrong is `not-enrolled`."""
        try:
            request = EnrolRequest.parse(enrol.blob)
        except BadRequest as error:
            connection.refuse("not-enrolled", str(error))
            return
        if self.authority.closed and connection.identity is None:
            connection.refuse(f"overloaded;retry-after={OVERLOAD_RETRY}", self.authority.closed)
            return
        connection.hold(Hold.ENROLMENT)
        now = self._wall()
        if connection.identity is not None:
            done = self.authority.renew(connection.identity, enrol.name, request.csr, connection.address, now)
        else:
            done = self.authority.enrol(enrol.name, request.token or "", request.csr, connection.address, now)
        done.addCallbacks(
            lambda enrolled: self._enrolled(connection, enrol, enrolled),
            lambda failure: self._not_enrolled(connection, failure),
        )
        done.addErrback(lambda failure: self.log.failure("enrolment", failure))

    def _enrolled(self, connection: AgentConnection, enrol: m.Enrol, enrolled: Enrolled) -> None:
        self.roster.enrol(enrol.name)
        connection.send(m.Enrolled(enrol.message_id, enrolled.blob(self.signing_keys, self.root)))
        connection.go_on(Hold.ENROLMENT)

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
        self.supply.stop()
        for connection in list(self.door.connections) if self.door is not None else ():
            if connection.admitted or connection.name:
                connection.refuse(f"shutting-down;retry-after={retry_after}", "Helen is stopping")
            else:
                connection.drop("Helen is stopping")

    async def all_gone(self) -> None:
        """Returns when no connection is left; those that don't hang up in time are cut."""
        if not await self._wait_for_none(HANG_UP_SECONDS):
            for connection in list(self.door.connections) if self.door is not None else ():
                connection.drop("it does not hang up")
            await self._wait_for_none(CUT_SECONDS)
        self.turns.stop()

    async def _wait_for_none(self, seconds: float) -> bool:
        until = self._steady() + seconds
        while self.door is not None and self.door.connections:
            if self._steady() >= until:
                return False
            pause: Deferred[None] = Deferred()
            self._reactor.callLater(LOOK_SECONDS, pause.callback, None)
            await pause
        return True


def _holds_back(agent: Agent) -> bool:
    """Whether its policy says that it takes no other set."""
    return agent.troubles.get("manifest", "").startswith("held-back")


def cancel(link: Any, message_id: int) -> None:
    """Tell a version 2 agent to give up; one of version 1 goes on, and its late result is no fault."""
    if link.version == 2 and not link.closing and message_id in link.conversation.outstanding:
        link.send(m.Cancel(message_id))
