"""Asks a fleet without a network: agents and a clock are moved by hand, and there are no threads."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from helen_parts import FakeLink
from twisted.internet.defer import Deferred, execute
from twisted.internet.task import Clock

from equus_protocol.results import parse
from groundwork.event import Event
from helen.agents.roster import Agent
from helen.jobs.fleet_tasks import FleetTasks
from helen.queries.live_queries import MAX_QUERIES, LiveQueries, QueryRefused, answered
from zerotask.node.worker_processes import Work

WALL = 1_800_000_000.0


class Site:
    """Holds LiveQueries, and a roster of agents by name. `full` stands for a Helen of whom too much is asked."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.agents: dict[str, Agent] = {}
        self.roster = SimpleNamespace(agents=self.agents)
        self.fair_turns: Any = SimpleNamespace(walk=self._walk, walk_all=self._walk_all)
        self.attached: Event[[Agent]] = Event()
        self.asked: list[str] = []
        self.steps: list[int] = []  # things of each step of a walk
        self.cancelled: list[int] = []
        self.full = False
        self.queries = LiveQueries(self._ask, lambda link, message_id: self.cancelled.append(message_id), print)

    def _walk(self, things: Any, each: Any) -> None:
        for thing in things:
            self.steps.append(len(thing) if isinstance(thing, list) else 1)
            each(thing)

    def _walk_all(self, things: Any, each: Any) -> Deferred[None]:
        return execute(self._walk, things, each)

    def _ask(self, link: FakeLink, check: str, args: bytes) -> int:
        self.asked.append(link.name)
        return len(self.asked)

    def ask(self, check: str, agents: list[Agent], args: bytes, timeout: float, on_target: Any, on_end: Any) -> Any:
        if self.full:
            raise QueryRefused(f"{MAX_QUERIES} questions are open already")
        targets = [(agent.name, partial(getattr, agent, "link")) for agent in agents]
        return self.queries.start(check, targets, args, self.clock.seconds() + timeout, on_target, on_end)

    def has(self, *names: str) -> None:
        """Attach these agents, at the beginning or later."""
        for name in names:
            self.agents[name] = Agent(name, FakeLink(name))
            self.attached(self.agents[name])

    def goes(self, name: str) -> None:
        link, self.agents[name].link = self.agents[name].link, None
        self.queries.gone(link, "it went away")

    def answers(self, name: str) -> None:
        assert self.answer_of(name)

    def answer_of(self, name: str) -> bool:
        """Answer what an agent was asked last; return False if nobody waits for that."""
        if name not in self.asked:
            return False
        number = len(self.asked) - self.asked[::-1].index(name)
        claim = self.queries.take_answer(self.agents[name].link, number)
        if claim is None or name not in claim.query.open:
            return False
        self.queries.settle(claim, answered(claim.agent, parse(b'{"status": "ok", "summary": "fine"}'), b""))
        return True


class Play:
    """Runs one task, and keeps what becomes of it."""

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        self.site = Site(self.clock)
        self.told: list[tuple[Any, dict[str, Any]]] = []
        self.tasks = FleetTasks(self.clock, self.site, None, folder, lambda: WALL + self.clock.seconds())
        self.tasks.start()
        self.outcome: Any = None

    def ask(self, attempt: int = 1, **params: Any) -> None:
        params = {"agents": ["*"], "check": "echo", "timeout": 10} | params
        done: Deferred[Any] = self.tasks.run(
            Work("t1", "equus.check", params, attempt, 60.0), lambda status, detail: self.told.append((status, detail))
        )
        done.addBoth(self._ended)

    def _ended(self, outcome: Any) -> None:
        self.outcome = outcome

    def restarts(self) -> None:
        """Restart Helen: the work is given back, and all agents are away."""
        self.tasks.cancel("t1")
        for agent in self.site.agents.values():
            agent.link = None
        self.outcome = None

    def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds / 0.5)):
            self.clock.advance(0.5)
            self.site.queries.sweep(self.clock.seconds())

    @property
    def outcomes(self) -> dict[str, str]:
        assert isinstance(self.outcome, dict), self.outcome
        assert sum(self.outcome["counts"].values()) == len(self.outcome["targets"])
        return {each["agent"]: each["outcome"] for each in self.outcome["targets"]}
