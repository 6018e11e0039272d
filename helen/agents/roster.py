"""Keeps the agents in memory: which are connected, the code they run, the latest result of each of their checks.

The store and the journal have what must survive a restart. Two live connections with one identity (docs/protocol.rst,
section 1): the older one is pinged and the newer waits; the roster decides, the connections do what it says. It never
reads a clock: `now` is the monotonic time of the event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec
from attrs import define, field
from msgspec.structs import replace

from equus_protocol.one_off import reader_of
from groundwork.globs import reader_of_all
from helen.quotas.budget import Budget
from helen.states.quorum import status_of

CONFLICT_SECONDS = 5.0  # that the older of two connections has to answer a ping
MAX_SERIES = 2_000  # latest results kept of one agent: a bound on what a hostile agent can make Helen keep
MAX_AGENTS = 200_000  # names: without TLS any peer can make some, at 2 KiB each


class Link(Protocol):
    """Describes the part of a connection that the roster uses."""

    name: str
    address: str

    @property
    def version(self) -> int: ...

    def ping(self) -> None: ...

    def admit(self) -> None: ...

    def refuse(self, slug: str, why: str) -> None: ...

    def drop(self, why: str) -> None: ...

    @property
    def closing(self) -> bool: ...

    @property
    def held(self) -> bool: ...


def unclaimed(patterns: Sequence[str], agents: Iterable[tuple[str, Mapping[str, str]]]) -> tuple[str, ...]:
    """Return the names of agents, each with its own labels, that would not find themselves in the patterns."""
    readers = [reader_of(pattern) for pattern in patterns]
    return tuple(sorted(name for name, claimed in agents if not any(fits(name, claimed) for fits in readers)))


class Latest(msgspec.Struct, frozen=True, gc=False):
    """Holds the last result of one check on one agent. Times are unix seconds of Helen's own clock.

    One is made for each result, so it is of the kind that costs least and that the garbage collector passes over.
    """

    check_id: str
    status: int
    summary: str
    received: float
    reason: str | None = None
    code: str | None = None
    took_ms: float | None = None
    metrics: tuple[Any, ...] = ()
    since: float = 0.0  # when this status began
    kept: bool = False  # restored from a state of before this start: it has a status, but no summary and no metrics


@define
class Agent:
    """Holds an agent that Helen knows, connected or not, or a host without an agent that passive results are about."""

    name: str
    link: Link | None = None
    connected_at: float | None = None  # unix seconds
    last_seen: float | None = None
    equus_version: str = ""
    address: str = ""
    labels: dict[str, str] = field(factory=dict)  # those that steer: what is given, and claims under trusted keys
    given: Mapping[str, str] = field(factory=dict)  # by an operator: facts
    claimed: dict[str, str] = field(factory=dict)  # by the agent itself, in its load report
    ephemeral: float | None = None  # seconds away after which it is forgotten; None: it is expected back
    host: dict[str, Any] = field(factory=dict)
    isolation: str | None = None
    policy: str | None = None
    spool: dict[str, Any] = field(factory=dict)
    tunnels: tuple[str, ...] = ()  # kinds that it knows, by the report of this connection
    shell: dict[str, str] = field(factory=dict)  # of tunnels to SSH, by the same report: its host key, signed
    troubles: dict[str, str] = field(factory=dict)  # by its own report: what it doesn't use -> why
    revoked_at: float | None = None  # unix seconds; it is listed until it is forgotten or comes back
    clash: dict[str, Any] | None = None  # `at` (unix seconds) and `address` of the last connection refused as a second
    noticed: dict[str, str] = field(factory=dict)  # troubles that Helen sees: beyond a quota, a copy -> a sentence
    budget: Budget | None = None  # what it may still send
    digest: str | None = None  # of the manifest that it has loaded
    files: dict[str, dict[str, Any]] = field(factory=dict)  # name -> sha256, state, error, as it reported
    not_active: dict[str, str] = field(factory=dict)  # files that it does not run as they are in the set -> why
    facts: dict[str, Any] = field(factory=dict)  # as the store has them
    clock_offset: float | None = None  # seconds that its clock is ahead of ours, at best
    latest: dict[str, Latest] = field(factory=dict)
    kept: int = 0  # results in `latest` that were restored from before this start
    quorum: tuple[int, tuple[str, ...]] | None = None  # of a target: how many of which agents have to see it bad
    views: dict[str, dict[str, Latest]] = field(factory=dict)  # check_id -> agent -> what it saw last, of such a one
    enrolled: bool = True  # False: a host without an agent; its results are passive

    @property
    def is_host(self) -> bool:
        """Return True if there is no agent of this name that could be asked or sent anything."""
        return not self.enrolled and self.link is None

    @property
    def version(self) -> int:
        link = self.link  # once: a thread may ask while it goes
        return link.version if link is not None else 0

    def revoke(self, now: float) -> None:
        """Mark the agent as revoked at `now`, unix seconds, and drop its results: they are not the present any more."""
        self.revoked_at = now
        self.latest.clear()
        self.kept = 0

    def since_when(self, check_id: str, status: int, received: float) -> float:
        """Return since when a check has the status of a result that came at `received`; unix seconds."""
        known = self.latest.get(check_id)
        return received if known is None or known.status != status else known.since

    def take(self, latest: Latest) -> Latest:
        """Keep a result as the latest; return it with the time since which its status holds, if it came without.

        Results come in the journal's order; their times may not be in order. Beyond MAX_SERIES checks none is kept.
        """
        check_id = latest.check_id
        known = self.latest.get(check_id)
        if known is not None:
            self.kept -= known.kept
        elif len(self.latest) >= MAX_SERIES:
            return latest
        if not latest.since:
            latest = replace(latest, since=self.since_when(check_id, latest.status, latest.received))
        self.latest[check_id] = latest
        self.kept += latest.kept
        return latest

    def take_view(self, runner: str, latest: Latest) -> None:
        """Keep what one of several agents saw of a target; the latest is that of one which saw what they agree on."""
        if self.quorum is None:
            self.take(latest)
            return
        needed, runners = self.quorum
        if runner not in runners:
            return
        before = self.views.get(latest.check_id, {})
        views = self.views[latest.check_id] = {name: before[name] for name in runners if name in before}
        views[runner] = latest
        status = status_of((each.status for each in views.values()), needed, len(runners) - len(views))
        agreed = [each for each in views.values() if each.status == status]
        if agreed:
            self.take(max(agreed, key=lambda each: each.received))

    def drop(self, check_id: str) -> None:
        """Forget the latest result of a check that is watched no more."""
        self.views.pop(check_id, None)
        gone = self.latest.pop(check_id, None)
        if gone is not None:
            self.kept -= gone.kept

    def move(self, by: float, now: float) -> None:
        """Move the times of results by `by` seconds, and others that lie ahead of `now` (unix seconds): wrong ones."""
        for found in (self.latest, *self.views.values()):
            for key, latest in found.items():
                since = latest.since + by if latest.since > now else latest.since
                found[key] = replace(latest, received=min(now, latest.received + by), since=min(now, since))
        self.connected_at = None if self.connected_at is None else min(self.connected_at, now)
        self.last_seen = None if self.last_seen is None else min(self.last_seen, now)


@define
class Waiting:
    """Holds a newer connection that waits for the older one's answer until `until`, monotonic seconds."""

    newer: Link
    older: Link
    until: float


class Roster:
    """Has every agent by name. `on_attached` and `on_detached` are called as agents connect and disconnect.

    `on_conflict` is called with a second connection under the name of an agent that is connected and answers.
    `given(name)` returns the labels that an operator has given to a name, `ephemeral(name)` the seconds away after
    which its agent is forgotten; `trusted` are the keys under which an agent's own labels steer as well.
    """

    def __init__(
        self,
        on_attached: Callable[[Agent], None],
        on_detached: Callable[[Agent, Link], None],
        on_conflict: Callable[[Link], None] = lambda newer: None,
        given: Callable[[str], Mapping[str, str]] = lambda name: {},
        ephemeral: Callable[[str], float | None] = lambda name: None,
    ) -> None:
        self.trusted: frozenset[str] = frozenset()
        self._given, self._ephemeral = given, ephemeral
        self.agents: dict[str, Agent] = {}
        self.conflicts = 0
        self._on_conflict = on_conflict
        self._on_attached = on_attached
        self._on_detached = on_detached
        self.waiting: dict[str, Waiting] = {}  # newer connections, by their name: while none is, bytes say nothing

    def know(self, name: str) -> Agent:
        """Return the agent of this name; make it if it is new."""
        agent = self.agents.get(name)
        if agent is None:
            agent = self.agents[name] = Agent(name)
            self.settle_labels(agent)
        return agent

    def enrol(self, name: str) -> Agent:
        """Return the agent of this name, enrolled from now on; a host of this name becomes an agent."""
        agent = self.know(name)
        was_host, agent.enrolled, agent.revoked_at = not agent.enrolled, True, None
        if was_host:
            self.settle_labels(agent)
        return agent

    def claim(self, agent: Agent, labels: dict[str, str]) -> None:
        """Take the labels that an agent says of itself."""
        agent.claimed = labels
        self.settle_labels(agent)

    def settle_labels(self, agent: Agent) -> None:
        """Find out which labels of an agent steer; those of a host are written in passive.toml, and all are given."""
        if agent.enrolled:
            agent.given, agent.ephemeral = self._given(agent.name), self._ephemeral(agent.name)
        agent.labels = {key: agent.claimed[key] for key in agent.claimed.keys() & self.trusted} | dict(agent.given)

    def host(self, name: str) -> Agent:
        """Return the agent or host of this name; make a host if the name is new."""
        agent = self.agents.get(name)
        if agent is None:
            agent = self.agents[name] = Agent(name, enrolled=False)
        elif agent.revoked_at is not None:  # no agent has the name any more, so a host may have it
            agent.enrolled, agent.revoked_at, agent.claimed = False, None, {}
        return agent

    def forget(self, name: str) -> None:
        """Drop an agent that was taken out of service."""
        self.agents.pop(name, None)

    def is_connected(self, name: str) -> bool:
        """Return True if the agent of this name is connected."""
        agent = self.agents.get(name)
        return agent is not None and agent.link is not None

    def connected(self) -> list[Agent]:
        return [agent for agent in self.agents.values() if agent.link is not None]

    def matching(self, patterns: Iterable[str], revoked: bool = False) -> list[Agent]:
        """Return the agents with a name that fits one of the patterns, or with a label that fits `KEY=GLOB`."""
        is_meant = reader_of_all(patterns)  # 10,000 agents take some milliseconds, and the reactor waits
        found = [agent for agent in self.agents.values() if is_meant(agent.name, agent.labels)]
        return found if revoked else [agent for agent in found if agent.revoked_at is None]

    # ---------------------------------------------------------------------------------------------- coming and going

    def arrive(self, link: Link, now: float) -> None:
        """Admit or refuse a connection after its hello, or let it wait: then `admit` or `refuse` is called later.

        `now`: monotonic seconds.
        """
        if link.name not in self.agents and len(self.agents) >= MAX_AGENTS:
            link.refuse("overloaded", f"{MAX_AGENTS} agents are known already")
            return
        older = self.know(link.name).link
        if older is None or older.closing:
            self._attach(link)
        elif link.name in self.waiting or older.version != 2:
            self._refuse(link)
        else:
            self.waiting[link.name] = Waiting(link, older, now + CONFLICT_SECONDS)
            older.ping()

    def heard_from(self, link: Link) -> None:
        """Refuse the connection that waits for the name of this one: this one has shown that it lives."""
        waiting = self.waiting.get(link.name)
        if waiting is not None and waiting.older is link:
            del self.waiting[link.name]
            self._refuse(waiting.newer)

    def leave(self, link: Link, now: float) -> None:
        """Detach a connection that has ended, and admit the one that waits for its name. `now`: monotonic seconds."""
        waiting = self.waiting.get(link.name)
        if waiting is not None and link in (waiting.newer, waiting.older):
            del self.waiting[link.name]
        agent = self.agents.get(link.name)
        if agent is not None and agent.link is link:
            agent.link = None
            self._on_detached(agent, link)
        if waiting is not None and waiting.older is link and not waiting.newer.closing:
            self.arrive(waiting.newer, now)

    def sweep(self, now: float) -> None:
        """Drop older connections that have not answered their ping in time. `now`: monotonic seconds."""
        for waiting in [waiting for waiting in self.waiting.values() if waiting.until <= now]:
            if waiting.older.held and not waiting.older.closing:
                waiting.until = now + CONFLICT_SECONDS  # reading is paused: it may have answered
                continue
            waiting.older.drop("another connection of the same name came, and this one did not answer its ping")
            self.leave(waiting.older, now)

    def _attach(self, link: Link) -> None:
        agent = self.enrol(link.name)
        if agent.link is not None:
            self._on_detached(agent, agent.link)
        agent.link = link
        agent.address = link.address
        self._on_attached(agent)
        link.admit()

    def _refuse(self, newer: Link) -> None:
        self.conflicts += 1
        self._on_conflict(newer)
        newer.refuse("identity-in-use", f"{newer.name} is connected already: two machines with one identity?")
