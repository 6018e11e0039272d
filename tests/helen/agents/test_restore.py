"""Tests what the roster knows of checks from before a start, out of the states that were kept."""

from __future__ import annotations

import json

from equus_protocol.results import UNKNOWN
from helen.agents.restore import drop_late, drop_retired, restore_latest
from helen.agents.roster import Agent, Latest, Roster
from helen.journal.document import read_document
from helen.journal.values import Change, Entry, Origin, StoredResult
from helen.states.model import LINK, PENDING, RETIRED, STALE, Condition, Seen, State


def state(status: int, reason: str | None = None, heard: float | None = 90.0, since: float = 50.0) -> State:
    now = Condition(status, since, reason)
    return State(shown=now, hard=now, seen=None if heard is None else Seen(heard, None, "s", 1, "c0de"))


def test_states_become_the_latest_that_is_known() -> None:
    """States become results with their age and their code's hash, without words; retired and never seen ones are left
    out.
    """
    agents = {"web-1": Agent("web-1")}
    restore_latest(
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
    assert agents["web-1"].kept == 2


def test_a_new_result_takes_its_place() -> None:
    """A new result takes the place of the restored one, and goes on from when its status began."""
    agent = Agent("web-1")
    restore_latest({"web-1": agent}, {("web-1", "disk"): state(2)}, ())
    agent.take(Latest("disk", 2, "full", 100.0))
    assert agent.latest["disk"] == Latest("disk", 2, "full", 100.0, since=50.0)
    agent.take(Latest("disk", 0, "fine", 110.0))
    assert (agent.latest["disk"].since, agent.latest["disk"].status, agent.kept) == (110.0, 0, 0)


def test_what_was_recovered_keeps_its_words() -> None:
    """The state says since when, if both say the same."""
    agent = Agent("web-1")
    agent.take(Latest("disk", 2, "full", 95.0))
    agent.take(Latest("load", 1, "busy", 95.0))
    restore_latest({"web-1": agent}, {("web-1", "disk"): state(2), ("web-1", "load"): state(0)}, ())
    assert agent.latest["disk"] == Latest("disk", 2, "full", 95.0, since=50.0)
    assert agent.latest["load"].since == 95.0


def test_nobodys_agents() -> None:
    """A revoked agent shows nothing of before, and a forgotten one is not there."""
    agents = {"web-1": Agent("web-1", revoked_at=1.0), "web-2": Agent("web-2")}
    for agent in agents.values():
        agent.take(Latest("disk", 2, "full", 95.0))
    restore_latest(agents, {("web-1", "disk"): state(2)}, ["web-2", "web-3"])
    assert list(agents) == ["web-1"]
    assert (agents["web-1"].latest, agents["web-1"].kept) == ({}, 0)


def test_a_retired_check_and_its_late_results_are_dropped() -> None:
    """The transition that retires it, and results that come after that; other checks stay. (F30)"""
    roster = Roster(lambda agent: None, lambda agent, link: None)
    agent = roster.know("web-1")
    for name in ("disk", "load"):
        agent.take(Latest(name, 2, "full", 95.0))
    for reason, kept in ((PENDING, ["disk", "load"]), (RETIRED, ["load"])):
        said = {"now": Condition(UNKNOWN, 99.0, reason).to_json()}
        drop_retired(roster, Change("transition", 99.0, "web-1", "disk", json.dumps(said).encode()))
        assert sorted(agent.latest) == kept
    agent.take(Latest("disk", 2, "full", 100.0))
    for name in ("web-1", "gone"):
        entry = Entry(name, "disk", None, "s", 9, Origin.SCHEDULED, 100.0, b"{}")
        drop_late(roster, {("web-1", "disk"), ("gone", "disk")}, [StoredResult(7, entry, read_document("disk", b"{}"))])
    assert (list(agent.latest), list(roster.agents)) == (["load"], ["web-1"])
