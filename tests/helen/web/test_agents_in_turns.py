"""Tests that requests that look at all agents do so in turns, counted in each turn up to the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from counted_agents import AGENTS, MOST, Fleet, asked
from twisted.internet.defer import Deferred

from groundwork.authority import Caller
from helen.agents.roster import Agent
from helen.agents.sight import Sight
from helen.web import overview
from helen.web.access import OWNER
from helen.web.problems import Problem
from helen.web.routes import many_acks, metrics, results, rollouts, rows
from helen.web.routes.drain import get_drain
from helen.web.sight.agents_in_turns import AGENTS_A_STEP, agents_in_sight, names_in_sight
from helen.web.targets import targets_of

LIMITS: list[tuple[str, ...] | None] = [None, ("role=r1",), ("a1*",)]


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Fleet:
    return Fleet(monkeypatch)


def seen_of(limit: tuple[str, ...] | None) -> int:
    return {None: AGENTS, ("role=r1",): AGENTS // 2, ("a1*",): 1_111}[limit]  # a1, a10 to a19, ..., a1000 to a1999


@pytest.mark.parametrize("limit", LIMITS, ids=str)
def test_labels(fleet: Fleet, limit: tuple[str, ...] | None) -> None:
    """Labels are counted in turns over the agents in sight, and at most 100 values of one are told."""
    request = asked([])
    answer, sizes = fleet.follow(rows.list_labels(fleet.parts(limit), request))
    told = json.loads(answer)["labels"]
    assert sum(told["role"].values()) == seen_of(limit) and len(told["own"]) == 100
    assert max(sizes) <= MOST, sizes


@pytest.mark.parametrize("query", [{}, {"on": "a1*"}, {"on": "nobody"}], ids=str)
@pytest.mark.parametrize("limit", LIMITS, ids=str)
def test_metrics(fleet: Fleet, limit: tuple[str, ...] | None, query: dict[str, str]) -> None:
    """Metrics of agents are written in turns, and a limit to all agents gives the figures of no limit."""
    written = list[bytes]()
    parts = fleet.parts(limit or ("*",))
    _, sizes = fleet.follow(metrics.get_metrics(parts, asked(written, query)))
    page = b"".join(written).decode()
    assert f"\nhelen_agents_known {seen_of(limit)}\n" in page and "\nhelen_agents_connected 0\n" in page
    shown = {None: 1_111, ("role=r1",): 556, ("a1*",): 1_111}[limit] if query else seen_of(limit)
    assert page.count("\nhelen_agent_connected{") == (0 if query == {"on": "nobody"} else shown)
    assert max(sizes) <= MOST, sizes


@pytest.mark.parametrize("limit", LIMITS, ids=str)
def test_metrics_of_checks_and_results(fleet: Fleet, limit: tuple[str, ...] | None) -> None:
    """Metrics of checks and results pick rows in turns, and sort them in a thread, which is this one here."""
    for begin in (metrics.get_check_metrics, results.list_results):
        _, sizes = fleet.follow(begin(fleet.parts(limit), asked([], {"on": "a*5"})))
        assert max(sizes[:-2]) <= MOST, sizes
        assert len(sizes) >= AGENTS / AGENTS_A_STEP


@pytest.mark.parametrize("limit", LIMITS, ids=str)
def test_drain_and_rollouts(fleet: Fleet, limit: tuple[str, ...] | None) -> None:
    """Drains and rollouts count connected agents in turns."""
    answer, sizes = fleet.follow(get_drain(fleet.parts(limit), asked([])))
    assert json.loads(answer)["agents"] == 0 and max(sizes) <= MOST
    parts = fleet.parts(limit)
    found, sizes = fleet.follow(rollouts.followers_in_sight(parts, parts.visible(OWNER)))
    assert found == [] and max(sizes) <= MOST


@pytest.mark.parametrize("limit", LIMITS, ids=str)
def test_the_overview(fleet: Fleet, limit: tuple[str, ...] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "_overview", lambda parts, counts, warnings: counts)
    parts = fleet.parts(None)
    sight = None if limit is None else Sight(limit, fleet.roster.agents)
    if limit is not None:
        monkeypatch.setattr(overview, "_narrowed", lambda shown, sight: shown)
    counts, sizes = fleet.follow(overview.overview_for(parts, sight))
    assert counts.agents == {"known": seen_of(limit), "connected": 0, "hosts": 0}
    assert max(sizes) <= MOST, sizes


@pytest.mark.parametrize("limit", LIMITS, ids=str)
def test_targets_of_a_question(fleet: Fleet, limit: tuple[str, ...] | None) -> None:
    """The targets of a query are those of all patterns without revoked agents, and none is a problem."""
    caller = Caller("token:db", frozenset(("operate",)), on=limit)
    fleet.roster.agents["a1"].revoked_at = 5.0
    found, sizes = fleet.follow(targets_of(fleet.parts(limit), caller, ["a1*", "role=r1"]))
    assert len(found) == {None: 1_555, ("role=r1",): 1_000, ("a1*",): 1_111}[limit] - 1
    assert max(sizes) <= MOST, sizes
    with pytest.raises(Problem, match="no agent fits nobody"):
        fleet.follow(targets_of(fleet.parts(limit), caller, ["nobody"]))


@pytest.mark.parametrize("limit", LIMITS, ids=str)
def test_many_checks_to_acknowledge(fleet: Fleet, limit: tuple[str, ...] | None) -> None:
    """Many checks to acknowledge are judged in turns, and each unknown one is refused."""
    keys = [(name, "disk") for name in fleet.roster.agents]
    parts = fleet.parts(limit)
    found, sizes = fleet.follow(many_acks._sort(parts, keys, lambda state: None, parts.visible(OWNER)))
    assert found.good == () and found.refused == tuple((key, "nothing is known of it") for key in keys)
    assert max(sizes) <= MOST and len(sizes) > AGENTS / MOST, sizes


def test_names_in_sight_are_those_of_the_sight(fleet: Fleet) -> None:
    """Names in sight are those of the sight, also of missing agents: a pattern of names may show them, a label not."""
    for limit in (("role=r1",), ("a1*", "gone-*")):
        sight = Sight(limit, fleet.roster.agents)
        is_seen, sizes = fleet.follow(names_in_sight(fleet.roster.agents, sight))
        names = [*fleet.roster.agents, "gone-1", "a1-gone", "zz"]
        assert [is_seen(name) for name in names] == [sight(name) for name in names]
        assert max(sizes) <= MOST
    assert fleet.follow(names_in_sight(fleet.roster.agents, None))[0] is None


def test_agents_that_come_meanwhile_are_another_requests(fleet: Fleet) -> None:
    """Agents in sight are those of the begin of the request, without later ones and with those that left meanwhile."""
    done, agents = list[Any](), fleet.roster.agents
    Deferred.fromCoroutine(agents_in_sight(agents.values(), Sight(("*",), agents))).addCallback(done.append)
    fleet.clock.advance(1.0)
    fleet.roster.agents["new"] = Agent("new")
    del fleet.roster.agents["a1999"]
    for _ in range(AGENTS // AGENTS_A_STEP + 2):
        fleet.clock.advance(1.0)
    assert [agent.name for agent in done[0]] == [f"a{number}" for number in range(AGENTS)]
