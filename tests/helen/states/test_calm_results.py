"""Tests calm results, taken at once: the same histories with `calm` and without come to the same in all."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest
from call_counts import calls_of
from fleet import CHECK, START, Fleet, Record
from hypothesis import given, settings
from hypothesis import strategies as st

from helen.states.agent_rules import AgentRules, rules_to_json
from helen.states.fleet_states import CheckEvent, run
from helen.states.fleet_timeline import Timeline
from helen.states.inputs import Result
from helen.states.model import LINK, Rule, State
from helen.states.timeline_snapshot import header_of

RULES = AgentRules({}, {
    CHECK: Rule(attempts=2, stale=900.0), "passive": Rule(passive=True, stale=600.0), "quick": Rule(attempts=1),
    "child": Rule(depends=(f"a/{CHECK}",)),
})  # fmt: skip


def everything(timeline: Timeline) -> dict[str, Any]:
    """Return all that a timeline knows, as values and not as words."""
    deadlines = timeline._deadlines
    return header_of(timeline) | {
        "states": dict(timeline.states), "tallies": timeline.tallies, "touched": timeline.touched,
        "changed": timeline.changed, "planned": deadlines.planned, "next": deadlines.next, "heap": deadlines._heap,
        "values": (timeline.clocks, timeline.newest), "tried": timeline.tried,
    }  # fmt: skip


def shown_in_rows(state: State | None) -> Any:
    """Return what the row of a check that is ok is made of, beside its labels."""
    return None if state is None else (state.shown, state.ack, state.holds, state.trial, state.flap.on)


class Both:
    """Holds one timeline that takes calm results at once, and one that steps each result."""

    def __init__(self) -> None:
        self.quick, self.whole = Timeline(), Timeline()
        self.calm = self.results = 0

    def take(self, record: Record) -> None:
        expected, said = run(record.apply(self.whole)), list[CheckEvent]()
        if record.kind == "result":
            self.results += 1
            key = record.agent, record.check_id
            before = self.quick.states.get(key)
            if self.quick.calm(record.agent, record.check_id, record.content):  # type: ignore[arg-type]
                self.calm += 1
                if not self.quick.states[key].shown.status:  # no row of a list follows such a result
                    assert shown_in_rows(before) == shown_in_rows(self.quick.states[key])
                    self.whole.changed.discard(key)
            else:
                said = run(record.apply(self.quick))
        else:
            said = run(record.apply(self.quick))
        assert said == expected
        assert everything(self.quick) == everything(self.whole)
        for timeline in (self.quick, self.whole):  # as a reader of what has changed does
            timeline.touched.clear()
            timeline.changed.clear()

    def end(self, at: float) -> None:
        assert run(self.quick.advance(at)) == run(self.whole.advance(at))
        assert everything(self.quick) == everything(self.whole)


def test_a_fleet_with_all_that_happens_to_one() -> None:
    """A fleet with faults, cuts, spools, wrong clocks, restarts and windows has mostly calm results, and the same
    states.
    """
    both, fleet = Both(), Fleet(20_261_129, 8, 3, windows=6, rollouts=4)
    for record in fleet.records():
        both.take(record)
    both.end(fleet.end)
    assert both.results > 1_000
    assert both.calm > 0.3 * both.results  # of a fleet with a fault each few hours, a result each half of one


results = st.builds(
    lambda *given: ("result", *given),
    st.sampled_from([CHECK, CHECK, "passive", "quick", "child", "new", LINK, "equus:gap"]),
    st.sampled_from([0, 0, 0, 0, 1, 2]),
    st.sampled_from([None, 0.0, 0.0, 0.0, -0.5, -1.99, -2.01, -100.0, -700.0, 3.0, 3.0]),  # ended, from its arrival
    st.sampled_from(["s", "s", "s", "t", "helen"]),
    st.sampled_from([1, 1, 1, 1, 0, -1, 5]),
    st.sampled_from([None, None, None, "timeout"]),
)
changes = st.sampled_from(
    [
        ("link", {"event": "up"}), ("link", {"event": "down"}), ("link", {"event": "forgotten"}),
        ("rule", rules_to_json(RULES)), ("rule", rules_to_json(AgentRules({}, {"quick": Rule()}))),
        ("expect", {"within": 60.0}), ("ack", {"action": "set", "owner": "kim"}), ("helen_start", {}),
        ("clock", {"stepped": 100.0}), ("clock", {"stepped": -100.0}), ("clock", {"slept": 30.0}),
        ("downtime", {"id": "w", "agents": ["a"], "begin": START, "until": START + 1e6}),
        ("downtime", {"action": "cancel", "id": "w"}),
        ("rollout", {"action": "open", "version": 1, "ring": 1, "agents": None, "without": [], "checks": [CHECK],
                     "detail": ""}),
        ("rollout", {"action": "passed", "version": 1, "why": "fine"}),
    ]
)  # fmt: skip
steps = st.tuples(st.sampled_from([0.0, 0.5, 10.0, 10.0, 70.0, 1_000.0, -1.0, -5.0]), results | results | changes)


def told(given: Iterable[tuple[float, tuple[Any, ...]]]) -> Iterable[Record]:
    now, sequences = START, dict[str, int]()
    for order, (passed, step) in enumerate(given):
        now += passed
        if step[0] == "result":
            _, check_id, status, ended, spool, more, reason = step
            sequences[spool] = max(1, sequences.get(spool, 0) + more)
            result = Result(now, status, None if ended is None else now + ended, spool, sequences[spool], reason, "c0")
            yield Record(now, order, "result", "a", check_id, result)
        else:
            kind, document = step
            if kind == "clock":
                now += document.get("stepped", 0.0)
            of_check = kind in ("ack", "expect")
            yield Record(now, order, kind, "a", CHECK if of_check else None, document)


BEGIN = [
    (0.0, ("rule", rules_to_json(RULES))), (0.0, ("link", {"event": "up"})),
    *((10.0, ("result", check, 0, 0.0, "s", 1, None)) for check in (CHECK, "quick", "child") for _ in range(3)),
    *((10.0, ("result", "passive", 0, ended, "helen", 1, None)) for ended in (None, 0.0)),
]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(steps, max_size=40))
def test_any_history(given: list[tuple[float, tuple[Any, ...]]]) -> None:
    """Two timelines agree at each edge of a result: clocks, spools, sequences, deadlines, checks that are none."""
    both = Both()
    for record in told([*BEGIN, *given]):
        both.take(record)
    both.end(START + 1e6)


@pytest.mark.parametrize(
    ("check", "spool", "ended"), [(CHECK, "s", 0.0), ("quick", "s", -1.0), ("passive", "helen", None)]
)
def test_calls_of_a_calm_result(check: str, spool: str, ended: float | None) -> None:
    """A calm result costs the calls of `calm` and of the values that it makes, and no other."""
    both = Both()
    for record in told(BEGIN):
        both.take(record)
    at = both.quick.clock + 10.0
    given = Result(at, 0, None if ended is None else at + ended, spool, 10**6, None, "c0")
    answers: list[bool] = []
    counted = calls_of(lambda: answers.append(both.quick.calm("a", check, given)))
    assert answers == [True]
    assert counted == {"calm": 1, "__init__": 2 + (spool == "s")}  # State, Seen; and Newest of the agent's own spool


def test_what_it_leaves_alone() -> None:
    """A calm result changes its own state, its agent's spool and the clock, and nothing else."""
    both, dice = Both(), random.Random(5)
    for record in told(BEGIN):
        both.take(record)
    before, states = everything(both.quick), dict(both.quick.states)
    for number in range(50):
        at = both.quick.clock + dice.uniform(0.0, 5.0)
        assert both.quick.calm("a", CHECK, Result(at, 0, at - 0.01, "s", 100 + number, None, "c1"))
    after = everything(both.quick)
    kept = before.keys() - {"clock", "newest", "states", "values", "touched", "changed"}
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert {key for key, state in both.quick.states.items() if state is not states[key]} == {("a", CHECK)}
    assert both.quick.touched == {"a"}
    assert not both.quick.changed
