"""Runs the sessions of all agents: it admits them, hands their messages to the parts concerned, and says goodbye.

It holds no sockets and no files of its own. Everything here runs in the reactor thread and returns at once; what must
be durable goes to the journal or the store and comes back later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from cryptography import x509
from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.threads import deferToThread
from twisted.logger import Logger
from twisted.python.failure import Failure

from equus_protocol import messages as m
from groundwork.event import Event
from helen.agents.load_report import LoadReport, read_loaded
from helen.agents.roster import Agent, Roster
from helen.identity.authority import Authority
from helen.journal.journal import Journal
from helen.library.library import Library
from helen.library.published import Published
from helen.queries.live_queries import LiveQueries, Query, Target
from helen.quotas.quotas import Quotas
from helen.sessions.agent_memory import AgentMemory
from helen.sessions.agent_troubles import COPY, AgentTroubles
from helen.sessions.connection import AgentConnection, Clocks, Hold
from helen.sessions.delivery import Delivery, ask, cancel, encode_args
from helen.sessions.enrolment import Enrolment
from helen.sessions.fair_turns import FairTurns
from helen.sessions.open_connections import OpenConnections
from helen.sessions.quota_control import QuotaControl
from helen.sessions.result_intake import ResultIntake
from helen.storage.database import Store
from helen.storage.enrolled_keys import RENEWS_WITHIN, Identity
from helen.telemetry import Words
from helen.tunnels.open_shells import OpenShells
from helen.tunnels.tunnels import Tunnels
from helen.turn_rotation import TurnRotation

READ_AT_ONCE = 65_536  # bytes of a load report: about a millisecond; greater ones are read in a thread
HANG_UP_SECONDS = 1.0  # that agents have to hang up when Helen stops
CUT_SECONDS = 0.5  # that connections which were cut have to be gone


class SessionService:
    """Owns all connections (`ConnectionOwner`), and what belongs to a session.

    `attached`, `detached` and `loaded` are called with an agent that has come, has gone, or has reported what it runs;
    for one that comes anew both of the first two are called. `minimum` is the oldest version of Equus that is served
    without being told to reload; `add_statements` is Delivery's, `pinned` Enrolment's. `steady`: monotonic seconds in
    which Helen was awake, so that a stall ends no connection; `settled`: unix seconds by which certificates expire.
    """

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        authority: Authority,
        journal: Journal,
        store: Store,
        library: Library,
        *,
        add_statements: Callable[[Published], bytes],
        pinned: Callable[[], tuple[str, str]],
        minimum: tuple[int, ...] = (),
        quotas: Quotas | None = None,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        settled: Callable[[], float] | None = None,
        rotation: TurnRotation | None = None,
    ) -> None:
        self.journal, self.store, self.minimum = journal, store, minimum
        self.attached: Event[[Agent]] = Event()
        self.detached: Event[[Agent]] = Event()
        self.loaded: Event[[Agent]] = Event()
        quotas = quotas or Quotas()
        self.connections = OpenConnections(quotas["strangers"].most)
        given = authority.given
        self.roster = Roster(self._attached, self._detached, self._conflict, given.of, given.ephemeral)
        self.troubles = AgentTroubles(steady)
        self.quotas = QuotaControl(quotas, self.roster, self.troubles, steady)
        self.fair_turns = FairTurns(reactor, reactor.seconds, rotation)
        self.queries = LiveQueries(self._ask, cancel, self._log_fault, self.fair_turns.walk)
        self.delivery = Delivery(reactor, self.roster, self.fair_turns, library, add_statements, wall)
        self.results = ResultIntake(
            journal, self.roster, self.queries, self.delivery.v1_scheduler, self.fair_turns, self.quotas, wall
        )
        self.tunnels = Tunnels(reactor)
        self.shells = OpenShells(steady)
        self._settled = settled or wall
        self.enrolment = Enrolment(authority, self.roster, pinned, self._settled, self.quotas.renews)
        self.stopping = False
        self.closed_to_agents = ""  # the error for an agent that says hello; empty: it is welcome
        self.admissions: dict[str, int] = {"admitted": 0, "refused": 0}
        self.errors = Words()  # the errors that agents were sent
        self._clashes = 0
        self._reactor, self._authority, self._library = reactor, authority, library
        self._memory = AgentMemory(store, wall, steady)
        self._wall, self._steady = wall, steady
        # For each read of bytes; so no call lies between a connection and the clock, or the turns.
        self.steady = steady
        self.has_time, self.soon = self.fair_turns.has_time, self.fair_turns.soon
        self.report, self.result = self.results.report, self.results.result
        self.contested = self.roster.waiting
        authority.on_revoked(self._revoked)
        authority.given.on_changed(self._labelled)

    @property
    def counts(self) -> dict[str, int]:
        """Return the counts of ResultIntake, and `clashes`: second machines with one identity."""
        return self.results.counts | {"clashes": self._clashes}

    def clocks(self) -> Clocks:
        """Return the time of now, by both clocks: `wall` is that by which certificates expire."""
        return Clocks(self._settled(), self._steady())

    # ---------------------------------------------------------------------------------------------- connections

    def identify(self, certificate: x509.Certificate | None, now: float) -> Identity:
        """Return the identity behind a certificate. `now`: unix seconds. Raises NotEnrolled if there is none."""
        return self._authority.identify(certificate, now)

    def arrived(self, connection: AgentConnection) -> None:
        """Take a new connection."""
        self.connections.add(connection)

    def gone(self, connection: AgentConnection) -> None:
        """Forget a connection that has ended."""
        self.fair_turns.forget(connection)
        self.results.forget(connection)
        self.delivery.forget(connection)
        self.tunnels.gone(connection)
        self.connections.remove(connection)

    def hello(self, connection: AgentConnection, hello: m.Hello) -> None:
        """Let the roster decide about a peer that has said hello, unless no agents are taken."""
        if self.stopping:
            connection.refuse("shutting-down;retry-after=1", "Helen is stopping")
            return
        if self.closed_to_agents:
            connection.refuse(self.closed_to_agents, "this Helen is drained")
            return
        if self.quotas.admits(connection):
            self.roster.arrive(connection, self._steady())

    def overspent(self, connection: AgentConnection) -> bool:
        """Refuse an agent that has sent too many messages beside results; return False if it may go on."""
        return not self.quotas.takes_message(connection)

    def heard_from(self, connection: AgentConnection) -> None:
        """Tell the roster that an agent is alive."""
        if self.contested and connection.admitted:
            self.roster.heard_from(connection)

    def heard_part(self, connection: AgentConnection) -> None:
        """Have an agent's great message wait while the journal is behind."""
        if connection.admitted:
            self.results.take_part(connection)

    def lost(self, connection: AgentConnection) -> None:
        """Tell the roster that an agent has gone."""
        if connection.name:
            self.roster.leave(connection, self._steady())

    def refused(self, connection: AgentConnection, slug: str) -> None:
        """Count an error that was sent."""
        self.errors.count(slug.partition(";")[0])
        if not connection.admitted:
            self.admissions["refused"] += 1

    def failed(self, connection: AgentConnection, failure: Failure) -> None:
        """Log a fault of Helen's own in handling a message."""
        self.log.failure("what {name} said", failure, name=connection.name or "a stranger")

    def later(self, connection: AgentConnection) -> None:
        """Have the connection listen in the next turn."""
        self.fair_turns.later(connection)

    def drained(self, connection: AgentConnection) -> None:
        """Send further files, and what is in tunnels: the agent has read what was written."""
        self.delivery.answer(connection)
        self.tunnels.drained(connection)

    def enrol(self, connection: AgentConnection, enrol: m.Enrol) -> None:
        """Answer a request for a certificate."""
        self.enrolment.enrol(connection, enrol)

    def sweep(self) -> None:
        """End what is over its time; called once a tick."""
        now = self._steady()
        self.roster.sweep(now)
        self.queries.sweep(now)
        self._library.tick(now, self.followers)
        self.quotas.sweep(now)
        self.troubles.sweep()
        self.shells.sweep()
        self.results.sweep()

    # ---------------------------------------------------------------------------------------------- agents

    def trust_labels(self, keys: Iterable[str]) -> None:
        """Let agents' own labels under these keys steer from now on, and no others."""
        before, self.roster.trusted = self.roster.trusted, frozenset(keys)
        if before != self.roster.trusted:
            self.fair_turns.walk(list(self.roster.agents), self._labelled)

    def _labelled(self, name: str) -> None:
        """Have the labels of an agent steer that it has now."""
        agent = self.roster.agents.get(name)
        if agent is not None and agent.enrolled:
            before = agent.labels, agent.ephemeral
            self.roster.settle_labels(agent)
            if (agent.labels, agent.ephemeral) != before:
                self.delivery.schedule(agent)

    def followers(self) -> list[str]:
        """Return the agents that are connected and run a set of ours: a rollout may expect results of them.

        A thread may call it, too.
        """
        ours = self._library.releases.ours  # looked up here: each second of a rollout asks after 10,000 agents
        return [
            agent.name for agent in list(self.roster.agents.values())
            if (link := agent.link) is not None and agent.digest in ours and link.version == 2
            and not (agent.troubles and _holds_back(agent))
        ]  # fmt: skip

    def facts_of(self, name: str, check_id: str) -> tuple[dict[str, str], str]:
        """Return the agent's labels and the check's newest summary, for notifications."""
        agent = self.roster.agents.get(name)
        latest = None if agent is None else agent.latest.get(check_id)
        return {} if agent is None else agent.labels, "" if latest is None else latest.summary

    def _attached(self, agent: Agent) -> None:
        connection = agent.link
        assert isinstance(connection, AgentConnection)
        self.admissions["admitted"] += 1
        now = self._wall()
        agent.connected_at = agent.last_seen = now
        agent.revoked_at, agent.tunnels, agent.shell = None, (), {}
        agent.equus_version = connection.equus_version
        self.connections.admitted(connection)
        self.connections.came_from(agent.name, connection.address)
        connection.budget = self.quotas.budget(agent)
        if connection.identity is not None:
            self._authority.seen(connection.identity, now)
            self._tell_excused(connection.identity)
        self._memory.seen(agent)
        link = {"event": "up", "address": connection.address, "version": connection.version}
        self.journal.change("link", link, agent.name)
        self.log.info(
            "{name} connected from {address}: {equus}, version {version}", name=agent.name, address=connection.address,
            equus=connection.equus_version, version=connection.version,
        )  # fmt: skip
        if self._is_too_old(connection.equus_version):
            connection.send(m.Reload())
        self.delivery.attached(agent, connection)
        self.attached(agent)

    def _tell_excused(self, identity: Identity) -> None:
        if identity.out_of_time:
            self.log.warn(
                "the certificate of {name} {out_of_time}: by the grace (`helen renewals`) it has {minutes:g} minutes"
                " here to renew it", name=identity.name, out_of_time=identity.out_of_time,
                minutes=RENEWS_WITHIN / 60,
            )  # fmt: skip

    def _detached(self, agent: Agent, link: Any) -> None:
        agent.connected_at = None
        agent.last_seen = self._wall()
        self.delivery.forget(link)
        self.queries.gone(link, "the agent went away before it answered")
        self._memory.seen(agent)
        self.journal.change("link", {"event": "down", "address": link.address}, agent.name)
        self.log.info("{name} has gone", name=agent.name)
        self.detached(agent)

    def _is_too_old(self, equus_version: str) -> bool:
        """Compare `1.2.3` or `equus/1.2.3` with the minimum; a version in another form is fine."""
        parts = equus_version.partition(";")[0].removeprefix("equus/").split(".")
        if not self.minimum or not all(part.isascii() and part.isdigit() for part in parts):
            return False
        return tuple(int(part[:6]) for part in parts) < self.minimum

    def _conflict(self, newer: Any) -> None:
        self._clashes += 1
        agent = self.roster.know(newer.name)
        agent.clash = {"at": self._wall(), "address": newer.address}
        sentence = (
            f"two machines run with the identity of {newer.name}: the second one, at {newer.address}, was refused."
            " Is one a clone of the other? Enrol one of them anew, with an empty state folder"
        )
        self.troubles.note(agent, COPY, "copy", sentence)
        self._authority.conflict(newer.name, newer.address, self._wall())

    def _revoked(self, name: str, keys: frozenset[str]) -> None:
        for connection in self.connections:
            if connection.identity is not None and connection.identity.key_hash in keys:
                connection.refuse("not-enrolled", f"{name} has been revoked")

    # ---------------------------------------------------------------------------------------------- messages

    def heard(self, connection: AgentConnection, message: m.Message) -> None:
        """Handle any message but hello, ping and pong, of an agent that was admitted."""
        kind = type(message)
        if kind is m.Report:
            self.report(connection, message)  # type: ignore[arg-type]
        elif isinstance(message, m.Result):
            self.result(connection, message)
        elif isinstance(message, m.Bytes | m.Window | m.Close):
            self.tunnels.heard(connection, message)
        elif isinstance(message, m.AskManifest | m.Fetch):
            self.delivery.requested(connection, message)
        elif isinstance(message, m.Loaded):
            self._loaded(connection, message)
        elif isinstance(message, m.Enrol):
            self.enrol(connection, message)

    def _loaded(self, connection: AgentConnection, loaded: m.Loaded) -> None:
        """Read a load report. Nothing more is heard of the agent before it is known: a great one takes a thread."""
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
        agent.host, agent.spool, agent.tunnels = report.host, report.spool, report.tunnels
        self.roster.claim(agent, report.labels)
        agent.isolation, agent.policy, agent.troubles = report.isolation, report.policy, report.troubles
        if report.spool_begins is not None:
            self.journal.forget_below(agent.name, *report.spool_begins)
        agent.shell = report.shell
        self._memory.reported(agent)
        self.loaded(agent)
        self.delivery.offer(agent)
        self.delivery.schedule(agent)

    # ---------------------------------------------------------------------------------------------- queries

    def ask(
        self,
        check: str,
        agents: Iterable[Agent],
        args: dict[str, Any] | bytes,
        timeout: float,
        on_target: Callable[[Target], None],
        on_end: Callable[[], None],
    ) -> Query:
        """Run a check now on these agents, for at most `timeout` seconds. A great fleet is asked a few at a time.

        Raises QueryRefused if too many queries are open.
        """
        targets = [(agent.name, partial(getattr, agent, "link")) for agent in agents]
        blob = args if isinstance(args, bytes) else encode_args(args)
        return self.queries.start(check, targets, blob, self._steady() + timeout, on_target, on_end)

    def _ask(self, link: AgentConnection, check: str, args: bytes) -> int:
        """Send a question, and return its id. Raises QueryRefused if that is illegal, or one too many of the agent."""
        self.quotas.ask(link)
        return ask(link, check, args)

    def _log_fault(self, sentence: str) -> None:
        self.log.failure("{sentence}", sentence=sentence)

    # ---------------------------------------------------------------------------------------------- the end

    def say_goodbye(self, retry_after: int) -> None:
        """Tell every agent after how many seconds to come back, and cut strangers."""
        self.stopping = True
        self.delivery.stop()
        for connection in self.connections:
            if connection.admitted or connection.name:
                connection.refuse(f"shutting-down;retry-after={retry_after}", "Helen is stopping")
            else:
                connection.drop("Helen is stopping")

    async def all_gone(self) -> None:
        """Return when no connection is left; those that don't hang up in time are cut."""
        if not await self._none_within(HANG_UP_SECONDS):
            for connection in self.connections:
                connection.drop("it does not hang up")
            await self._none_within(CUT_SECONDS)
        self.fair_turns.stop()

    async def _none_within(self, seconds: float) -> bool:
        none: Deferred[None] = self.connections.when_none()
        try:
            await none.addTimeout(seconds, self._reactor)
        except TimeoutError:
            return False
        return True


def _holds_back(agent: Agent) -> bool:
    """Return True if the agent's policy says that it takes no other set."""
    return agent.troubles.get("manifest", "").startswith("held-back")
