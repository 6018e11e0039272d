"""Who is connected, which code they run, and what each check said last. In memory; the store and the journal remember.

Two live connections with one identity (docs/protocol.rst, section 1): the older one is pinged and the newer waits; the
roster decides, the connections do what it says. It never reads a clock: `now` is the monotonic time of the event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from attrs import define, evolve, field, frozen

from equus_protocol.once import fits

CONFLICT_SECONDS = 5.0  # that the older of two connections has to answer a ping
MAX_SERIES = 2_000  # latest results kept of one agent: what a taken-over agent can make us hold
MAX_AGENTS = 200_000  # names: only without TLS can strangers make any, and those are some 2 KiB each


class Link(Protocol):
    """A connection, as the roster sees it."""

    version: int
    name: str
    address: str

    def ping(self) -> None: ...

    def admit(self) -> None: ...

    def refuse(self, slug: str, why: str) -> None: ...

    def drop(self, why: str) -> None: ...

    @property
    def closing(self) -> bool: ...

    @property
    def held(self) -> bool: ...


@frozen
class Latest:
    """The last result of one check on one agent. Times are unix seconds of Helen's own clock."""

    check_id: str
    status: int
    summary: str
    received: float
    reason: str | None = None
    code: str | None = None
    took_ms: float | None = None
    metrics: tuple[Any, ...] = ()
    since: float = 0.0  # when this status began
    kept: bool = False  # of before this start: its status was kept, what it said was not


@define
class Agent:
    """What Helen knows of one agent, connected or not."""

    name: str
    link: Link | None = None
    connected_at: float | None = None  # unix seconds
    last_seen: float | None = None
    equus_version: str = ""
    address: str = ""
    labels: dict[str, str] = field(factory=dict)
    host: dict[str, Any] = field(factory=dict)
    isolation: str | None = None
    policy: str | None = None
    spool: dict[str, Any] = field(factory=dict)
    troubles: dict[str, str] = field(factory=dict)  # what it says that it doesn't use, and why
    revoked_at: float | None = None  # unix seconds; it is listed until it is forgotten or comes back
    clash: dict[str, Any] | None = None  # `at` (unix seconds) and `address` of the last twin that was refused
    digest: str | None = None  # of the manifest that it has loaded
    files: dict[str, dict[str, Any]] = field(factory=dict)  # name -> sha256, state, error, as it reported
    not_active: dict[str, str] = field(factory=dict)  # those of them that it does not run as they are, and why
    facts: dict[str, Any] = field(factory=dict)  # as the store has them
    clock_offset: float | None = None  # seconds that its clock is ahead of ours, at best
    latest: dict[str, Latest] = field(factory=dict)
    counts: list[int] = field(factory=lambda: [0, 0, 0, 0])  # of `latest`, by status: nobody has to go through it
    kept: int = 0  # of `latest`: those that are of before this start
    enrolled: bool = True  # False: no agent, only a name that reports from outside

    @property
    def is_host(self) -> bool:
        """Whether nobody is to be asked or told anything under this name."""
        return not self.enrolled and self.link is None

    @property
    def version(self) -> int:
        return self.link.version if self.link is not None else 0

    def revoke(self, now: float) -> None:
        """It is nobody's agent any more, and what it said last says nothing of the present."""
        self.revoked_at = now
        self.latest.clear()
        self.counts, self.kept = [0, 0, 0, 0], 0

    def took(self, latest: Latest) -> Latest:
        """Keep a result, with the time since which its status holds. They come in order; clocks may not."""
        known = self.latest.get(latest.check_id)
        if known is None and len(self.latest) >= MAX_SERIES:
            return latest
        if not latest.kept:
            same = known is not None and known.status == latest.status
            latest = evolve(latest, since=known.since if same and known is not None else latest.received)
        self.latest[latest.check_id] = latest
        if known is not None:
            self._uncount(known)
        self.counts[latest.status] += 1
        self.kept += latest.kept
        return latest

    def drop(self, check_id: str) -> None:
        """A check that is watched no more."""
        gone = self.latest.pop(check_id, None)
        if gone is not None:
            self._uncount(gone)

    def _uncount(self, latest: Latest) -> None:
        self.counts[latest.status] -= 1
        self.kept -= latest.kept


@define
class Waiting:
    """A newer connection that waits for the older one's answer."""

    newer: Link
    older: Link
    until: float


class Roster:
    """Every agent by name. `on_attached(agent)` and `on_detached(agent)` are called as they come and go."""

    def __init__(self, on_attached: Callable[[Agent], None], on_detached: Callable[[Agent, Link], None]) -> None:
        self.agents: dict[str, Agent] = {}
        self.conflicts = 0
        self.on_conflict: Callable[[Link], None] = lambda newer: None
        self._on_attached = on_attached
        self._on_detached = on_detached
        self._waiting: dict[str, Waiting] = {}

    def know(self, name: str) -> Agent:
        """The agent of this name, made if it is new."""
        agent = self.agents.get(name)
        if agent is None:
            agent = self.agents[name] = Agent(name)
        return agent

    def enrol(self, name: str) -> Agent:
        """An agent has this name, if nobody but a host had it before."""
        agent = self.know(name)
        agent.enrolled, agent.revoked_at = True, None
        return agent

    def host(self, name: str) -> Agent:
        """The agent of this name, or a host without one."""
        agent = self.agents.get(name)
        if agent is None:
            agent = self.agents[name] = Agent(name, enrolled=False)
        elif agent.revoked_at is not None:  # nobody's agent any more, and so a name like any other
            agent.enrolled, agent.revoked_at = False, None
        return agent

    def forget(self, name: str) -> None:
        """An agent that was decommissioned."""
        self.agents.pop(name, None)

    def connected(self) -> list[Agent]:
        return [agent for agent in self.agents.values() if agent.link is not None]

    def matching(self, patterns: Iterable[str], revoked: bool = False) -> list[Agent]:
        """Agents whose name fits one of these patterns, or whose labels fit a pattern `KEY=GLOB`."""
        wanted = list(patterns)
        return [
            agent for agent in self.agents.values()
            if (revoked or agent.revoked_at is None)
            and any(fits(pattern, agent.name, agent.labels) for pattern in wanted)
        ]  # fmt: skip

    def askable(self, patterns: Iterable[str]) -> list[Agent]:
        """Those of them that are agents: hosts that only report can't be asked."""
        return [agent for agent in self.matching(patterns) if not agent.is_host]

    # ---------------------------------------------------------------------------------------------- coming and going

    def arrive(self, link: Link, now: float) -> None:
        """A connection has said hello. It is admitted, refused, or told to wait (`admit` or `refuse` come later)."""
        if link.name not in self.agents and len(self.agents) >= MAX_AGENTS:
            link.refuse("overloaded", f"{MAX_AGENTS} agents are known already")
            return
        older = self.know(link.name).link
        if older is None or older.closing:
            self._attach(link)
        elif link.name in self._waiting or older.version != 2:
            self._refuse(link)
        else:
            self._waiting[link.name] = Waiting(link, older, now + CONFLICT_SECONDS)
            older.ping()

    def heard_from(self, link: Link) -> None:
        """An older connection shows that it lives: whoever waits for its name is refused."""
        waiting = self._waiting.get(link.name)
        if waiting is not None and waiting.older is link:
            del self._waiting[link.name]
            self._refuse(waiting.newer)

    def leave(self, link: Link, now: float) -> None:
        """A connection has ended, whatever the reason."""
        waiting = self._waiting.get(link.name)
        if waiting is not None and link in (waiting.newer, waiting.older):
            del self._waiting[link.name]
        agent = self.agents.get(link.name)
        if agent is not None and agent.link is link:
            agent.link = None
            self._on_detached(agent, link)
        if waiting is not None and waiting.older is link and not waiting.newer.closing:
            self.arrive(waiting.newer, now)

    def sweep(self, now: float) -> None:
        """Older connections that have not answered in time give way."""
        for waiting in [waiting for waiting in self._waiting.values() if waiting.until <= now]:
            if waiting.older.held and not waiting.older.closing:
                waiting.until = now + CONFLICT_SECONDS  # it may have answered: we don't hear it
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
        self.on_conflict(newer)
        newer.refuse("identity-in-use", f"{newer.name} is connected already: two machines with one identity?")
