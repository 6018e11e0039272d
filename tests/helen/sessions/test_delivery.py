"""Tests what is delivered to an agent: its own checks, then those of its meshes and of targets, as far as there is
room.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from helen.agents.roster import Agent
from helen.assignments import schedule as schedules
from helen.assignments.assignments_text import read
from helen.assignments.schedule import CheckTable, ScheduleEntry
from helen.sessions import delivery as deliveries
from helen.sessions.delivery import Delivery, Outgoing

MESH = '[[assign]]\ncheck = "ping"\nmesh = ["edge-*"]\n'
OWN = '[[assign]]\ncheck = "cpu"\nagents = ["edge-1"]\n[[assign]]\ncheck = "disk"\nid = "ping@edge-3"\n'
TABLES = {name: CheckTable(name) for name in ("ping", "cpu", "disk")}
MEMBERS = {f"edge-{number}": f"10.0.0.{number}" for number in range(1, 5)}


class Link:
    """Is a connection of version 2 of the protocol that keeps what it is sent."""

    version, name, closing = 2, "edge-1", False

    def __init__(self) -> None:
        self.sent: list[list[str]] = []

    def next_id(self) -> int:
        return 1

    def send(self, message: Any) -> None:
        self.sent.append([entry["id"] for entry in json.loads(message.blob)])


class Stage:
    """Holds a Delivery with one agent of a mesh of four, and another check of it for a target."""

    def __init__(self, text: str) -> None:
        sets: Any = SimpleNamespace(offered=lambda name: SimpleNamespace(tables=TABLES))
        turns: Any = SimpleNamespace(walk=lambda things, each: [each(thing) for thing in things])
        self.agent, self.link = Agent("edge-1", labels={}), Link()
        self.agent.link = self.link  # type: ignore[assignment]
        roster: Any = SimpleNamespace(agents={"edge-1": self.agent})
        self.delivery = Delivery(None, roster, turns, sets, lambda published: b"", lambda: 0.0)
        self.delivery._outgoing[self.link] = Outgoing()  # type: ignore[index]
        self.delivery.members = lambda mesh: MEMBERS
        self.delivery.further = lambda agent: (ScheduleEntry("switch", "ping", 60.0, 0.0, 10.0, {}),)
        self.told: list[list[tuple[str, str]]] = []
        self.delivery.scheduled.subscribe(self._tell)
        self.delivery.assign(read(text))

    def _tell(self, agent: Agent, entries: Iterable[ScheduleEntry]) -> None:
        self.told.append([(entry.id, entry.check) for entry in entries])


@pytest.fixture(autouse=True)
def _links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "AgentConnection", Link)


def test_a_check_of_a_mesh_with_the_id_of_an_own_one() -> None:
    """The agent's own entry counts, and no id comes twice, since an agent refuses a whole schedule for that."""
    stage = Stage(OWN + MESH)
    assert stage.told == [[("cpu", "cpu"), ("ping@edge-3", "disk"), ("ping@edge-2", "ping"), ("ping@edge-4", "ping")]]
    assert stage.link.sent == [["cpu", "ping@edge-3", "ping@edge-2", "ping@edge-4", "switch"]]
    assert stage.delivery.left_out() == {}


@pytest.mark.parametrize(("limit", "most"), [("MAX_ENTRIES", 3), ("MAX_SCHEDULE", 380)])
def test_more_than_a_schedule_takes(limit: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries without room are left out and told: of targets first, then of meshes; the agent's own checks stay."""
    monkeypatch.setattr(schedules, limit, most)
    stage = Stage(OWN + MESH)
    assert stage.link.sent == [["cpu", "ping@edge-3", "ping@edge-2"]]
    assert stage.delivery.left_out() == {"edge-1": ("ping@edge-4", "switch")}
