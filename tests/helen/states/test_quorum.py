"""Tests a check that several agents run: enough of them have to see it bad, once in each round, whoever is late or
gone.
"""

from __future__ import annotations

import json
import random
from itertools import permutations

import pytest
from timeline_copy import copy_of

from equus_protocol.results import CRITICAL, OK, UNKNOWN, WARNING
from groundwork.target_ids import kept_spool
from helen.states.agent_rules import AgentRules, rules_from_json, rules_to_json
from helen.states.events import Transition
from helen.states.fleet_states import CheckEvent, run
from helen.states.fleet_timeline import Timeline
from helen.states.inputs import Result
from helen.states.model import Rule, State
from helen.states.quorum import status_of
from helen.states.timeline_snapshot import header_of, restore

PING = ("switch-1", "ping")
RUNNERS = ("a", "b", "c")
RULE = Rule(2, 1, stale=150.0, passive=True, quorum=2, runners=RUNNERS)
EVERY = 60.0

STATUSES = [
    ([OK, OK, OK], 0, OK), ([OK, OK, CRITICAL], 0, OK), ([OK, CRITICAL, CRITICAL], 0, CRITICAL),
    ([OK, WARNING, CRITICAL], 0, WARNING), ([OK, UNKNOWN, CRITICAL], 0, UNKNOWN), ([UNKNOWN, UNKNOWN, OK], 0, UNKNOWN),
    ([OK, OK], 1, OK), ([CRITICAL, CRITICAL], 1, CRITICAL), ([OK, CRITICAL], 1, None), ([WARNING, CRITICAL], 1, None),
    ([OK], 2, None), ([], 3, None), ([CRITICAL], 0, None), ([OK, CRITICAL], 0, OK),
]  # fmt: skip


@pytest.mark.parametrize(("statuses", "missing", "status"), STATUSES)
def test_the_status_of_a_round(statuses: list[int], missing: int, status: int | None) -> None:
    """The status is the worst that two saw, or a worse one; there is none while missing agents decide."""
    assert {status_of(order, 2, missing) for order in permutations(statuses)} == {status}


class Fleet:
    """Holds a timeline with one target; `see` gives it a round of results, a tenth of a second apart."""

    def __init__(self, rule: Rule = RULE) -> None:
        self.timeline, self.at, self.numbers = Timeline(), 1_000.0, dict.fromkeys("abcdef", 0)
        run(self.timeline.set_rules("switch-1", AgentRules({}, {"ping": rule})))

    def see(self, *seen: tuple[str, int]) -> list[CheckEvent]:
        events = []
        for place, (agent, status) in enumerate(seen):
            self.numbers[agent] += 1
            at = self.at + place / 10
            given = Result(at, status, at - 0.05, kept_spool(agent, "s"), self.numbers[agent], summary=f"by {agent}")
            if not self.timeline.calm(*PING, given):
                events += run(self.timeline.result(*PING, given))
        self.at += EVERY
        return events

    @property
    def state(self) -> State:
        return self.timeline.states[PING]

    @property
    def shown(self) -> tuple[int, int]:
        return self.state.shown.status, self.state.shown.attempt


def all_see(status: int) -> list[tuple[str, int]]:
    return [(name, status) for name in RUNNERS]


def test_two_of_three_must_see_it() -> None:
    """One that sees it down is outvoted; two are enough, and attempts are counted in rounds, not in results."""
    fleet = Fleet()
    assert fleet.see(*all_see(OK)) and fleet.shown == (OK, 0)
    assert fleet.see(("a", CRITICAL), ("b", OK), ("c", OK)) == [] and fleet.shown == (OK, 0)
    fleet.see(("c", OK), ("a", CRITICAL), ("b", CRITICAL))
    assert fleet.shown == (CRITICAL, 1)
    events = fleet.see(*all_see(CRITICAL))
    assert fleet.shown == (CRITICAL, 0)
    (confirmed,) = [each.event for each in events if isinstance(each.event, Transition)]
    assert (confirmed.now.status, confirmed.summary) == (CRITICAL, "2 of 3 see it: by b")
    fleet.see(("a", OK), ("b", CRITICAL), ("c", OK))
    assert fleet.shown == (OK, 0)


def test_one_that_says_nothing_is_not_waited_for_long() -> None:
    """A round that a silent agent would decide ends with the next run of another; its last word counts until then."""
    fleet = Fleet()
    fleet.see(*all_see(OK))
    fleet.see(("a", CRITICAL), ("b", OK))
    assert (fleet.shown, fleet.state.seen and fleet.state.seen.at) == ((OK, 0), 1_000.1)
    fleet.see(("a", CRITICAL), ("b", OK))
    assert (fleet.shown, fleet.state.seen and fleet.state.seen.at) == ((OK, 0), 1_120.0)
    fleet.see(("a", CRITICAL), ("b", CRITICAL))
    assert fleet.shown == (CRITICAL, 1)


def test_one_that_never_reports() -> None:
    """The two others decide once each round, from the moment at which one of them runs again: they are enough."""
    fleet = Fleet()
    fleet.see(("a", OK), ("c", CRITICAL))
    assert fleet.state.seen is None
    fleet.see(("a", OK), ("c", CRITICAL))
    assert (fleet.shown, fleet.state.seen and fleet.state.seen.at) == ((OK, 0), 1_060.0)
    fleet.see(("a", CRITICAL))
    assert fleet.shown == (CRITICAL, 1)  # with what c said last
    for status, before, after in ((WARNING, (CRITICAL, 1), (WARNING, 0)), (OK, (WARNING, 0), (OK, 0))):
        fleet.see(("c", status))
        assert fleet.shown == before  # b could still say critical
        fleet.see(("a", CRITICAL))
        assert fleet.shown == after
    run(fleet.timeline.advance(fleet.at))
    assert fleet.state.shown.reason != "stale"


def test_a_handover_during_a_problem() -> None:
    """One dies while it is down: what it saw last counts, nobody is told of a recovery, and the next one takes part."""
    fleet = Fleet()
    for status in (OK, CRITICAL, CRITICAL):
        fleet.see(*all_see(status))
    assert fleet.shown == (CRITICAL, 0)
    assert fleet.see(("a", CRITICAL)) == []
    run(fleet.timeline.set_rules("switch-1", AgentRules({}, {"ping": Rule(2, 1, stale=150.0, passive=True, quorum=2,
                                                                           runners=("a", "d", "e"))})))  # fmt: skip
    strays = (("b", OK), ("c", OK))  # they have no lease any more
    assert fleet.see(("a", CRITICAL), *strays, ("d", CRITICAL), ("e", OK)) == []
    assert fleet.shown == (CRITICAL, 0)
    fleet.see(("a", CRITICAL), ("d", OK), ("e", OK))
    assert fleet.shown == (OK, 0)


def test_too_few_for_a_status() -> None:
    """One of two that are needed says nothing, however often: the check is stale in the end, and never ok by that."""
    fleet = Fleet(Rule(1, 1, stale=150.0, passive=True, quorum=2, runners=("a",)))
    for _ in range(5):
        fleet.see(("a", OK))
    run(fleet.timeline.advance(fleet.at))
    assert (fleet.state.shown.status, fleet.state.shown.reason) == (UNKNOWN, "stale")


def test_results_that_are_history() -> None:
    """A spool that waited, one that comes twice, and one by an agent without a lease change nothing."""
    fleet = Fleet()
    fleet.see(*all_see(OK))
    before = fleet.timeline.rounds[PING]
    for ended, spool, sequence in ((800.0, "a s", 9), (999.0, "a s", 0), (1_029.0, "x s", 9), (1_029.0, "s", 9)):
        assert run(fleet.timeline.result(*PING, Result(1_030.0, CRITICAL, ended, spool, sequence))) == []
    assert fleet.timeline.rounds[PING] is before and fleet.timeline.late_results == 4


@pytest.mark.parametrize("step", [-86_400.0, -30.0, 30.0, 86_400.0])
def test_a_clock_that_is_set(step: float) -> None:
    """A clock that is set in a round leaves what was seen as old as it was; no round is lost or counted twice."""
    fleet = Fleet()
    fleet.see(*all_see(OK))
    fleet.see(("a", CRITICAL), ("c", OK))
    run(fleet.timeline.change("clock", fleet.at + step - 50.0, None, None, {"stepped": step}))
    fleet.at += step - EVERY + 20.0
    fleet.see(("b", CRITICAL))
    assert fleet.shown == (CRITICAL, 1)
    fleet.see(*all_see(CRITICAL))
    assert fleet.shown == (CRITICAL, 0)


def test_saved_and_restored_in_any_place() -> None:
    """A timeline that is saved as JSON and restored anywhere has the same events; the rule is a record
    of the journal.
    """
    rules = AgentRules({}, {"ping": RULE})
    assert rules_from_json(json.loads(json.dumps(rules_to_json(rules)))) == rules
    chance = random.Random(7)
    through, stopped = Fleet(), Fleet()
    for _ in range(150):
        seen = [(name, chance.choice((OK, OK, CRITICAL))) for name in RUNNERS if chance.random() < 0.8]
        expected = through.see(*seen)
        copy = copy_of(stopped.timeline)
        states = [(*key, State.from_json(json.loads(json.dumps(each.to_json())))) for key, each in copy.states.items()]
        stopped.timeline = restore(json.loads(json.dumps(header_of(copy))), states)
        assert stopped.see(*seen) == expected
        assert stopped.timeline.rounds == through.timeline.rounds


def test_what_ends_with_a_quorum() -> None:
    """A rule without one judges each result as it comes, and nothing is kept of rounds; nor of a check that is gone."""
    fleet = Fleet()
    fleet.see(*all_see(OK))
    run(fleet.timeline.set_rules("switch-1", AgentRules({}, {"ping": Rule(1, 1, stale=150.0, passive=True)})))
    assert fleet.timeline.rounds == {}
    fleet.see(("a", CRITICAL))
    assert fleet.shown == (CRITICAL, 0)
    again = Fleet()
    again.see(*all_see(OK))
    run(again.timeline.set_rules("switch-1", AgentRules()))
    assert again.timeline.rounds == {}
