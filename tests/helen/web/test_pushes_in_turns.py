"""Tests that warnings, pushes, orders and completions look at agents in turns, counted in each turn."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from counted_agents import AGENTS, MOST, Fleet, asked

from groundwork.authority import Caller
from helen.web.access import OWNER
from helen.web.label_warnings import all_warnings
from helen.web.pages.author import _targets
from helen.web.routes import pushes
from helen.web.routes.changes import _labels
from helen.web.routes.runs import named_by


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Fleet:
    return Fleet(monkeypatch)


def test_warnings_about_labels(fleet: Fleet) -> None:
    """A label key that no agent was given has a warning with the number of agents that claim it, found in turns."""
    for number, agent in enumerate(list(fleet.roster.agents.values())):
        agent.given = {"tier": "test"} if number == AGENTS - 1 else {}
        agent.claimed = {"nowhere": "x"} if number % 4 == 0 else {}
    said, sizes = fleet.follow(all_warnings(fleet.parts(None)))
    expected = f"no agent was given the label nowhere. {AGENTS // 4} agents say it of themselves"
    assert len(said) == 1 and expected in said[0]
    assert max(sizes) <= MOST, sizes
    fleet.roster.trusted = frozenset(("tier", "nowhere"))
    assert fleet.follow(all_warnings(fleet.parts(None)))[1] == [0]  # no key is in question: nobody is looked at


def test_how_far_a_push_has_come(fleet: Fleet) -> None:
    """The state of a push counts the agents that run the set, keep old files, or upgrade, in turns."""
    agents = list(fleet.roster.agents.values())
    for number, agent in enumerate(agents):
        agent.digest, agent.equus_version = "abc" if number % 2 else "old", "equus/0.3.0" if number % 4 else "equus/0.2"
        agent.not_active = {"disk.lua": "broken"} if number % 100 < 2 else {}
        agent.troubles = {"upgrade": "undone"} if number % 500 == 1 else {}
    newest = SimpleNamespace(digest="abc", version=7, document=SimpleNamespace(agent={"version": "0.3.0"}))
    keys = SimpleNamespace(private=())
    library: Any = SimpleNamespace(releases=SimpleNamespace(newest=newest), staged=None, keys=keys)
    shown, sizes = fleet.follow(pushes.show_push(library, agents))
    assert (shown["version"], shown["agents"], shown["loaded"]) == (7, AGENTS, AGENTS // 2)
    assert len(shown["kept_old"]) == AGENTS // 100 and shown["kept_old"]["a101"] == {"disk.lua": "broken"}
    assert shown["upgrade"] == {
        "version": "0.3.0", "running": AGENTS * 3 // 4,
        "refused": {f"a{number}": "undone" for number in range(1, AGENTS, 500)},
    }  # fmt: skip
    assert max(sizes) <= MOST, sizes


def test_the_newest_version_that_agents_hold(fleet: Fleet) -> None:
    fleet.roster.agents["a77"].troubles = {"manifest": "rollback: version 3 is older than 9, which was here"}
    for agent in fleet.roster.agents.values():
        agent.link = SimpleNamespace(version=2)  # type: ignore[assignment]
    held, sizes = fleet.follow(pushes._newest_held(fleet.parts(None)))
    assert held == 9 and max(sizes[1:]) <= MOST, sizes


def test_names_of_an_order(fleet: Fleet) -> None:
    """An order names the agents that only a given label selects, in order, and all of them for a limited caller."""
    for number, agent in enumerate(list(fleet.roster.agents.values())):
        agent.claimed = {"role": "r1"} if number >= AGENTS // 2 else {}
    named, sizes = fleet.follow(named_by(fleet.parts(None), OWNER, ["role=r1"]))
    assert named == ("role=r1", *sorted(f"a{number}" for number in range(1, AGENTS // 2, 2)))
    assert max(sizes) <= MOST, sizes
    limit = ("a1*",)
    caller = Caller("token:db", frozenset(("operate",)), on=limit)
    named, sizes = fleet.follow(named_by(fleet.parts(limit), caller, ["role=r1"]))
    assert len(named) == 556 and max(sizes) <= MOST, sizes


def test_labels_of_past_changes(fleet: Fleet) -> None:
    """Labels for past changes are copied for a thread, if a pattern is of labels."""
    found, sizes = fleet.follow(_labels(fleet.parts(None), asked([], {"on": "role=r1"})))
    assert found["a5"] == {"role": "r1", "own": "v5"} and len(found) == AGENTS
    assert found["a5"] is not fleet.roster.agents["a5"].labels and max(sizes) <= MOST, sizes
    assert fleet.follow(_labels(fleet.parts(None), asked([], {"on": "a*"}))) == ({}, [0])


def test_what_the_field_of_a_dry_run_completes(fleet: Fleet) -> None:
    """The completions of a dry run's field are the first names and labels in order, of agents alone."""
    fleet.roster.agents["a0"].enrolled = False
    found, sizes = fleet.follow(_targets(fleet.parts(None)))
    assert found[:2] == ["a1", "a10"] and len(found) == 1_000 and found[500:502] == ["own=v1", "own=v10"]
    assert max(sizes) <= MOST, sizes
