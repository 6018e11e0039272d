"""Requests that look at all agents do so in turns: each is followed to its answer, and agents are counted in each turn.

No clock is looked at. An agent counts once in a turn; a walk over all of them at once, wherever it is made, is a turn
with as many agents.
"""

from __future__ import annotations

import json
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock, Cooperator
from twisted.python.failure import Failure
from twisted.web.test.requesthelper import DummyChannel

from groundwork.authority import Caller
from helen.agents.roster import Agent, Roster
from helen.agents.sight import Sight
from helen.assignments.known_notes import KnownNotes
from helen.states.fleet_timeline import Timeline
from helen.web import overview
from helen.web.access import OWNER
from helen.web.connections import short_turns
from helen.web.problems import Problem
from helen.web.request import ApiRequest
from helen.web.routes import many_acks, metrics, results, rollouts, rows
from helen.web.routes.drain import get_drain
from helen.web.sight.agents_in_turns import AGENTS_A_STEP, agents_in_sight, names_in_sight
from helen.web.targets import targets_of

AGENTS = 2_000
MOST = 2 * AGENTS_A_STEP  # of one turn: the end of a step, and the next one
LIMITS: list[tuple[str, ...] | None] = [None, ("role=r1",), ("a1*",)]


class Fleet:
    """Has 2,000 agents, half of them with the role r1, and knows which of them were looked at in this turn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock, touched = Clock(), set[str]()
        self.touched = touched

        class Counted(Agent):
            def __getattribute__(self, name: str) -> Any:
                if name not in ("name", "__class__"):  # alone, it is how a list is sorted, in a millisecond
                    touched.add(object.__getattribute__(self, "name"))
                return super().__getattribute__(name)

        made = Cooperator(lambda: lambda: True, lambda step: self.clock.callLater(1.0, step))  # a step is a turn
        monkeypatch.setattr(short_turns, "_cooperator", made)
        for module in (metrics, results):
            monkeypatch.setattr(module, "deferToThread", lambda call, *given: succeed(call(*given)))
        self.roster = Roster(lambda agent: None, lambda agent, link: None)
        self.roster.agents = {
            f"a{number}": Counted(f"a{number}", labels={"role": f"r{number % 2}", "own": f"v{number}"})
            for number in range(AGENTS)
        }

    def parts(self, limit: tuple[str, ...] | None) -> Any:
        """Return the parts that the routes below need; their caller is limited so."""
        sight = None if limit is None else Sight(limit, self.roster.agents)
        return SimpleNamespace(
            visible=lambda caller: sight, sessions=SimpleNamespace(roster=self.roster, queries=()), version="1",
            evaluator=SimpleNamespace(timeline=Timeline()), notes=KnownNotes(), started_at=1.0, exports=KnownExports(),
            library=SimpleNamespace(published=None), clock=SimpleNamespace(steps={}, slept=0.0), network=None,
            drain=SimpleNamespace(overview=lambda: {"phase": "no", "agents": 0}),
            targets=SimpleNamespace(entries_of=lambda name: ()),
        )  # fmt: skip

    def follow(self, begin: Coroutine[Deferred[Any], Any, Any]) -> tuple[Any, list[int]]:
        """Return the answer, and how many agents each turn looked at."""
        sizes, done = list[int](), list[Any]()
        self.touched.clear()
        Deferred.fromCoroutine(begin).addBoth(done.append)
        while not done:
            sizes.append(len(self.touched))
            self.touched.clear()
            assert len(sizes) < 10_000
            self.clock.advance(1.0)
        if isinstance(done[0], Failure):
            done[0].raiseException()
        return done[0], [*sizes, len(self.touched)]


class KnownExports:
    """Exports nothing."""

    def of(self, name: str) -> dict[str, tuple[str, ...]]:
        return {}


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Fleet:
    return Fleet(monkeypatch)


def asked(written: list[bytes], query: dict[str, str] | None = None) -> ApiRequest:
    request = ApiRequest(DummyChannel(), False)
    request.method, request.uri, request.path, request.clientproto = b"GET", b"/x", b"/x", b"HTTP/1.1"
    request.args = {name.encode(): [value.encode()] for name, value in (query or {}).items()}
    request.caller = OWNER
    request.write = written.append
    return request


def seen_of(limit: tuple[str, ...] | None) -> int:
    return {None: AGENTS, ("role=r1",): AGENTS // 2, ("a1*",): 1_111}[limit]  # a1, a10 to a19, ..., a1000 to a1999


@pytest.mark.parametrize("limit", LIMITS, ids=str)
def test_labels(fleet: Fleet, limit: tuple[str, ...] | None) -> None:
    """100 values of a label that each agent has of its own are told; all agents of a role are counted."""
    request = asked([])
    answer, sizes = fleet.follow(rows.list_labels(fleet.parts(limit), request))
    told = json.loads(answer)["labels"]
    assert sum(told["role"].values()) == seen_of(limit) and len(told["own"]) == 100
    assert max(sizes) <= MOST, sizes


@pytest.mark.parametrize("query", [{}, {"on": "a1*"}, {"on": "nobody"}], ids=str)
@pytest.mark.parametrize("limit", LIMITS, ids=str)
def test_metrics(fleet: Fleet, limit: tuple[str, ...] | None, query: dict[str, str]) -> None:
    """A limit to all agents has the figures of agents as a caller without one gets them."""
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
    """What is picked is sorted in a thread, which is this one here, so that the last turn may see all of them."""
    for begin in (metrics.get_check_metrics, results.list_results):
        _, sizes = fleet.follow(begin(fleet.parts(limit), asked([], {"on": "a*5"})))
        assert max(sizes[:-2]) <= MOST, sizes
        assert len(sizes) >= AGENTS / AGENTS_A_STEP


@pytest.mark.parametrize("limit", LIMITS, ids=str)
def test_drain_and_rollouts(fleet: Fleet, limit: tuple[str, ...] | None) -> None:
    """Those that are connected are counted: here none is."""
    answer, sizes = fleet.follow(get_drain(fleet.parts(limit), asked([])))
    assert json.loads(answer)["agents"] == 0 and max(sizes) <= MOST
    parts = fleet.parts(limit)
    found, sizes = fleet.follow(rollouts.followers_in_sight(parts, parts.visible(OWNER)))
    assert found == [] and max(sizes) <= MOST


@pytest.mark.parametrize("limit", LIMITS, ids=str)
def test_the_overview(fleet: Fleet, limit: tuple[str, ...] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "_overview", lambda parts, counts: counts)
    parts = fleet.parts(None)
    sight = None if limit is None else Sight(limit, fleet.roster.agents)
    if limit is not None:
        monkeypatch.setattr(overview, "_narrowed", lambda shown, sight: shown)
    counts, sizes = fleet.follow(overview.overview_for(parts, sight))
    assert counts.agents == {"known": seen_of(limit), "connected": 0, "hosts": 0}
    assert max(sizes) <= MOST, sizes


@pytest.mark.parametrize("limit", LIMITS, ids=str)
def test_targets_of_a_question(fleet: Fleet, limit: tuple[str, ...] | None) -> None:
    """Of all patterns; none fits, none is asked. A revoked one is not asked either."""
    caller = Caller("token:db", frozenset(("operate",)), on=limit)
    fleet.roster.agents["a1"].revoked_at = 5.0
    found, sizes = fleet.follow(targets_of(fleet.parts(limit), caller, ["a1*", "role=r1"]))
    assert len(found) == {None: 1_555, ("role=r1",): 1_000, ("a1*",): 1_111}[limit] - 1
    assert max(sizes) <= MOST, sizes
    with pytest.raises(Problem, match="no agent fits nobody"):
        fleet.follow(targets_of(fleet.parts(limit), caller, ["nobody"]))


@pytest.mark.parametrize("limit", LIMITS, ids=str)
def test_many_checks_to_acknowledge(fleet: Fleet, limit: tuple[str, ...] | None) -> None:
    """Nothing is known of any: each of them is refused, and agents out of sight are looked at in turns as well."""
    keys = [(name, "disk") for name in fleet.roster.agents]
    parts = fleet.parts(limit)
    found, sizes = fleet.follow(many_acks._sort(parts, keys, lambda state: None, parts.visible(OWNER)))
    assert found.good == () and found.refused == tuple((key, "nothing is known of it") for key in keys)
    assert max(sizes) <= MOST and len(sizes) > AGENTS / MOST, sizes


def test_names_in_sight_are_those_of_the_sight(fleet: Fleet) -> None:
    """Also those that no agent has: by a pattern of names they may be seen, by a label they can't."""
    for limit in (("role=r1",), ("a1*", "gone-*")):
        sight = Sight(limit, fleet.roster.agents)
        is_seen, sizes = fleet.follow(names_in_sight(fleet.roster.agents, sight))
        names = [*fleet.roster.agents, "gone-1", "a1-gone", "zz"]
        assert [is_seen(name) for name in names] == [sight(name) for name in names]
        assert max(sizes) <= MOST
    assert fleet.follow(names_in_sight(fleet.roster.agents, None))[0] is None


def test_agents_that_come_meanwhile_are_another_requests(fleet: Fleet) -> None:
    """And one that goes is still told of: it was there."""
    done, agents = list[Any](), fleet.roster.agents
    Deferred.fromCoroutine(agents_in_sight(agents.values(), Sight(("*",), agents))).addCallback(done.append)
    fleet.clock.advance(1.0)
    fleet.roster.agents["new"] = Agent("new")
    del fleet.roster.agents["a1999"]
    for _ in range(AGENTS // AGENTS_A_STEP + 2):
        fleet.clock.advance(1.0)
    assert [agent.name for agent in done[0]] == [f"a{number}" for number in range(AGENTS)]
