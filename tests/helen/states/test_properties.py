"""Tests what holds for every history: batches, looks at the clock, restarts from JSON and late arrivals change
nothing.
"""

from __future__ import annotations

import json
import random

import pytest
from attrs import evolve
from fleet import CHECK, Fleet, Record, judge
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helen.states.flapping import MASK, SIZE, percent
from helen.states.fleet_states import CheckEvent, run
from helen.states.fleet_timeline import Timeline
from helen.states.inputs import (
    Acknowledge,
    AgentAway,
    AgentBack,
    Approved,
    Held,
    Input,
    Link,
    Released,
    Result,
    Retired,
    TakenBack,
    Tick,
    Tried,
    Unacknowledge,
)
from helen.states.machine import step
from helen.states.model import LINK, Ack, Hold, Rule, State
from helen.states.timeline_snapshot import header_of, restore

SEEDS = st.integers(0, 10_000)
FLEET = {"agents": 10, "days": 2, "every": 1_800.0, "windows": 6, "rollouts": 4}


def broken_up(fleet: Fleet, rng: random.Random) -> list[CheckEvent]:
    """Return what is said of the same records with looks at the clock, and with JSON between, wherever chance will."""
    timeline, said, records = Timeline(), [], list(fleet.records())
    for at, record in enumerate(records):
        if rng.random() < 0.02:
            header = json.loads(json.dumps(header_of(timeline)))
            states = [(*key, json.loads(json.dumps(state.to_json()))) for key, state in timeline.states.items()]
            rng.shuffle(states)
            timeline = restore(header, [(name, check, State.from_json(each)) for name, check, each in states])
        if rng.random() < 0.2 and record.kind != "helen_start":
            before = records[at - 1].received if at else record.received
            said += run(timeline.advance(rng.uniform(before, record.received)))
        said += run(record.apply(timeline))
    return said + run(timeline.advance(fleet.end))


@settings(max_examples=8, deadline=None)
@given(SEEDS)
def test_batches_ticks_and_restarts_change_nothing(seed: int) -> None:
    """Ticks are recomputed from deadlines; a state that was put away as JSON goes on as if nothing had been."""
    fleet = Fleet(seed, **FLEET)
    whole = list(judge(Timeline(), fleet.records(), fleet.end))
    assert broken_up(fleet, random.Random(seed)) == whole


@settings(max_examples=8, deadline=None)
@given(SEEDS)
@example(159)  # failed, as 290, when sequences were drawn at random: in a spool they follow the ends of runs
@example(290)
def test_late_results_leave_no_trace(seed: int) -> None:
    """Late results of long ago leave the timeline as it is without them, wherever they are drained.

    Each is a spool of its own: one whose later results ended before the earlier would be of a clock that was set back.
    """
    fleet, rng = Fleet(seed, **FLEET), random.Random(seed)
    records, names, late = list(fleet.records()), right(fleet), []
    for backlog in range(10):
        beside, name, age = rng.choice(records), rng.choice(names), rng.uniform(5, 10) * fleet.every
        for number in range(20):
            ended = beside.received - age + 100.0 * number
            result = Result(beside.received, rng.randrange(4), ended, f"old {backlog}", number)
            late.append(Record(beside.received, beside.order, "result", name, CHECK, result))
    mixed = sorted([*records, *late], key=lambda record: (record.received, record.order))
    whole = list(judge(Timeline(), records, fleet.end))
    assert list(judge(Timeline(), mixed, fleet.end)) == whole


def right(fleet: Fleet) -> list[str]:
    """Return agents whose clocks are right: with others it is not for the test to say what is late."""
    timeline = Timeline()
    for record in fleet.records():
        run(record.apply(timeline))
    return sorted(name for name, clock in timeline.clocks.items() if abs(clock.offset) < 1.0)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_the_newest_result_is_the_present_in_any_order(statuses: list[int], rng: random.Random) -> None:
    """The final status is that of the newest result, whichever came last, with rules that count one result."""
    rule = Rule(attempts=1, recover=1, stale=1_000.0, flap_start=None)
    results = [Result(0.0, status, 10.0 * at, "s", at) for at, status in enumerate(statuses)]
    rng.shuffle(results)
    state = State.pending(0.0)
    for at, result in enumerate(results):
        state, _ = step(state, evolve(result, at=200.0 + at), rule)
    assert state.shown.status == statuses[-1]
    assert state.seen is not None
    assert state.seen.sequence == len(statuses) - 1


@settings(max_examples=8, deadline=None)
@given(SEEDS)
def test_states_survive_json(seed: int) -> None:
    """Every state that a fleet comes to is the same after JSON."""
    fleet, timeline = Fleet(seed, **FLEET), Timeline()
    for at, record in enumerate(fleet.records()):
        run(record.apply(timeline))
        if at % 50 == 0:
            for state in timeline.states.values():
                assert State.from_json(json.loads(json.dumps(state.to_json()))) == state


@settings(max_examples=8, deadline=None)
@given(SEEDS)
def test_totals_are_those_of_the_states(seed: int) -> None:
    """Totals are those of the states at any time, after a restart from JSON too; links are not counted. (F20)"""
    fleet, timeline = Fleet(seed, **FLEET), Timeline()
    for at, record in enumerate(fleet.records()):
        run(record.apply(timeline))
        if at % 50 == 0:
            wanted: dict[str, list[int]] = {}
            for (agent, check), state in timeline.states.items():
                if check != LINK:
                    wanted.setdefault(agent, [0, 0, 0, 0])[state.shown.status] += 1
            restored = restore(header_of(timeline), [(*key, state) for key, state in timeline.states.items()])
            assert {agent: counts for agent, counts in timeline.tallies.items() if any(counts)} == wanted
            assert restored.tallies == wanted


def test_what_was_retired_stays_so_over_a_restart() -> None:
    """A retired check stays retired, after JSON too. (F30)"""
    timeline = Timeline()
    for checks in ({"c": {}, "d": {}}, {"d": {}}):
        run(timeline.change("rule", 1.0, "a", None, {"labels": {}, "checks": checks}))
    timeline = restore(
        json.loads(json.dumps(header_of(timeline))), [(*key, each) for key, each in timeline.states.items()]
    )
    run(timeline.result("a", "c", Result(2.0, 2, 1.0)))
    assert list(timeline.states) == [("a", "d")]


INPUTS: list[Input] = [
    Result(1.5, 2, 1.25, "s", 7, "timeout", "abc", "text"), Result(1.0, 0), Tick(2.0, None, 1.0), Tick(2.0, 1.5, 1.0),
    Acknowledge(3.0, Ack("eva", "mine", 9.0, True, 2)), Unacknowledge(3.0, "kim"),
    Held(4.0, Hold("downtime", "d", "downtime d")), Released(5.0, "downtime", "d", "downtime d has ended"),
    Tried(5.5, "7", "it is tried"), Tried(5.6, "9", "it is tried"), Approved(5.7, "7", "it has passed"),
    TakenBack(5.8, "9", "it was taken back"),
    Link(6.0, True), AgentAway(7.0, f"a/{LINK}"), AgentBack(8.0, f"a/{LINK}"), Retired(9.0, "gone"),
]  # fmt: skip


def test_a_rule_survives_json() -> None:
    """Tuples come back as tuples."""
    rule = Rule(2, 3, 5.0, 60.0, None, 12.0, ("a/b", "c/d"), 30.0)
    assert Rule.from_json(json.loads(json.dumps(rule.to_json()))) == rule


@settings(deadline=None)  # a busy machine is no fault of it
@given(st.lists(st.sampled_from(INPUTS), max_size=40))
def test_no_order_of_inputs_breaks_it(inputs: list[Input]) -> None:
    """A confirmed state is what is shown, and numbers rise by one, in any order of inputs."""
    state, number = State.pending(0.0), 0
    for at, value in enumerate(inputs):
        state, events = step(state, evolve(value, at=float(at)), Rule(retry=5.0, stale=100.0))
        for event in events:
            if hasattr(event, "number"):
                assert event.number == number
                number += 1
        assert state.number == number
        assert state.shown.attempt or state.shown == state.hard


@settings(deadline=None)  # a busy machine is no fault of it
@given(st.integers(0, MASK))
def test_flapping_is_a_weighted_share(bits: int) -> None:
    """The two tables say what the sum says."""
    weights = [1.2 - 0.4 * age / (SIZE - 1) for age in range(SIZE)]
    expected = sum(weight for age, weight in enumerate(weights) if bits >> age & 1) / SIZE * 100
    assert percent(bits) == pytest.approx(expected)
