"""Tests members of meshes as agents come, change and go: whose schedules are made anew, and what a start finds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from held_walks import HeldWalks

from groundwork.event import Event
from helen.agents.roster import Agent
from helen.assignments.assignments_text import read
from helen.assignments.mesh_schedule import MOST_MEMBERS
from helen.targets import mesh_control
from helen.targets.mesh_control import MeshControl

MESH = ("role=edge",)
PING = read('[[assign]]\ncheck = "ping"\nmesh = ["role=edge"]\n')


class Stage:
    """Holds a MeshControl with a roster, and whose schedules were made, in order."""

    def __init__(self, *names: str) -> None:
        self.agents: dict[str, Agent] = {}
        self.scheduled: list[str] = []
        for name in names:
            self.agents[name] = Agent(name, labels={"role": "edge"}, address=f"10.0.0.{len(self.agents) + 1}")
        self.delivery = SimpleNamespace(scheduled=Event(), assignments=PING, schedule=self._schedule)
        self.sessions: Any = SimpleNamespace(
            roster=SimpleNamespace(agents=self.agents), delivery=self.delivery, attached=Event(),
            fair_turns=SimpleNamespace(walk=lambda things, each: [each(thing) for thing in list(things)]),
        )  # fmt: skip
        self.control = MeshControl(self.sessions)

    def _schedule(self, agent: Agent) -> None:
        self.scheduled.append(agent.name)
        self.delivery.scheduled(agent, ())

    def come(self, name: str, address: str, **labels: str) -> None:
        agent = self.agents.setdefault(name, Agent(name))
        agent.address, agent.labels = address, labels
        self.sessions.attached(agent)
        self.delivery.scheduled(agent, ())

    def made(self) -> list[str]:
        """Return the agents whose schedules the next tick makes anew."""
        self.scheduled.clear()
        self.control.tick()
        return self.scheduled


@pytest.fixture
def stage() -> Stage:
    made = Stage("edge-1", "edge-2")
    made.control.begin()
    made.control.tick()
    return made


def test_a_start() -> None:
    """The first schedule has the whole mesh, as the roster has it: none of its checks ends because Helen restarts."""
    stage = Stage("edge-2", "edge-1")
    assert dict(stage.delivery.members(MESH)) == {"edge-1": "10.0.0.2", "edge-2": "10.0.0.1"}
    stage.control.begin()
    assert stage.made() == []
    assert list(stage.delivery.members(("web-*",))) == []  # of another one, from now on: it is looked for in turns


def test_those_that_come_and_change(stage: Stage) -> None:
    """A new member, another address and other labels reach the schedules of all; no news reaches nobody."""
    stage.come("web-1", "10.0.0.9", role="web")
    assert stage.made() == []
    stage.come("edge-3", "10.0.0.3", role="edge")
    assert stage.made() == ["edge-1", "edge-2", "edge-3"]
    stage.come("edge-3", "10.0.0.3", role="edge")
    assert stage.made() == []
    stage.come("edge-3", "10.0.0.7", role="edge")
    assert stage.made() == ["edge-1", "edge-2", "edge-3"]
    assert stage.control.members(MESH)["edge-3"] == "10.0.0.7"
    stage.come("edge-3", "10.0.0.7", role="web")
    assert stage.made() == ["edge-1", "edge-2", "edge-3"]
    assert sorted(stage.control.members(MESH)) == ["edge-1", "edge-2"]


def test_those_that_go(stage: Stage) -> None:
    """An agent that is forgotten or revoked leaves the mesh, and one that is away does not."""
    stage.come("edge-3", "10.0.0.3", role="edge")
    stage.control.tick()
    stage.agents["edge-1"].link = None
    assert stage.made() == []
    del stage.agents["edge-1"]
    assert stage.made() == ["edge-2", "edge-3"]
    stage.agents["edge-2"].revoke(1.0)
    assert "edge-3" in stage.made()
    assert (list(stage.control.members(MESH)), stage.made()) == (["edge-3"], [])


def test_other_assignments(stage: Stage) -> None:
    """A new mesh finds its members in turns; one that is taken out is forgotten."""
    stage.delivery.assignments = read('[[assign]]\ncheck = "ping"\nmesh = ["edge-*"]\n')
    stage.control.look_again()
    assert stage.made() == ["edge-1", "edge-2"]
    assert (list(stage.control.members(MESH)), list(stage.control.members(("edge-*",)))) == ([], ["edge-1", "edge-2"])
    stage.delivery.assignments = read("")
    stage.control.look_again()
    assert (stage.made(), stage.control.meshes()) == ([], [])


def test_more_than_a_mesh_takes(stage: Stage) -> None:
    """The first agents by name are members; when one of them goes the next one comes in."""
    for number in range(3, MOST_MEMBERS + 3):
        stage.come(f"edge-x{number:03}", f"10.0.1.{number}", role="edge")
    stage.control.tick()
    ((_, members, left_out),) = stage.control.meshes()
    assert (len(members), left_out, f"edge-x{MOST_MEMBERS + 2:03}" in members) == (MOST_MEMBERS, 2, False)
    del stage.agents["edge-1"]
    stage.control.tick()
    ((_, members, left_out),) = stage.control.meshes()
    assert (len(members), left_out, f"edge-x{MOST_MEMBERS + 1:03}" in members) == (MOST_MEMBERS, 1, True)


def test_who_sees_one(stage: Stage) -> None:
    assert stage.control.watchers("ping@edge-2") == ["edge-1"]
    assert [stage.control.watchers(each) for each in ("ping", "ping@web-1", "pong@edge-1", "@")] == [[], [], [], []]
    assert [stage.control.mesh_of(name, "ping@edge-2") for name in ("edge-1", "web-1")] == ["ping", None]
    assert stage.control.mesh_of("edge-1", "ping") is None


def test_each_mesh_is_chosen_in_a_step_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tick chooses none of a new agent's ten meshes; each has a step, and one that is taken out is passed over."""
    texts = [f'[[assign]]\nid = "m{n}"\ncheck = "ping"\nmesh = ["role=edge", "x-{n}"]\n' for n in range(10)]
    stage, walks, chosen = Stage("edge-1"), HeldWalks(), list[int]()
    stage.delivery.assignments = read("".join(texts))
    stage.control.begin()
    stage.control.tick()
    first_of = mesh_control.first_of
    monkeypatch.setattr(mesh_control, "first_of", lambda agents: chosen.append(len(agents)) or first_of(agents))
    stage.sessions.fair_turns = walks
    stage.come("edge-2", "10.0.0.2", role="edge")
    stage.control.tick()
    assert chosen == []
    stage.delivery.assignments = read("".join(texts[:9]))
    stage.control.look_again()
    assert max(walks.take_all(lambda: len(chosen))) == 1 and chosen == [2] * 9
    assert [sorted(members) for _, members, _ in stage.control.meshes()] == [["edge-1", "edge-2"]] * 9
