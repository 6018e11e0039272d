"""A question while it is open: who is asked when, and that it ends. A clock by hand, and no threads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helen_parts import FakeLink
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from equus_protocol.results import parse
from helen import fleet_tasks
from helen.fleet_tasks import RESTART_GRACE, FleetTasks
from helen.roster import Agent
from helen.runs import MAX_RUNS, RunRefused, Runs
from zerotask.children import Work
from zerotask.errors import TaskFailed

WALL = 1_800_000_000.0


class House:
    """Runs, and a roster of agents by name. `full` stands for a Helen of whom too much is asked."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.agents: dict[str, Agent] = {}
        self.roster = SimpleNamespace(agents=self.agents, askable=self._matching)
        self.on_attached: list[Any] = []
        self.asked: list[str] = []
        self.cancelled: list[int] = []
        self.full = False
        self.runs = Runs(self._ask, lambda link, message_id: self.cancelled.append(message_id))

    def _matching(self, patterns: Any) -> list[Agent]:
        return [agent for name, agent in self.agents.items() if "*" in patterns or name in patterns]

    def _ask(self, link: FakeLink, check: str, args: bytes) -> int:
        self.asked.append(link.name)
        return len(self.asked)

    def ask(self, check: str, agents: list[Agent], args: bytes, timeout: float, on_target: Any, on_end: Any) -> Any:
        if self.full:
            raise RunRefused(f"{MAX_RUNS} questions are open already")
        targets = [(agent.name, agent.link) for agent in agents]
        return self.runs.start(check, targets, args, self.clock.seconds() + timeout, on_target, on_end)

    def has(self, *names: str) -> None:
        """They come, or are here from the beginning."""
        for name in names:
            self.agents[name] = Agent(name, FakeLink(name))
            for observer in self.on_attached:
                observer(self.agents[name])

    def answers(self, name: str) -> None:
        claim = self.runs.claim(self.agents[name].link, self.asked.index(name) + 1)
        assert claim is not None
        self.runs.settle(claim, parse(b'{"status": "ok", "summary": "fine"}'))


class Play:
    """One task, and what becomes of it."""

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        self.house = House(self.clock)
        self.told: list[tuple[Any, dict[str, Any]]] = []
        self.tasks = FleetTasks(self.clock, self.house, None, folder, lambda: WALL + self.clock.seconds())
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

    def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds / 0.5)):
            self.clock.advance(0.5)
            self.house.runs.sweep(self.clock.seconds())

    @property
    def outcomes(self) -> dict[str, str]:
        assert isinstance(self.outcome, dict), self.outcome
        assert sum(self.outcome["counts"].values()) == len(self.outcome["targets"])
        return {each["agent"]: each["outcome"] for each in self.outcome["targets"]}


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Play]:
    monkeypatch.setattr(fleet_tasks, "deferToThread", maybeDeferred)
    one = Play(tmp_path)
    yield one
    assert one.tasks.open == {}
    assert [call for call in one.clock.getDelayedCalls() if call.active()] == []


def test_without_a_deadline_nobody_is_waited_for(play: Play) -> None:
    """It is over as soon as those who are here have answered, or their time is over."""
    play.house.has("a", "b")
    play.house.agents["c"] = Agent("c")
    play.ask()
    play.house.answers("a")
    assert play.outcome is None
    play.pass_time(10.5)
    assert play.outcomes == {"a": "answered", "b": "expired", "c": "offline"}
    assert play.told[0] == ("asking", {
        "targets": 3, "counts": {"answered": 1, "failed": 0, "refused": 0, "offline": 1, "expired": 0, "open": 1},
        "recent": play.told[0][1]["recent"],
    })  # fmt: skip


def test_those_who_come_back_are_asked_together(play: Play) -> None:
    """A second later; at the deadline the others are offline, and who is asked then still has a second."""
    play.house.has("a")
    for name in ("b", "c", "d"):
        play.house.agents[name] = Agent(name)
    play.ask(deadline=WALL + 20)
    play.house.answers("a")
    play.house.has("b", "c", "stranger")
    assert play.house.asked == ["a"]
    play.pass_time(1.0)
    assert play.house.asked == ["a", "b", "c"]
    play.house.answers("c")
    play.pass_time(18.5)
    assert play.outcome is None
    play.pass_time(2.0)
    assert play.outcomes == {"a": "answered", "b": "expired", "c": "answered", "d": "offline"}


def test_a_further_attempt_asks_the_others(play: Play) -> None:
    """What was said is kept; agents have some time to come back to a Helen who was restarted."""
    play.house.has("a", "b")
    play.ask()
    play.house.answers("a")
    play.pass_time(0.5)
    play.tasks.cancel("t1")
    assert isinstance(play.outcome, Failure)
    assert play.outcome.check(TaskFailed)
    assert play.house.cancelled == [2]
    play.house.agents["a"].link = play.house.agents["b"].link = None
    play.outcome = None
    play.ask(attempt=2)
    play.house.has("b")
    play.pass_time(1.0)
    assert play.house.asked == ["a", "b", "b"]
    play.house.runs.gone(play.house.agents["b"].link, "it went away")
    play.pass_time(0.5)
    assert play.outcomes == {"a": "answered", "b": "failed"}


def test_a_restart_without_agents_ends(play: Play) -> None:
    """After the grace they are offline."""
    play.house.agents["a"] = Agent("a")
    play.ask(attempt=2)
    play.pass_time(RESTART_GRACE - 0.5)
    assert play.outcome is None
    play.pass_time(1.0)
    assert play.outcomes == {"a": "offline"}


@pytest.mark.parametrize(("full_for", "outcome"), [(3.0, "answered"), (30.0, "expired")])
def test_while_too_much_is_asked(play: Play, full_for: float, outcome: str) -> None:
    """It is tried again each second, for as long as an answer may take."""
    play.house.has("a")
    play.house.full = True
    play.ask()
    play.pass_time(full_for)
    play.house.full = False
    play.pass_time(1.5)
    if outcome == "answered":
        play.house.answers("a")
        play.pass_time(0.5)
    assert play.outcomes == {"a": outcome}


def test_nobody_to_ask(play: Play) -> None:
    """Final: another attempt would find nobody either."""
    play.ask(agents=["none-[0-9]"])
    assert (play.outcome.value.code, play.outcome.value.retry) == (-32602, False)
    play.ask(agents=["Not A Name"])
    assert "is no name for an agent" in play.outcome.value.message
