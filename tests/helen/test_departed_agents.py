"""Tests that ephemeral agents are forgotten: away for long enough while Helen was awake, and with no other Helen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail, succeed

from groundwork.event import Event
from helen.agents.roster import Agent
from helen.departed_agents import ASK_SECONDS, ASKED_TIMES, AT_ONCE, REACH_SECONDS, EphemeralAgents

WALL = 1_700_000_000.0
DAY = 86_400.0


class Fleet:
    """Stands in for the parts of a Helen that EphemeralAgents sees; what is done to them is written down."""

    def __init__(self, **stays: float) -> None:
        self.stays: dict[str, float | None] = dict(stays)
        self.steady, self.wall = 5_000.0, WALL
        self.revoked: set[str] = set()
        self.forgotten: list[str] = []
        self.failure: Exception | None = None
        self._listeners: list[Any] = []
        given = SimpleNamespace(ephemeral=self.stays.get, on_changed=self._listeners.append)
        self.given = given
        self.agents = {name: Agent(name, last_seen=WALL, ephemeral=stay) for name, stay in stays.items()}
        roster = SimpleNamespace(agents=self.agents, is_connected=self.is_connected, forget=self._forgot)
        sessions = SimpleNamespace(
            roster=roster, attached=Event(), detached=Event(), connections=SimpleNamespace(came_from=lambda *_: None)
        )
        authority = SimpleNamespace(given=given, about=lambda name: ([], WALL if name in self.revoked else None))
        authority.forget = self._forget
        clock = SimpleNamespace(steady=lambda: self.steady, settled=lambda: self.wall, wall=lambda: self.wall)
        nothing = SimpleNamespace(forget=lambda name: None, restate=lambda name: None)
        self.parts: Any = SimpleNamespace(
            sessions=sessions, authority=authority, clock=clock, evaluator=nothing, passive=nothing
        )
        self.sessions = sessions

    def is_connected(self, name: str) -> bool:
        agent = self.agents.get(name)
        return agent is not None and agent.link is not None

    def _forgot(self, name: str) -> None:
        self.forgotten.append(name)
        del self.agents[name]

    def _forget(self, name: str, now: float, by: str, is_free: bool) -> Deferred[None]:
        assert (now, by, is_free) == (self.wall, "helen", True)
        return succeed(None) if self.failure is None else fail(self.failure)

    def come(self, name: str) -> None:
        self.agents.setdefault(name, Agent(name, ephemeral=self.stays.get(name))).link = object()  # type: ignore[assignment]
        self.sessions.attached(self.agents[name])

    def go(self, name: str) -> None:
        self.agents[name].link = None
        self.sessions.detached(self.agents[name])

    def give(self, name: str, stay: float | None) -> None:
        self.stays[name] = stay
        for tell in self._listeners:
            tell(name)

    def begun(self, elsewhere: Any = None) -> EphemeralAgents:
        self.given.names = set(self.stays)
        made = EphemeralAgents(self.parts, elsewhere)
        made.start()
        return made

    def pass_time(self, looking: EphemeralAgents, seconds: float, step: float = 1.0) -> None:
        """Let so many seconds pass, with a look after each step."""
        for _ in range(round(seconds / step)):
            self.steady += step
            self.wall += step
            looking.look()


@pytest.fixture
def fleet() -> Fleet:
    return Fleet(pod=DAY)


def test_away_for_longer_than_it_may(fleet: Fleet) -> None:
    """An agent is forgotten when it was away for its whole time, not a second earlier, and none that is
    expected back.
    """
    looking = fleet.begun()
    fleet.come("pod")
    fleet.come("web")
    fleet.go("web")
    fleet.pass_time(looking, 2 * DAY, 3_600.0)
    fleet.go("pod")
    fleet.pass_time(looking, DAY - 60.0, 60.0)
    fleet.pass_time(looking, 59.0)
    assert fleet.forgotten == []
    fleet.pass_time(looking, 1.0)
    assert (fleet.forgotten, set(fleet.agents)) == (["pod"], {"web"})
    fleet.pass_time(looking, 3 * DAY, 3_600.0)
    assert fleet.forgotten == ["pod"]


def test_it_comes_back_in_time(fleet: Fleet) -> None:
    """An agent that comes back in time has its whole time again with each absence."""
    looking = fleet.begun()
    fleet.come("pod")
    for _ in range(3):
        fleet.go("pod")
        fleet.pass_time(looking, DAY - 60.0, 60.0)
        fleet.come("pod")
    assert fleet.forgotten == []


def test_one_that_enrols_and_never_comes(fleet: Fleet) -> None:
    """An agent that enrols and never comes has the same time from its enrolment on."""
    looking = fleet.begun()
    fleet.agents["new"] = Agent("new", ephemeral=120.0)
    fleet.give("new", 120.0)
    fleet.pass_time(looking, 119.0)
    assert fleet.forgotten == []
    fleet.pass_time(looking, 2.0)
    assert fleet.forgotten == ["new"]


@pytest.mark.parametrize(("gone_for", "left"), [(0.0, DAY), (DAY / 2, DAY / 2), (5 * DAY, REACH_SECONDS), (-DAY, DAY)])
def test_a_start_goes_on_from_what_was_known(fleet: Fleet, gone_for: float, left: float) -> None:
    """An agent that was away for too long at a start has ten minutes to come back; a clock that was set back adds
    nothing.
    """
    fleet.agents["pod"].last_seen = WALL - gone_for
    looking = fleet.begun()
    fleet.steady += left - 1.0
    looking.look()
    assert fleet.forgotten == []
    fleet.pass_time(looking, 1.0)
    assert fleet.forgotten == ["pod"]


@pytest.mark.parametrize("step", [40 * DAY, -40 * DAY])
def test_a_step_of_the_clock_changes_nothing(fleet: Fleet, step: float) -> None:
    """An agent's time away is counted by the clock that nobody can set."""
    looking = fleet.begun()
    fleet.come("pod")
    fleet.go("pod")
    fleet.wall += step
    fleet.pass_time(looking, DAY - 60.0, 60.0)
    assert fleet.forgotten == []
    fleet.pass_time(looking, 60.0, 60.0)
    assert fleet.forgotten == ["pod"]


def test_one_that_an_operator_shut_out_is_left_to_operators(fleet: Fleet) -> None:
    """A revoked agent is listed until an operator forgets it."""
    looking = fleet.begun()
    fleet.revoked.add("pod")
    fleet.pass_time(looking, 3 * DAY, 3_600.0)
    assert fleet.forgotten == []


def test_a_disk_that_does_not_take_it(fleet: Fleet) -> None:
    """An agent that the disk did not forget is tried again, and is in the lists until it worked."""
    looking = fleet.begun()
    fleet.failure = OSError("no space left")
    fleet.pass_time(looking, DAY, 60.0)
    assert fleet.forgotten == []
    fleet.failure = None
    fleet.pass_time(looking, 2 * ASK_SECONDS)
    assert fleet.forgotten == ["pod"]


@pytest.mark.parametrize("answer", [True, None])
def test_another_helen_has_it_or_may_have(fleet: Fleet, answer: bool | None) -> None:
    """An agent that went to another Helen is kept, and so is one if brokers can't be asked."""
    looking = fleet.begun(lambda name: succeed(answer))
    fleet.pass_time(looking, 3 * DAY, 60.0)
    assert fleet.forgotten == []


def test_an_agent_between_two_helens(fleet: Fleet) -> None:
    """An agent that no Helen has at one moment is asked for until the same was said several times in a row."""
    answers = [False] * (ASKED_TIMES - 1) + [True] + [False] * ASKED_TIMES
    asked: list[str] = []

    def elsewhere(name: str) -> Deferred[bool | None]:
        asked.append(name)
        return succeed(answers.pop(0))

    looking = fleet.begun(elsewhere)
    fleet.pass_time(looking, DAY + ASKED_TIMES * ASK_SECONDS, ASK_SECONDS)
    assert (len(asked), fleet.forgotten) == (ASKED_TIMES, [])
    fleet.pass_time(looking, DAY + ASKED_TIMES * ASK_SECONDS, ASK_SECONDS)
    assert (len(asked), fleet.forgotten, answers) == (2 * ASKED_TIMES, ["pod"], [])


def test_another_helen_has_forgotten_it(fleet: Fleet) -> None:
    """An agent whose certificate another Helen revoked leaves the lists here as well."""
    looking = fleet.begun()
    fleet.give("pod", None)
    fleet.pass_time(looking, 1.0)
    fleet.revoked.add("pod")
    fleet.pass_time(looking, ASK_SECONDS)
    assert fleet.forgotten == ["pod"]


def test_it_is_made_one_that_is_expected_back(fleet: Fleet) -> None:
    """An agent that enrols again by a token of its own stays for ever."""
    looking = fleet.begun()
    fleet.give("pod", None)
    fleet.pass_time(looking, 3 * DAY, 60.0)
    assert fleet.forgotten == []


def test_a_great_group_goes_a_few_at_a_time() -> None:
    """A look forgets AT_ONCE agents at the most, so that the store is never overloaded."""
    fleet = Fleet(**{f"pod-{number}": DAY for number in range(AT_ONCE + 5)})
    looking = fleet.begun()
    fleet.steady += DAY
    looking.look()
    assert len(fleet.forgotten) == AT_ONCE
    looking.look()
    assert len(fleet.forgotten) == AT_ONCE + 5
