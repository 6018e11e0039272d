"""Tests parts of the states at their edges: the order of deadlines, parents, the share of changes, values as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from helen.states import alert_decisions, flapping
from helen.states.agent_rules import AgentRules, rules_from_json, rules_to_json
from helen.states.alert_decisions import AS_SAID, close, decide, is_handled
from helen.states.deadlines import NEVER, Deadlines
from helen.states.dependencies import Dependencies, holds_of, ref_of
from helen.states.events import AckEnded, Again, Decision, Flapping, Transition, numbered
from helen.states.flapping import count_change, end_flapping, percent
from helen.states.inputs import Acknowledge, Expect, Released, Result, Retired, Tick, Unacknowledge
from helen.states.model import (
    AWAY,
    LINK,
    PENDING,
    Ack,
    Condition,
    Expected,
    Flap,
    Hold,
    Notice,
    Reason,
    Rule,
    Seen,
    State,
    Trial,
    items_of,
    plain,
)
from helen.states.rollout_trials import TrialScope

OK, WARNING, CRITICAL, UNKNOWN = range(4)


def state(status: int = OK, reason: str | None = None, attempt: int = 0, hard: int | None = None, **more: Any) -> State:
    shown = Condition(status, 5.0, reason, attempt)
    return State(shown, Condition(hard, 5.0) if hard is not None else shown, **more)


# ------------------------------------------------------------------------------------------------ deadlines


def test_deadlines_come_in_their_order() -> None:
    """Windows come before checks at equal times; superseded and forgotten deadlines are passed over."""
    due = Deadlines()
    assert (due.next, ("a", "c") in due) == (NEVER, False)
    due.plan(("a", "c"), 7.0)
    due.plan(("a", "d"), 5.0)
    due.plan_edge("w", 5.0)
    due.plan(("a", "c"), 6.0)
    due.plan(("a", "c"), 6.0)
    due.plan(("a", "c"), 9.0)  # later: it is looked at earlier, and planned anew
    due.plan(("a", "e"), 8.0)
    due.forget(("a", "e"))
    due.forget(("a", "x"))
    assert (due.next, ("a", "c") in due, ("a", "e") in due) == (5.0, True, False)
    found = []
    while due.next < NEVER:
        found.append(due.pop())
    assert found == [(5.0, "w"), (5.0, ("a", "d")), (6.0, ("a", "c")), (7.0, None), (8.0, None)]
    assert (due.next, ("a", "c") in due) == (NEVER, False)


def test_a_check_without_a_deadline_is_known() -> None:
    """A check that was planned without a deadline is known; a deadline of before stays."""
    due = Deadlines()
    due.plan(("a", "c"), None)
    due.plan(("a", "d"), 3.0)
    due.plan(("a", "d"), None)
    assert (("a", "c") in due, due.next, due.pop(), due.next) == (True, 3.0, (3.0, ("a", "d")), NEVER)
    due.plan(("a", "c"), 4.0)
    assert due.next == 4.0
    due.plan_edge("w", 2.0)
    assert (due.next, due.pop(), due.next) == (2.0, (2.0, "w"), 4.0)


# ------------------------------------------------------------------------------------------------ parents


def test_parents_and_children() -> None:
    """A parent is AGENT/CHECK or a CHECK of the same agent; a new rule replaces them all."""
    known = Dependencies()
    known.set_rule(("a", "c"), Rule(depends=("up", "b/up")))
    assert known.parents(("a", "c")) == (("a", "up"), ("b", "up"))
    assert (set(known.children(("b", "up"))), list(known.children(("a", "c"))), known.parents(("b", "up"))) == (
        {("a", "c")}, [], (),
    )  # fmt: skip
    known.set_rule(("a", "c"), Rule(depends=("b/up",)))
    assert (set(known.children(("a", "up"))), set(known.children(("b", "up")))) == (set(), {("a", "c")})
    known.set_rule(("a", "c"), Rule())
    assert (known.parents(("a", "c")), set(known.children(("b", "up"))), known._parents) == ((), set(), {})


def test_circles_are_left_out() -> None:
    """A circle of itself, of two, or of many is left out while it is one; a parent beside it counts. They are there
    once the circle is gone.
    """
    known = Dependencies()
    known.set_rule(("a", "1"), Rule(depends=("2", "x")))
    known.set_rule(("a", "2"), Rule(depends=("3",)))
    known.set_rule(("a", "3"), Rule(depends=("1", "y")))
    known.set_rule(("a", "4"), Rule(depends=("4",)))
    assert known.ignored == {("a", "3"): ("a/1",), ("a", "4"): ("a/4",)}
    assert (known.parents(("a", "3")), known.parents(("a", "4"))) == ((("a", "y"),), ())
    known.set_rule(("a", "2"), Rule())
    known.set_rule(("a", "3"), Rule(depends=("1", "y")))
    known.set_rule(("a", "4"), Rule())
    assert (known.ignored, known.parents(("a", "3"))) == ({}, (("a", "1"), ("a", "y")))


def test_two_ways_to_one_parent_are_no_circle() -> None:
    """A diamond is sound, however many meet in it."""
    known = Dependencies()
    for number in range(1, 12):
        known.set_rule(("a", str(number)), Rule(depends=(str(number + 1), f"{number}x")))
        known.set_rule(("a", f"{number}x"), Rule(depends=(str(number + 1),)))
    assert known.ignored == {}
    known.set_rule(("a", "12"), Rule(depends=("1",)))
    assert known.ignored == {("a", "12"): ("a/1",)}


@pytest.mark.parametrize(("given", "details"), [
    (state(CRITICAL, down=True), ["a/c is critical"]), (state(CRITICAL, down=False), []),
    (state(WARNING, attempt=1, hard=CRITICAL, down=True), ["a/c is critical"]),
    (state(UNKNOWN, down=True), ["a/c was critical, and nothing is known of it since"]),
    (state(UNKNOWN, AWAY, down=True),
     ["a/c was critical, and nothing is known of it since", "the agent of a/c is away"]),
    (state(UNKNOWN, AWAY), []),
])  # fmt: skip
def test_what_a_parent_holds_back(given: State, details: list[str]) -> None:
    """A parent holds nothing back unless it is down; with its agent away that one's link holds as well."""
    found = list(holds_of(("a", "c"), given))
    assert [hold.detail for hold in found] == details
    assert [hold.ref for hold in found] == ["a/c", f"a/{LINK}"][: len(details)]
    assert ref_of(("a", "c")) == "a/c"


# ------------------------------------------------------------------------------------------------ flapping


@given(st.integers(0, 2**20 - 1))
def test_the_share_of_changes(bits: int) -> None:
    """The newest weighs 1.2, the oldest 0.8, evenly between; all of them are a hundred per cent."""
    weights = [1.2 - 0.4 * age / 19 for age in range(20)]
    expected = 5.0 * sum(weight for age, weight in enumerate(weights) if bits >> age & 1)
    assert percent(bits) == pytest.approx(expected)


@pytest.mark.parametrize(("bits", "share"), [
    (0, 0.0), (1, 6.0), (1 << 19, 4.0), ((1 << 20) - 1, 100.0), (1 << 9, 5 * (1.2 - 3.6 / 19)),
    (1 << 10, 5 * (1.2 - 4.0 / 19)),
])  # fmt: skip
def test_weights(bits: int, share: float) -> None:
    """The weights are of the newest, the oldest, and the two in the middle."""
    assert percent(bits) == pytest.approx(share)
    assert (flapping.SIZE, flapping.MASK) == (20, 0xFFFFF)


def counted(bits: int, on: bool, changed: bool, rule: Rule) -> tuple[State, list[Any]]:
    events: list[Any] = []
    before = state(CRITICAL, flap=Flap(bits, on), notice=Notice(flapping_ended=True))
    return count_change(before, changed, Result(9.0, WARNING), rule, events), events


def test_only_the_last_twenty_results_count() -> None:
    """A change is the newest bit; one that was twenty results ago is forgotten."""
    rule = Rule(flap_start=99.0)
    old, full = 1 << 19, (1 << 20) - 1
    for bits, changed, found in ((0, True, 1), (1, False, 2), (1, True, 3), (old, True, 1), (full, False, full - 1)):
        assert counted(bits, False, changed, rule)[0].flap == Flap(found, False)


@pytest.mark.parametrize(("start", "begins"), [(12.0, False), (percent(0b11), True), (percent(0b11) - 0.1, True)])
def test_flapping_begins_at_its_limit(start: float, begins: bool) -> None:
    """Flapping begins exactly at its limit; the message about an earlier end is not owed any more."""
    after, events = counted(0b1, False, True, Rule(flap_start=start))
    assert after.flap == Flap(0b11, begins)
    assert after.notice.flapping_ended is not begins
    assert events == (
        [Flapping(0, 9.0, True, 11.9, WARNING, f"12 % of the last results were changes, {start:g} % is the limit")]
        if begins else []
    )  # fmt: skip


@pytest.mark.parametrize(("stop", "ends"), [(percent(0b10), False), (percent(0b10) + 0.1, True), (5.0, False)])
def test_flapping_ends_below_its_limit(stop: float, ends: bool) -> None:
    """Flapping ends below its limit and not at it; one message about it is owed then."""
    after, events = counted(0b1, True, False, Rule(flap_start=50.0, flap_stop=stop))
    assert after.flap == Flap(0b10, not ends)
    assert events == (
        [Flapping(0, 9.0, False, 5.9, WARNING, f"6 % of the last results were changes, below {stop:g} %")]
        if ends else []
    )  # fmt: skip


def test_flapping_that_goes_on_says_nothing() -> None:
    """Flapping that goes on tells neither that it began nor what ends it; without detection it ends at once."""
    after, events = counted(0b1111, True, True, Rule())
    assert (after.flap, events) == (Flap(0b11111, True), [])
    after, events = counted(0b1111, True, True, Rule(flap_start=None))
    assert (after.flap, after.notice.flapping_ended) == (Flap(0b1111, False), True)
    assert [(each.on, each.why) for each in events] == [(False, "flap detection is off")]
    calm = state()
    assert end_flapping(calm, 9.0, OK, "so", events) is calm and len(events) == 1


# ------------------------------------------------------------------------------------------------ decisions


SILENT = (Hold("silence", "w1", "silence w1 by anna"),)
DECISIONS = [  # (state, action and subject, why); None: nothing is said
    (state(), None), (state(CRITICAL), ("notify problem 2", AS_SAID)),
    (state(CRITICAL, notice=Notice(CRITICAL)), None), (state(CRITICAL, notice=Notice(WARNING)),
    ("notify change 2", AS_SAID)),
    (state(OK, notice=Notice(WARNING)), ("notify recovery 0", AS_SAID)),
    (state(OK, notice=Notice(WARNING), holds=SILENT), ("notify recovery 0", AS_SAID)),
    (state(CRITICAL, notice=Notice(CRITICAL, "it is over")), ("notify still 2", "it is over")),
    (state(CRITICAL, notice=Notice(OK, "it is over")), ("notify problem 2", "it is over")),
    (state(OK, notice=Notice(OK, "it is over")), None),
    (state(OK, notice=Notice(WARNING, "it is over")), ("notify recovery 0", AS_SAID)),
    (state(CRITICAL, holds=SILENT), ("hold problem 2", "silence w1 by anna")),
    (state(CRITICAL, holds=(Hold("silence", "w1"),)), ("hold problem 2", "silence w1")),
    (state(CRITICAL, holds=SILENT, notice=Notice(decided=("problem", "critical", "silence w1"))), None),
    (state(CRITICAL, attempt=2, hard=OK), ("hold problem 2", "attempt 2, not confirmed yet")),
    (state(OK, attempt=1, hard=CRITICAL, notice=Notice(CRITICAL)), None),
    (state(WARNING, attempt=1, hard=CRITICAL, notice=Notice(CRITICAL)), None),
    (state(UNKNOWN, PENDING), None),
    (state(UNKNOWN, PENDING, notice=Notice(CRITICAL)), ("hold change 3", "the first result is still to come")),
    (state(UNKNOWN, PENDING, notice=Notice(decided=("problem", "critical"))),
     ("hold problem 3", "the first result is still to come")),
    (state(CRITICAL, ack=Ack("anna")), ("hold problem 2", "anna has acknowledged it")),
    (state(CRITICAL, ack=Ack("anna"), holds=SILENT),
    ("hold problem 2", "anna has acknowledged it; silence w1 by anna")),
    (state(OK, flap=Flap(1, True)), ("notify flapping 0", AS_SAID)),
    (state(OK, flap=Flap(1, True), holds=SILENT), ("hold flapping 0", "silence w1 by anna")),
    (state(CRITICAL, flap=Flap(1, True), attempt=1, hard=OK), ("notify flapping 2", AS_SAID)),
    (state(CRITICAL, flap=Flap(1, True), notice=Notice(flapping_told=True)), None),
    (state(OK, notice=Notice(flapping_told=True, flapping_ended=True)), ("notify flapping-ended 0", AS_SAID)),
    (state(WARNING, notice=Notice(CRITICAL, flapping_ended=True)), ("notify flapping-ended 1", AS_SAID)),
    (state(OK, notice=Notice(flapping_ended=True)), None),
    (state(OK, notice=Notice(decided=("problem", "critical"))),
    ("drop problem 0", "it is ok again before anybody was told")),
    (state(CRITICAL, notice=Notice(CRITICAL, decided=("change", "warning"))),
     ("drop change 2", "people know that it is critical")),
    (state(OK, flap=Flap(1, True), notice=Notice(flapping_told=True, decided=("problem",))), None),
]  # fmt: skip


@pytest.mark.parametrize(("given", "said"), DECISIONS)
def test_what_is_decided(given: State, said: tuple[str, str] | None) -> None:
    """A decision is made from the state alone, with every reason."""
    notice, decision = decide(given, 7.0)
    if said is None:
        assert decision is None
        return
    assert decision is not None
    assert (f"{decision.action} {decision.what} {decision.status}", decision.why, decision.at) == (*said, 7.0)
    if decision.action == "hold":
        assert notice.decided[:2] == (decision.what, ("ok", "warning", "critical", "unknown")[decision.status])
        assert len(notice.decided) == 2 + len(decision.reasons)
        assert decide(evolve(given, notice=notice), 8.0) == (notice, None), "the same is held back without a word"
    elif decision.what == "flapping":
        assert notice == Notice(given.notice.told, None, flapping_told=True)
    elif decision.action == "notify":
        assert notice == Notice(decision.status)
    else:
        assert notice.decided == ()


def test_what_is_over_is_owed_no_more() -> None:
    """A message about what muted a check that is fine is owed no more, nor an end of flapping that nobody was told."""
    assert decide(state(OK, notice=Notice(OK, "over")), 7.0)[0] == Notice()
    assert decide(state(OK, notice=Notice(OK, flapping_ended=True)), 7.0)[0] == Notice()
    kept = Notice(CRITICAL, None, decided=())
    assert decide(state(CRITICAL, notice=kept), 7.0)[0] is kept


WELL, ILL = Condition(OK, 1.0), Condition(CRITICAL, 1.0)


@pytest.mark.parametrize(("given", "action"), [
    (state(CRITICAL, trial=Trial("4", "version 4 is tried", WELL)), "hold"),
    (state(CRITICAL, trial=Trial("4", "version 4 is tried", ILL)), "notify"),
    (state(CRITICAL, trial=Trial("4", "so", Condition(UNKNOWN, 1.0, PENDING))), "hold"),
    (state(OK, notice=Notice(CRITICAL), trial=Trial("4", "so", ILL)), "hold"),
    (state(OK, notice=Notice(CRITICAL)), "notify"),
    (state(CRITICAL, flap=Flap(1, True), trial=Trial("4", "so", ILL)), "hold"),
    (state(CRITICAL, notice=Notice(WARNING), trial=Trial("4", "so", ILL)), "notify"),
    (state(CRITICAL, notice=Notice(CRITICAL, "over"), trial=Trial("4", "so", ILL)), "notify"),
])  # fmt: skip
def test_what_a_trial_holds_back(given: State, action: str) -> None:
    """A trial holds back all that the version may have caused; a problem from before goes on as usual."""
    _, decision = decide(given, 7.0)
    assert decision is not None and decision.action == action
    if action == "hold":
        assert given.trial is not None
        assert decision.reasons[-1] == Reason("rollout", given.trial.detail, "4")


@pytest.mark.parametrize(("notice", "action"), [
    (Notice(), None), (Notice(CRITICAL), "notify"), (Notice(flapping_told=True), "notify"),
    (Notice(decided=("problem", "critical")), "drop"), (Notice(CRITICAL, decided=("x",)), "notify"),
])  # fmt: skip
def test_the_last_word(notice: Notice, action: str | None) -> None:
    """A last word goes to those that were told; one that was held back is dropped."""
    decision = close(state(WARNING, notice=notice), 7.0, "retired")
    assert decision == (None if action is None else Decision(0, 7.0, action, "closed", WARNING, "retired"))


@pytest.mark.parametrize(("given", "handled"), [
    (None, False), (state(CRITICAL), False), (state(CRITICAL, ack=Ack("anna")), True),
    (state(CRITICAL, holds=SILENT), True),
])  # fmt: skip
def test_what_somebody_deals_with(given: State | None, handled: bool) -> None:
    """A state is dealt with if it is acknowledged, or in a window."""
    assert is_handled(given) is handled
    assert alert_decisions.FLAPPING_ENDED == "flapping-ended"


# ------------------------------------------------------------------------------------------------ values


def test_the_usual_values() -> None:
    """A field that a caller leaves out has its usual value."""
    assert Rule() == Rule(3, 1, None, None, 30.0, 15.0, (), 60.0, False, UNKNOWN)
    assert (Condition(OK, 1.0), Flap(), Reason("k", "d")) == (
        Condition(OK, 1.0, None, 0),
        Flap(0, False),
        Reason("k", "d", ""),
    )
    assert (Notice(), Hold("k", "r")) == (Notice(OK, None, False, False, ()), Hold("k", "r", ""))
    assert (Ack("o"), Expected(1.0, 2.0)) == (Ack("o", "", None, False, UNKNOWN), Expected(1.0, 2.0, "", False))
    assert Trial("1", "d", WELL) == Trial("1", "d", WELL, False, False)
    assert State.pending(3.0) == State(
        Condition(UNKNOWN, 3.0, PENDING), Condition(UNKNOWN, 3.0, PENDING), None, Flap(), Notice(),
        (), None, None, 0, None,
        None, False, None,
    )  # fmt: skip
    assert Result(1.0, OK) == Result(1.0, OK, None, "helen", 0, None, None, "")
    assert (Tick(1.0, None), Acknowledge(1.0, Ack("o"))) == (Tick(1.0, None, 0.0), Acknowledge(1.0, Ack("o"), None))
    assert (Unacknowledge(1.0), Expect(1.0, 2.0)) == (Unacknowledge(1.0, "", None), Expect(1.0, 2.0, "", False))
    assert (Released(1.0, "k", "r").why, Retired(1.0).why) == ("", "it is not scheduled any more")
    assert Seen(1.0, None, "s", 2).code is None


def test_numbers_of_events() -> None:
    """Each event takes the next number, and a wish for a run takes none."""
    events = [AckEnded(0, 1.0, "o", "w"), Again(2.0), Flapping(0, 1.0, True, 1.0, OK)]
    after, found = numbered(state(number=7), list(events))
    assert (after.number, found) == (9, (evolve(events[0], number=7), events[1], evolve(events[2], number=8)))
    same = state(number=7)
    assert numbered(same, []) == (same, ()) and numbered(same, [Again(1.0)])[0] is same


def test_events_as_records() -> None:
    """An event's record has statuses as words, and its states before and after as objects."""
    assert Transition(3, 1.0, WELL, ILL, "so", "sum", "E", "s", 9).to_json() == {
        "number": 3, "at": 1.0, "was": WELL.to_json(), "now": ILL.to_json(), "why": "so", "summary": "sum", "code": "E",
        "spool": "s", "sequence": 9,
    }  # fmt: skip
    assert Transition(3, 1.0, WELL, ILL, "so").to_json()["sequence"] == 0
    assert Flapping(3, 1.0, True, 30.5, WARNING).to_json() == {
        "number": 3, "at": 1.0, "on": True, "percent": 30.5, "status": "warning", "why": "",
    }  # fmt: skip
    decision = Decision(3, 1.0, "hold", "problem", CRITICAL, "so", (Reason("silence", "d", "w"),))
    assert decision.to_json() == {
        "number": 3, "at": 1.0, "action": "hold", "what": "problem", "status": "critical", "why": "so",
        "reasons": [{"kind": "silence", "detail": "d", "ref": "w"}],
    }  # fmt: skip
    assert AckEnded(3, 1.0, "anna", "so").to_json() == {
        "action": "ack-ended", "number": 3, "at": 1.0, "owner": "anna", "why": "so",
    }  # fmt: skip
    assert [each.KIND for each in (Transition, Flapping, Decision, AckEnded, Again)] == [
        "transition", "flap", "decision", "decision", "",
    ]  # fmt: skip


FULL = State(
    Condition(WARNING, 1.0, "timeout", 2), Condition(OK, 0.5), Seen(1.0, None, "s", 4, "E"), Flap(5, True),
    Notice(CRITICAL, "owed", True, True, ("a", "b")),
    (Hold("silence", "w", "d"),), Ack("o", "c", 9.0, True, CRITICAL), 3.0, 8,
    Expected(1.0, 2.0, "w", True), Trial("4", "d", ILL, True, True), True, 6.0,
)  # fmt: skip


@pytest.mark.parametrize("given", [
    FULL, State.pending(1.0), state(CRITICAL, down=True), state(OK, trial=Trial("1", "d", WELL)),
    evolve(FULL, down=False),
])  # fmt: skip
def test_a_state_goes_through_json(given: State) -> None:
    """A state comes back from JSON with every field."""
    assert State.from_json(json.loads(json.dumps(given.to_json()))) == given


def test_what_is_not_there_is_not_written() -> None:
    """A trial, an acknowledgement's time, and being down are written only if they are there."""
    assert sorted(FULL.to_json().keys() - State.pending(1.0).to_json().keys()) == ["ack_at", "down", "trial"]
    assert "down" not in Trial("1", "d", WELL).to_json()
    assert FULL.to_json()["shown"] == {
        "status": "warning", "kind": "soft", "since": 1.0, "reason": "timeout", "attempt": 2,
    }  # fmt: skip
    assert FULL.to_json()["hard"]["kind"] == "hard"


@pytest.mark.parametrize(("shown", "hard", "down"), [(CRITICAL, CRITICAL, True), (WARNING, CRITICAL, True),
                                                   (CRITICAL, OK, True), (UNKNOWN, UNKNOWN, False)])  # fmt: skip
def test_a_state_of_an_older_version(shown: int, hard: int, down: bool) -> None:
    """A state of an older version lacks later fields; one that is critical is down."""
    document = state(shown, attempt=1, hard=hard).to_json()
    for name in ("expected", "trial", "down", "ack_at"):
        document.pop(name, None)
    found = State.from_json(document)
    assert (found.down, found.expected, found.trial, found.ack_at) == (down, None, None, None)


@pytest.mark.parametrize(("reason", "known"), [(None, True), ("timeout", True), (PENDING, False), ("stale", False),
                                             (AWAY, False), ("retired", False)])  # fmt: skip
def test_what_is_known(reason: str | None, known: bool) -> None:
    """A state is known if a result gave its status."""
    assert Condition(OK, 1.0, reason).known is known


@pytest.mark.parametrize(("hard", "well"), [(WELL, True), (ILL, False), (Condition(UNKNOWN, 1.0, PENDING), True),
                                          (Condition(UNKNOWN, 1.0, "stale"), False)])  # fmt: skip
def test_what_was_well_before_a_trial(hard: Condition, well: bool) -> None:
    """Nothing was known to be wrong."""
    assert Trial("1", "d", hard).was_well is well


def test_rules_go_through_json() -> None:
    """A rule writes only what is not as usual; an older record has no rule of the link."""
    rule = Rule(5, 2, 3.0, 4.0, None, 6.0, ("a/b",), 7.0, True, WARNING)
    assert rule.to_json() == {
        "attempts": 5, "recover": 2, "retry": 3.0, "stale": 4.0, "flap_start": None, "flap_stop": 6.0,
        "depends": ["a/b"], "away": 7.0, "passive": True, "missing": 1,
    }  # fmt: skip
    assert (Rule.from_json(rule.to_json()), Rule().to_json(), Rule.from_json({})) == (rule, {}, Rule())
    rules = AgentRules({"role": "web"}, {"c": rule, "d": Rule()}, Rule(away=9.0))
    assert rules_from_json(json.loads(json.dumps(rules_to_json(rules)))) == rules
    assert rules_from_json({"labels": {}, "checks": {}}) == AgentRules()
    assert (plain(None), plain(Flap(1, True)), items_of(Flap())) == (
        None,
        {"bits": 1, "on": True},
        [("bits", 0), ("on", False)],
    )


@pytest.mark.parametrize(("agents", "without", "covered"), [
    (None, (), ["a", "b"]), (None, ("a",), ["b"]), (("a",), (), ["a"]), (("a", "b"), ("b",), ["a"]), ((), (), []),
])  # fmt: skip
def test_what_a_version_is_tried_on(
    agents: tuple[str, ...] | None, without: tuple[str, ...], covered: list[str]
) -> None:
    """A version is tried on a ring of agents, or on all but some, and on its checks alone."""
    scope = TrialScope(
        4, 1, None if agents is None else frozenset(agents), frozenset(without), frozenset(("c", "d")), "so"
    )
    assert [agent for agent in "ab" if scope.has(agent)] == covered
    assert [agent for agent in "ab" if scope.covers(agent, "c")] == covered
    assert not any(scope.covers(agent, "x") for agent in "ab")
    assert (scope.ref, TrialScope.from_json(scope.to_json() | {"action": "open"})) == ("4", scope)
