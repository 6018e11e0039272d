"""Tests the state machine at its edges: which result is history, when deadlines come, and what ends an ack."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from helen.states import condition_changes, machine, silence
from helen.states.condition_changes import ACK_STEP, is_down
from helen.states.events import AckEnded, Again, Decision, Transition
from helen.states.inputs import (
    Acknowledge,
    AgentAway,
    AgentBack,
    Expect,
    Link,
    Released,
    Result,
    Retired,
    Tick,
    Unacknowledge,
)
from helen.states.machine import _needed, is_history, step
from helen.states.model import (
    AWAITING,
    AWAY,
    DEPENDENCY,
    PENDING,
    RETIRED,
    STALE,
    Ack,
    Condition,
    Expected,
    Flap,
    Hold,
    Notice,
    Rule,
    Seen,
    State,
)
from helen.states.silence import deadline, stale_at

OK, WARNING, CRITICAL, UNKNOWN = range(4)
NOW = 10_000.0
RULE = Rule(attempts=1, stale=100.0, away=60.0)


def state(status: int = OK, since: float = 9_000.0, reason: str | None = None, **more: Any) -> State:
    """Return a confirmed state, with a result of five seconds ago."""
    condition = Condition(status, since, reason)
    usual: dict[str, Any] = {"seen": Seen(NOW - 5.0, NOW - 6.0, "s", 7)}
    return State(condition, condition, **usual | more)


def result(status: int, at: float = NOW, sequence: int = 8, **more: Any) -> Result:
    return Result(at, status, None, "s", sequence, **more)


# ------------------------------------------------------------------------------------------------ history


SEEN = Seen(NOW - 5.0, NOW - 6.0, "s", 7)
HISTORY = [  # (stale, seen, ended seconds ago, spool, sequence, is history)
    (100.0, None, None, "s", 1, False), (100.0, None, 99.9, "s", 1, False), (100.0, None, 100.0, "s", 1, True),
    (100.0, None, 100.1, "s", 1, True), (None, None, 599.0, "s", 1, False), (None, None, 600.0, "s", 1, True),
    (None, None, -50.0, "s", 1, False),
    (100.0, SEEN, 50.0, "s", 8, False), (100.0, SEEN, 50.0, "s", 7, False), (100.0, SEEN, 1.0, "s", 6, True),
    (100.0, SEEN, None, "s", 6, True), (100.0, SEEN, None, "s", 8, False),
    (100.0, SEEN, 6.0, "t", 1, False), (100.0, SEEN, 6.5, "t", 9, True), (100.0, SEEN, 5.5, "t", 1, False),
    (100.0, SEEN, None, "t", 1, False), (100.0, evolve(SEEN, ended=None), 50.0, "t", 1, False),
]  # fmt: skip


@pytest.mark.parametrize(("stale", "seen", "ago", "spool", "sequence", "is_late"), HISTORY)
def test_history(
    stale: float | None, seen: Seen | None, ago: float | None, spool: str, sequence: int, is_late: bool
) -> None:
    """A result is history if it is too late for its check's deadline or ten minutes, or behind another of its spool."""
    given = Result(NOW, OK, None if ago is None else NOW - ago, spool, sequence)
    assert is_history(seen, given, Rule(stale=stale)) is is_late
    before = state(seen=seen) if seen is not None else State.pending(NOW - 50.0)
    after, events = step(before, given, Rule(stale=stale))
    assert (after is before and events == ()) is is_late


# ------------------------------------------------------------------------------------------------ deadlines


STALE_AT = [  # (seen at, reason, since, listening, started, stale at)
    (9_950.0, None, 9_000.0, 9_000.0, 8_000.0, 10_050.0),  # the result
    (9_950.0, None, 9_000.0, 9_970.0, 8_000.0, 10_070.0),  # Helen listens since
    (9_950.0, None, 9_000.0, 9_970.0, 9_980.0, 10_080.0),  # Helen began since
    (9_000.0, None, 9_000.0, 9_980.0, 8_000.0, 9_300.0),  # three times as long, whoever comes and goes
    (9_000.0, None, 9_000.0, None, 8_000.0, 9_300.0), (9_000.0, None, 9_000.0, None, 9_990.0, 10_090.0),
    (9_950.0, None, 9_000.0, None, 8_000.0, 10_250.0),
    (None, PENDING, 9_900.0, 9_000.0, 8_000.0, 10_000.0), (9_500.0, PENDING, 9_900.0, 9_000.0, 8_000.0, 10_000.0),
    (9_950.0, PENDING, 9_900.0, 9_000.0, 8_000.0, 10_050.0), (None, None, 9_800.0, 9_000.0, 8_000.0, 9_900.0),
    (9_950.0, STALE, 9_000.0, 9_000.0, 8_000.0, None), (9_950.0, AWAY, 9_000.0, 9_000.0, 8_000.0, None),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "reason", "since", "listening", "started", "due"), STALE_AT)
def test_when_a_check_is_stale(
    seen: float | None, reason: str | None, since: float, listening: float | None, started: float, due: float | None
) -> None:
    """A check is stale after a whole deadline in which its agent could have said something, at the
    latest after three.
    """
    given = state(UNKNOWN, since, reason, seen=None if seen is None else Seen(seen, None, "s", 1))
    assert stale_at(given, RULE, listening, started) == due
    assert deadline(given, RULE, listening, started) == due
    assert deadline(given, evolve(RULE, stale=None), listening, started) is None


EXPECTED = [  # (expected at, within, begun, started, rule's stale, due)
    (9_990.0, 30.0, False, 8_000.0, 100.0, 10_020.0), (9_990.0, 300.0, False, 8_000.0, 100.0, 10_290.0),
    (9_990.0, 30.0, True, 8_000.0, 100.0, 10_020.0), (9_990.0, 300.0, True, 8_000.0, 100.0, 10_095.0),
    (9_990.0, 300.0, True, 8_000.0, None, 10_290.0), (9_990.0, 30.0, False, 9_995.0, 100.0, 10_025.0),
]  # fmt: skip


@pytest.mark.parametrize(("at", "within", "begun", "started", "stale", "due"), EXPECTED)
def test_when_an_expected_result_is_late(
    at: float, within: float, begun: bool, started: float, stale: float | None, due: float
) -> None:
    """An expected result's own deadline counts instead of the rule's; the sooner of both counts for a run that has
    begun.
    """
    given = state(expected=Expected(at, within, "a backup", begun))
    assert deadline(given, evolve(RULE, stale=stale), 8_000.0, started) == due


def test_the_next_deadline_is_the_first_of_three() -> None:
    """The three are of the silence, of an acknowledgement, and of a link that is away."""
    ack, lost = Ack("anna", until=10_010.0), 9_945.0
    assert deadline(state(CRITICAL, ack=ack, lost=lost), RULE, 9_000.0, 0.0) == 10_005.0
    assert deadline(state(CRITICAL, ack=ack), RULE, 9_000.0, 0.0) == 10_010.0
    assert deadline(state(CRITICAL, ack=evolve(ack, until=None)), RULE, 9_000.0, 0.0) == 10_095.0
    assert deadline(state(lost=lost), evolve(RULE, stale=None), 9_000.0, 9_950.0) == 10_010.0
    assert deadline(state(CRITICAL, reason=AWAY, lost=lost), RULE, 9_000.0, 0.0) is None


@pytest.mark.parametrize(("at", "fires"), [(10_009.9, False), (10_010.0, True), (10_011.0, True)])
@pytest.mark.parametrize("kind", ["stale", "ack", "away"])
def test_a_tick_fires_at_its_time(kind: str, at: float, fires: bool) -> None:
    """A tick fires at its time and not before."""
    given = {
        "stale": state(seen=Seen(9_910.0, None, "s", 1)),
        "ack": state(CRITICAL, notice=Notice(CRITICAL), ack=Ack("anna", until=10_010.0)),
        "away": state(lost=9_950.0, seen=None),
    }[kind]  # fmt: skip
    rule = evolve(RULE, stale=100.0 if kind == "stale" else None)
    after, events = step(given, Tick(at, 9_000.0, 0.0), rule)
    assert bool(events) is fires
    if not fires:
        assert after is given
    elif kind == "stale":
        assert (after.shown, after.hard) == (Condition(UNKNOWN, at, STALE), Condition(UNKNOWN, at, STALE))
    elif kind == "ack":
        ended = AckEnded(0, at, "anna", "its time is over")
        assert (after.ack, events[0], after.ack_at) == (None, ended, at)
    else:
        assert after.shown == Condition(CRITICAL, 9_950.0, AWAY)


SILENCES = [  # (seen at, expected, the sentence of the transition)
    (9_700.0, None, "no result for 5 min; 100 s are allowed"), (None, None, "no result yet; 100 s are allowed"),
    (9_700.0, Expected(9_800.0, 200.0, "nightly"), "no result for 5 min; it was expected within 3 min 20 s (nightly)"),
    (9_700.0, Expected(9_800.0, 150.0), "no result for 5 min; it was expected within 150 s"),
    (9_700.0, Expected(9_800.0, 300.0, "x", True), "no result for 5 min; 100 s are allowed"),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "expected", "why"), SILENCES)
def test_a_silence_in_words(seen: float | None, expected: Expected | None, why: str) -> None:
    """The sentence tells since when there is silence, how long it may be, and by whose word."""
    given = state(since=9_700.0, seen=None if seen is None else Seen(seen, None, "s", 1), expected=expected)
    after, events = step(given, Tick(NOW, 9_000.0, 0.0), evolve(RULE, missing=WARNING))
    assert isinstance(events[0], Transition) and events[0].why == why
    assert (after.shown.status, after.shown.reason, after.expected) == (WARNING, STALE, None)


@pytest.mark.parametrize(("known", "begun", "at", "within", "found"), [
    (None, True, NOW, 50.0, (NOW, 50.0, True)), (None, False, NOW, 50.0, (NOW, 50.0, False)),
    ((9_990.0, 30.0, False), False, NOW, 900.0, (NOW, 900.0, False)),
    ((9_990.0, 30.0, False), True, NOW, 20.0, (9_990.0, 30.0, False)),  # as late as the one that is known
    ((9_990.0, 30.0, False), True, NOW, 19.0, (NOW, 19.0, False)),
    ((9_990.0, 30.0, True), True, NOW, 19.0, (NOW, 19.0, True)),
    ((9_990.0, 30.0, True), True, NOW, 60.0, (9_990.0, 30.0, True)),
])  # fmt: skip
def test_what_is_expected(
    known: tuple[float, float, bool] | None, begun: bool, at: float, within: float, found: tuple[float, float, bool]
) -> None:
    """A run that begins brings a deadline forward, and never moves it away."""
    held = None if known is None else Expected(known[0], known[1], "so", known[2])
    after, events = step(state(expected=held), Expect(at, within, "so", begun), RULE)
    assert (after.expected, events) == (Expected(found[0], found[1], "so", found[2]), ())


# ------------------------------------------------------------------------------------------------ results


@pytest.mark.parametrize(("hard", "is_ok", "needed"), [
    (Condition(UNKNOWN, 0.0, PENDING), True, 1), (Condition(UNKNOWN, 0.0, PENDING), False, 4),
    (Condition(OK, 0.0), True, 2), (Condition(OK, 0.0), False, 4), (Condition(CRITICAL, 0.0), True, 2),
    (Condition(CRITICAL, 0.0), False, 1), (Condition(UNKNOWN, 0.0, STALE), False, 4),
    (Condition(UNKNOWN, 0.0), False, 1),
])  # fmt: skip
def test_how_many_results_confirm(hard: Condition, is_ok: bool, needed: int) -> None:
    """One result confirms ok from nothing known and one bad status from another; else the rule says how many do."""
    assert _needed(hard, is_ok, Rule(attempts=4, recover=2)) == needed


def run(statuses: list[int], rule: Rule, before: State | None = None) -> list[tuple[int, int, int, str]]:
    """Return the shown status, its attempt, the hard status and a transition's reason after each result."""
    found, now = [], before or state()
    for number, status in enumerate(statuses):
        now, events = step(now, result(status, NOW + number, 8 + number), rule)
        why = [each.why for each in events if isinstance(each, Transition)]
        found.append((now.shown.status, now.shown.attempt, now.hard.status, why[0] if why else ""))
    return found


def test_attempts_in_words() -> None:
    """A status is soft until enough results in a row are as bad; a change between two bad ones counts on."""
    assert run([CRITICAL, WARNING, CRITICAL, OK, CRITICAL, OK], Rule(attempts=3, recover=1)) == [
        (2, 1, 0, "critical, attempt 1 of 3"), (1, 2, 0, "warning, attempt 2 of 3"),
        (2, 0, 2, "critical, confirmed by 3 of 3 results"), (0, 0, 0, "the result says ok"),
        (2, 1, 0, "critical, attempt 1 of 3"), (0, 0, 0, "as before; the change was not confirmed"),
    ]  # fmt: skip
    assert run([CRITICAL, OK, OK, CRITICAL], Rule(attempts=1, recover=3)) == [
        (2, 0, 2, "the result says critical"), (0, 1, 2, "ok, attempt 1 of 3"), (0, 2, 2, ""),
        (2, 0, 2, "as before; the change was not confirmed"),
    ]  # fmt: skip
    timed_out = step(state(CRITICAL), result(CRITICAL, reason="timeout"), RULE)[1]
    assert isinstance(timed_out[0], Transition) and timed_out[0].why == "the reason is timeout"
    gone = step(state(CRITICAL, reason="timeout"), result(CRITICAL), RULE)[1]
    assert isinstance(gone[0], Transition) and gone[0].why == "the reason is gone"


def test_since_when() -> None:
    """A soft status counts since its first result, a hard one since it was confirmed or, if the same,
    since it began.
    """
    now, _ = step(state(), result(CRITICAL, NOW, 8), Rule(attempts=3))
    now, _ = step(now, result(WARNING, NOW + 7.0, 9), Rule(attempts=3))
    assert now.shown == Condition(WARNING, NOW, None, 2)
    now, _ = step(now, result(CRITICAL, NOW + 9.0, 10), Rule(attempts=3))
    assert now.shown == now.hard == Condition(CRITICAL, NOW, None)
    now, _ = step(now, result(CRITICAL, NOW + 11.0, 11), Rule(attempts=3))
    assert now.shown == Condition(CRITICAL, NOW, None)


@pytest.mark.parametrize(("retry", "attempts", "again"), [(5.0, 2, [NOW + 5.0]), (None, 2, []), (5.0, 1, [])])
def test_a_soft_result_asks_for_the_next_run(retry: float | None, attempts: int, again: list[float]) -> None:
    """A soft result asks for the next run if its rule says when."""
    _, events = step(state(), result(CRITICAL), Rule(attempts=attempts, retry=retry))
    assert [each.at for each in events if isinstance(each, Again)] == again


def test_a_calm_result_changes_what_was_seen_alone() -> None:
    """A calm result ends what was expected, and keeps everything else as it is."""
    before = state(
        notice=Notice(OK, flapping_told=True), holds=(Hold("silence", "w"),), lost=5.0, number=9, ack_at=3.0, down=True,
        expected=Expected(NOW, 5.0), ack=Ack("anna"),
    )  # fmt: skip
    after, events = step(before, result(OK, code="E1"), RULE)
    assert events == ()
    assert after == evolve(before, seen=Seen(NOW, None, "s", 8, "E1"), expected=None)
    assert (after.shown is before.shown, after.hard is before.hard) == (True, True)


def test_a_result_ends_the_wait_for_a_parent() -> None:
    """Other holds stay."""
    holds = (Hold(AWAITING, "b/c"), Hold("silence", "w"))
    after, _ = step(state(holds=holds), result(OK), RULE)
    assert after.holds == (Hold("silence", "w"),)


def test_a_transition_carries_the_result() -> None:
    """A transition has the summary in 200 characters, the code and the place in the spool; one of a
    deadline has none.
    """
    _, events = step(state(), result(CRITICAL, summary="x" * 300, code="E9"), RULE)
    first = events[0]
    assert isinstance(first, Transition)
    assert (first.summary, first.code, first.spool, first.sequence) == ("x" * 200, "E9", "s", 8)
    _, events = step(state(), Tick(NOW + 900.0, 9_000.0), RULE)
    first = events[0]
    assert isinstance(first, Transition)
    assert (first.summary, first.code, first.spool, first.sequence) == ("", None, "", 0)


# ------------------------------------------------------------------------------------------------ acknowledgements


def acked(**more: Any) -> State:
    return state(CRITICAL, notice=Notice(CRITICAL), ack=Ack("anna", status=CRITICAL), ack_at=9_500.0, **more)


@pytest.mark.parametrize(("status", "sticky", "kept"), [
    (CRITICAL, False, True), (WARNING, False, False), (WARNING, True, True), (UNKNOWN, True, True), (OK, True, False),
    (OK, False, False),
])  # fmt: skip
def test_what_ends_an_acknowledgement(status: int, sticky: bool, kept: bool) -> None:
    """Another status ends an acknowledgement unless it is sticky; a recovery ends it in any case.
    `ack_at` says when.
    """
    before = evolve(acked(), ack=Ack("anna", sticky=sticky, status=CRITICAL))
    after, events = step(before, result(status), RULE)
    assert (after.ack is not None) is kept
    ended = [each for each in events if isinstance(each, AckEnded)]
    words = ("ok", "warning", "critical", "unknown")
    assert [(each.owner, each.why) for each in ended] == ([] if kept else [("anna", f"it is {words[status]} now")])
    assert after.ack_at == (9_500.0 if kept else NOW)


def test_neither_a_soft_status_nor_silence_ends_it() -> None:
    """Nothing is known for sure."""
    soft, _ = step(acked(), result(OK), Rule(attempts=1, recover=2))
    silent, _ = step(acked(seen=Seen(9_000.0, None, "s", 1)), Tick(NOW, 8_000.0), RULE)
    assert soft.ack is not None and silent.ack is not None and silent.shown.reason == STALE


def test_a_recovery_without_one_ends_all_from_before() -> None:
    """An acknowledgement that another Helen made before the recovery counts no more."""
    after, _ = step(state(CRITICAL, notice=Notice(CRITICAL), ack_at=9_500.0), result(OK), RULE)
    assert after.ack_at == NOW
    late, _ = step(state(CRITICAL, notice=Notice(CRITICAL), ack_at=NOW + 50.0), result(OK), RULE)
    assert late.ack_at == NOW + 50.0 + ACK_STEP
    worse, _ = step(state(WARNING, notice=Notice(WARNING), ack_at=9_500.0), result(CRITICAL), RULE)
    assert worse.ack_at == 9_500.0


@pytest.mark.parametrize(("given", "taken"), [
    (state(), False), (state(UNKNOWN, reason=PENDING), False), (state(CRITICAL), True),
    (state(UNKNOWN, reason=STALE), True),
])  # fmt: skip
def test_what_can_be_acknowledged(given: State, taken: bool) -> None:
    """A broken check can be; not a fine one, nor one of which nothing is known yet."""
    after, _ = step(given, Acknowledge(NOW, Ack("anna")), RULE)
    assert (after.ack is not None) is taken
    if taken:
        assert (after.ack, after.ack_at) == (Ack("anna", status=given.hard.status), NOW)


def test_a_soft_problem_is_acknowledged_with_its_status() -> None:
    """The shown status is acknowledged as long as the confirmed one is ok."""
    soft, _ = step(state(), result(WARNING), Rule(attempts=3))
    after, _ = step(soft, Acknowledge(NOW, Ack("anna")), Rule(attempts=3))
    assert after.ack == Ack("anna", status=WARNING)
    back, _ = step(state(CRITICAL, notice=Notice(CRITICAL)), result(OK), Rule(recover=3))
    after, _ = step(back, Acknowledge(NOW, Ack("anna")), Rule(recover=3))
    assert after.ack is None, "what is shown is ok"


@pytest.mark.parametrize(
    ("ack_at", "at"), [(None, NOW), (9_999.0, NOW), (NOW, NOW + ACK_STEP), (NOW + 5.0, NOW + 5.0 + ACK_STEP)]
)
def test_each_change_is_later_than_the_one_before(ack_at: float | None, at: float) -> None:
    """Each change is a millisecond later at least, as Helens of a network tell them apart by it."""
    after, _ = step(state(CRITICAL, ack_at=ack_at), Acknowledge(NOW, Ack("anna")), RULE)
    assert (after.ack_at, ACK_STEP) == (at, 0.001)


CARRIED = [  # (state, ack, since, taken)
    (state(CRITICAL, ack_at=9_500.0), Ack("bea", status=CRITICAL), 9_500.0, True),
    (state(CRITICAL, ack_at=9_500.5), Ack("bea", status=CRITICAL), 9_500.0, False),
    (state(CRITICAL), Ack("bea", status=CRITICAL), 9_500.0, True),
    (state(CRITICAL), Ack("bea", status=WARNING), 9_500.0, False),
    (state(CRITICAL), Ack("bea", status=WARNING, sticky=True), 9_500.0, True),
    (state(OK), Ack("bea", status=OK, sticky=True), 9_500.0, False),
    (state(UNKNOWN, reason=PENDING), Ack("bea", status=WARNING), 9_500.0, True),
]  # fmt: skip


@pytest.mark.parametrize(("given", "ack", "since", "taken"), CARRIED)
def test_what_another_helen_has_acknowledged(given: State, ack: Ack, since: float, taken: bool) -> None:
    """Another Helen's acknowledgement counts if nothing newer happened here, and the status is as there or unknown."""
    after, _ = step(given, Acknowledge(NOW, ack, since), RULE)
    assert (after.ack is not None) is taken
    if taken:
        status = ack.status if given.hard.reason == PENDING else given.hard.status
        assert (after.ack, after.ack_at) == (evolve(ack, status=status), since)
    else:
        assert after is given


@pytest.mark.parametrize(("carried", "author", "taken", "why", "ack_at"), [
    (None, "bea", True, "taken back by bea", NOW), (None, "", True, "taken back", NOW),
    (9_500.0, "", True, "taken back", 9_500.0), (9_499.0, "bea", False, "", 9_500.0),
    (9_700.0, "bea", True, "taken back by bea", 9_700.0),
])  # fmt: skip
def test_an_acknowledgement_that_is_taken_back(
    carried: float | None, author: str, taken: bool, why: str, ack_at: float
) -> None:
    """An acknowledgement is taken back here or at another Helen, unless something newer happened; then
    people are told.
    """
    after, events = step(acked(), Unacknowledge(NOW, author, carried), RULE)
    assert ((after.ack is None), after.ack_at) == (taken, ack_at)
    if taken:
        ended, told = events
        assert ended == AckEnded(0, NOW, "anna", why)
        assert isinstance(told, Decision)
        assert (told.action, told.what, told.why) == (
            "notify", "still", f"the acknowledgement by anna has ended: {why}",
        )  # fmt: skip
    assert step(state(CRITICAL), Unacknowledge(NOW), RULE) == (state(CRITICAL), ())


# ------------------------------------------------------------------------------------------------ links, parents, ends


def test_a_link_that_goes_and_comes() -> None:
    """The link is lost at once, and no event comes before its time is over."""
    lost, events = step(state(seen=None), Link(NOW, False), RULE)
    assert (lost.lost, events) == (NOW, ())
    back, events = step(lost, Link(NOW + 5.0, True), RULE)
    assert (back.lost, events) == (None, ())
    gone = state(CRITICAL, reason=AWAY, seen=None, lost=NOW, notice=Notice(CRITICAL))
    back, events = step(gone, Link(NOW + 5.0, True), RULE)
    assert (back.shown, back.lost) == (Condition(OK, NOW + 5.0), None)
    assert isinstance(events[0], Transition) and events[0].why == "the agent is connected"


def test_the_checks_of_an_agent_that_is_away() -> None:
    """Nothing is known of them; a hold says why, and goes when the agent is back."""
    away, _ = step(state(CRITICAL, flap=Flap(5, True)), AgentAway(NOW, "a/link"), RULE)
    assert (away.shown, away.flap) == (Condition(UNKNOWN, NOW, AWAY), Flap())
    assert away.holds == (Hold(DEPENDENCY, "a/link", "its agent is away"),)
    back, events = step(away, AgentBack(NOW + 5.0, "a/link"), RULE)
    assert (back.shown, back.holds) == (Condition(UNKNOWN, NOW + 5.0, PENDING), ())
    assert isinstance(events[0], Transition) and events[0].why == "its agent is back"
    other, events = step(state(CRITICAL, notice=Notice(CRITICAL)), AgentBack(NOW, "a/link"), RULE)
    assert (other.shown.status, events) == (CRITICAL, ())


@pytest.mark.parametrize(("kind", "status", "reason", "holds", "owed"), [
    (DEPENDENCY, CRITICAL, None, [(AWAITING, "p")], None), (DEPENDENCY, OK, None, [], None),
    ("silence", CRITICAL, None, [], "over"), ("silence", OK, None, [], None), ("downtime", UNKNOWN, PENDING, [], None),
])  # fmt: skip
def test_a_hold_that_ends(kind: str, status: int, reason: str | None, holds: list[Any], owed: str | None) -> None:
    """Below a parent the next result is waited for; after a window people are told what is still broken."""
    given = state(status, reason=reason, notice=Notice(status if reason is None else OK), holds=(Hold(kind, "p", "d"),))
    after, events = step(given, Released(NOW, kind, "p", "over"), RULE)
    assert [(hold.kind, hold.ref) for hold in after.holds] == holds
    assert [each.why for each in events if isinstance(each, Decision)] == ([] if owed is None else [owed])
    assert step(given, Released(NOW, kind, "q", "over"), RULE) == (given, ())
    assert step(given, Released(NOW, "other", "p", "over"), RULE) == (given, ())


def test_a_check_that_is_retired() -> None:
    """A retired check has a transition, and a last word to those that were told."""
    after, events = step(state(CRITICAL, notice=Notice(CRITICAL), number=4), Retired(NOW), RULE)
    assert (after.shown, after.number) == (Condition(UNKNOWN, NOW, RETIRED), 6)
    turned, closed = events
    assert isinstance(turned, Transition) and isinstance(closed, Decision)
    assert (turned.number, turned.why) == (4, "it is not scheduled any more")
    assert (closed.number, closed.action, closed.what, closed.status) == (5, "notify", "closed", CRITICAL)
    _, events = step(state(), Retired(NOW, "so"), RULE)
    assert [type(each) for each in events] == [Transition]


@pytest.mark.parametrize(("was", "now", "hard", "expected"), [
    (False, Condition(CRITICAL, 0.0), Condition(CRITICAL, 0.0), True),
    (False, Condition(CRITICAL, 0.0, None, 1), Condition(OK, 0.0), True),
    (False, Condition(OK, 0.0, None, 1), Condition(CRITICAL, 0.0), True),
    (False, Condition(WARNING, 0.0), Condition(WARNING, 0.0), False),
    (True, Condition(WARNING, 0.0), Condition(WARNING, 0.0), False),
    (True, Condition(OK, 0.0), Condition(OK, 0.0), False),
    (True, Condition(UNKNOWN, 0.0), Condition(UNKNOWN, 0.0), True),
    (True, Condition(OK, 0.0, None, 1), Condition(UNKNOWN, 0.0), True),
    (True, Condition(UNKNOWN, 0.0, None, 1), Condition(OK, 0.0), True),
    (False, Condition(UNKNOWN, 0.0), Condition(UNKNOWN, 0.0), False),
    (True, Condition(WARNING, 0.0, STALE), Condition(WARNING, 0.0, STALE), True),
    (True, Condition(UNKNOWN, 0.0, RETIRED), Condition(UNKNOWN, 0.0, RETIRED), False),
])  # fmt: skip
def test_what_holds_back_its_children(was: bool, now: Condition, hard: Condition, expected: bool) -> None:
    """A critical check holds its children back, and so does one without news since it was critical."""
    assert is_down(state(down=was), now, hard) is expected


def test_the_constants_that_people_count_on() -> None:
    """These constants are ten minutes, a millisecond, and three deadlines."""
    assert (machine.LATE_SECONDS, condition_changes.ACK_STEP, silence.UNHEARD_TIMES) == (600.0, 0.001, 3.0)
