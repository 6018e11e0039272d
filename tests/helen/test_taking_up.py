"""What the roster knows of checks from before a start, out of the states that were kept."""

from __future__ import annotations

from helen.judged import LINK, PENDING, RETIRED, STALE, Condition, Seen, State
from helen.roster import Agent, Latest
from helen.taking_up import take_up


def state(status: int, reason: str | None = None, heard: float | None = 90.0, since: float = 50.0) -> State:
    now = Condition(status, since, reason)
    return State(shown=now, hard=now, seen=None if heard is None else Seen(heard, None, "s", 1, "c0de"))


def test_states_become_the_latest_that_is_known() -> None:
    """With their age and the hash of their code, without words; retired and never seen ones are no part of it."""
    agents = {"web-1": Agent("web-1")}
    take_up(
        agents,
        {
            ("web-1", "disk"): state(2), ("web-1", "load"): state(3, STALE), ("web-1", "old"): state(0, RETIRED),
            ("web-1", "new"): state(3, PENDING, heard=None), ("web-1", LINK): state(0), ("gone", "disk"): state(2),
        },
        (),
    )  # fmt: skip
    assert list(agents) == ["web-1"]
    assert agents["web-1"].latest == {
        "disk": Latest("disk", 2, "", 90.0, None, "c0de", since=50.0, kept=True),
        "load": Latest("load", 3, "", 90.0, STALE, "c0de", since=50.0, kept=True),
    }
    assert (agents["web-1"].counts, agents["web-1"].kept) == ([0, 0, 1, 1], 2)


def test_a_new_result_takes_its_place() -> None:
    """And goes on from when its status began."""
    agent = Agent("web-1")
    take_up({"web-1": agent}, {("web-1", "disk"): state(2)}, ())
    agent.took(Latest("disk", 2, "full", 100.0))
    assert agent.latest["disk"] == Latest("disk", 2, "full", 100.0, since=50.0)
    agent.took(Latest("disk", 0, "fine", 110.0))
    assert (agent.latest["disk"].since, agent.counts, agent.kept) == (110.0, [1, 0, 0, 0], 0)


def test_what_was_recovered_keeps_its_words() -> None:
    """The state says since when, if both say the same."""
    agent = Agent("web-1")
    agent.took(Latest("disk", 2, "full", 95.0))
    agent.took(Latest("load", 1, "busy", 95.0))
    take_up({"web-1": agent}, {("web-1", "disk"): state(2), ("web-1", "load"): state(0)}, ())
    assert agent.latest["disk"] == Latest("disk", 2, "full", 95.0, since=50.0)
    assert agent.latest["load"].since == 95.0


def test_nobodys_agents() -> None:
    """A revoked one shows nothing of before, a forgotten one is not there."""
    agents = {"web-1": Agent("web-1", revoked_at=1.0), "web-2": Agent("web-2")}
    for agent in agents.values():
        agent.took(Latest("disk", 2, "full", 95.0))
    take_up(agents, {("web-1", "disk"): state(2)}, ["web-2", "web-3"])
    assert list(agents) == ["web-1"]
    assert (agents["web-1"].latest, agents["web-1"].counts) == ({}, [0, 0, 0, 0])
