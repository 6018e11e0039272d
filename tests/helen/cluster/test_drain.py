"""Tests how a Helen is emptied: agents leave one after the other, with all that they said; and agents that are
elsewhere.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.task import Clock

from groundwork.event import Event
from helen.agents.roster import Agent
from helen.cluster.moved_agents import LOOK_SECONDS, MovedAgents
from helen.sessions import drain
from helen.sessions.connection import AgentConnection, Hold
from helen.sessions.drain import ANSWER_SECONDS, DISK_SECONDS, STEP_SECONDS, Drain


class Connection(AgentConnection):
    """Stands in for a connection that only remembers what is done to it."""

    def __init__(self, questions: int = 0) -> None:
        self.holds: set[Hold] = set()
        self.closing = False
        self.refused = ""
        self.conversation: Any = type("Conversation", (), {"outstanding": dict.fromkeys(range(questions), "echo")})()

    def hold(self, why: Hold) -> None:
        self.holds.add(why)

    def go_on(self, why: Hold) -> None:
        self.holds.discard(why)

    def refuse(self, slug: str, why: str = "") -> None:
        self.refused, self.closing = slug, True


class Journal:
    """Stands in for a journal to which others add results all the while: `position` never stands still."""

    size, delivered = 7, float("inf")

    @property
    def position(self) -> int:
        return self.size

    def has_delivered(self, position: int) -> bool:
        self.size += 100
        return position <= self.delivered


class Site:
    """Holds a roster of agents that go when they are told to."""

    def __init__(self, *connections: Connection) -> None:
        self.agents = {f"a{n}": Agent(f"a{n}", connection) for n, connection in enumerate(connections)}
        self.closed_to_agents = ""
        self.journal: Any = Journal()
        self.roster = self
        self.attached: Event[[Agent]] = Event()
        self.detached: Event[[Agent]] = Event()
        self.fair_turns = SimpleNamespace(walk=lambda things, each: [each(thing) for thing in things])

    def connected(self) -> list[Agent]:
        return [agent for agent in self.agents.values() if agent.link is not None and not agent.link.closing]


class Play:
    def __init__(self, state: Path, *connections: Connection) -> None:
        self.clock, self.site = Clock(), Site(*connections)
        self.hidden: list[str] = []
        self.offered: list[str] = []
        self.told: list[bool] = []
        self.drain = Drain(self.clock, state, self.site, lambda: 5.0)  # type: ignore[arg-type]
        self.drain.leaving.subscribe(lambda agent: self.hidden.append(agent.name))
        self.drain.staying.subscribe(lambda agent: self.offered.append(agent.name))
        self.drain.drained.subscribe(self.told.append)

    def begin(self, over: float) -> None:
        Deferred.fromCoroutine(self.drain.begin(over, "ann"))

    def steps(self, count: int) -> None:
        self.clock.pump([STEP_SECONDS] * count)


@pytest.fixture(autouse=True)
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain, "deferToThread", maybeDeferred)


def test_agents_leave_spread_over_the_time(tmp_path: Path) -> None:
    """Twenty agents leave within five seconds, one at each step. An agent that comes is sent away from the first moment
    on.
    """
    play = Play(tmp_path, *(Connection() for _ in range(20)))
    play.begin(5.0)
    assert (play.site.closed_to_agents, play.told, play.drain.phase) == ("shutting-down", [True], "draining")
    left = []
    for _ in range(24):
        left.append(len(play.site.connected()))
        play.steps(1)
    assert left[0] == 20 and left[-1] == 0
    assert max(before - after for before, after in pairwise(left)) == 1
    assert play.drain.phase == "drained"
    assert sorted(play.hidden) == sorted(play.site.agents)


def test_answers_then_the_disk_then_goodbye(tmp_path: Path) -> None:
    """Helen is heard while questions are open, and then no more until the journal has all; both have an end."""
    connection = Connection(questions=1)
    play = Play(tmp_path, connection)
    play.begin(1.0)
    play.steps(int(ANSWER_SECONDS / STEP_SECONDS) - 2)
    assert (play.hidden, connection.holds, connection.refused) == (["a0"], set(), "")
    connection.conversation.outstanding.clear()
    play.site.journal.delivered = 6
    play.steps(4)
    assert (connection.holds, connection.refused) == ({Hold.DRAIN}, "")
    play.site.journal.delivered = 7
    play.steps(1)
    assert connection.refused == "shutting-down"


def test_nobody_is_waited_for_for_ever(tmp_path: Path) -> None:
    silent = Connection(questions=1)
    play = Play(tmp_path, silent)
    play.site.journal.delivered = 6
    play.begin(1.0)
    play.steps(int((1.0 + ANSWER_SECONDS + DISK_SECONDS) / STEP_SECONDS) + 3)
    assert silent.refused == "shutting-down"


def test_it_outlives_a_restart_until_it_is_undone(tmp_path: Path) -> None:
    """A drain holds after a restart until it is undone; agents that were about to go are heard again,
    and found again.
    """
    play = Play(tmp_path, Connection(), Connection(questions=1))
    play.begin(60.0)
    play.steps(1)
    again = Play(tmp_path)
    again.drain.open()
    again.drain.start()
    assert (again.drain.overview(), again.site.closed_to_agents, again.told) == (
        {"phase": "drained", "since": 5.0, "by": "ann", "agents": 0}, "shutting-down", [True],
    )  # fmt: skip
    Deferred.fromCoroutine(play.drain.undo("bob"))
    play.steps(4)
    assert [agent.link.holds for agent in play.site.agents.values()] == [set(), set()]  # type: ignore[union-attr]
    assert (play.drain.phase, play.offered, play.told, play.site.closed_to_agents) == (
        "off", ["a0", "a1"], [True, False], "",
    )  # fmt: skip
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_none(tmp_path: Path) -> None:
    """Helen takes agents if the file is none: better too many than none."""
    (tmp_path / "drained.json").write_text(json.dumps([1]))
    play = Play(tmp_path)
    play.drain.open()
    assert play.drain.phase == "off"


# ---------------------------------------------------------------------------------------------- elsewhere


def test_who_is_with_another_helen_is_not_missed() -> None:
    """An agent is asked after until it is found or comes back, also if the broker of its Helen can't say."""
    site, clock, there = Site(Connection(), Connection()), Clock(), dict[str, bool | None]()
    site.agents["old"] = Agent("old")
    forgotten: list[str] = []
    elsewhere = MovedAgents(clock, site, lambda s: succeed(there.get(s, False)), forgotten.append)  # type: ignore[arg-type]
    elsewhere.start()
    there["equus.old"] = None
    clock.advance(LOOK_SECONDS)
    assert forgotten == []
    there["equus.old"] = True
    gone, back = site.agents["a0"], site.agents["a1"]
    for agent in (gone, back):
        agent.link = None
        site.detached(agent)
    back.link = Connection()
    site.attached(back)
    there |= {"equus.a0": True, "equus.a1": True}
    clock.advance(LOOK_SECONDS)
    clock.advance(LOOK_SECONDS)
    assert sorted(forgotten) == ["a0", "old"]
    elsewhere.stop()
    assert (site.attached._subscribers, site.detached._subscribers) == ([], [])
