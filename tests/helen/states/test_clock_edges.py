"""Tests clocks at their edges: when an agent's figure is believed, and what each time becomes when Helen's is set."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from helen.states.agent_rules import AgentRules
from helen.states.clock_offset import AgentClock, Newest, after_step, is_older, is_set_back, measure
from helen.states.clock_steps import ClockSteps, _is_from_now, _moved, _moved_condition, _moved_window
from helen.states.downtimes import Recurrence, Scope, Window, read_recurrence
from helen.states.fleet_states import run
from helen.states.fleet_timeline import Timeline
from helen.states.inputs import Result
from helen.states.model import PENDING, Ack, Condition, Expected, Rule, Seen, State, Trial

NOW = 10_000.0
C = AgentClock


# ------------------------------------------------------------------------------------------------ an agent's figure


MEASURED = [  # (clock before, seconds ahead of one more result at NOW, clock after)
    (C(0.0), 0.5, C(0.5)), (C(3.0, alone=True), 4.0, C(4.0, alone=True)),  # more is believed at once
    (C(0.0), 0.0, C(0.0)), (C(0.0), -2.0, C(0.0)), (C(5.0), 3.0, C(5.0)),  # ordinary delays
    (C(0.0, 9_900.0, -9.0, 2, alone=False), -2.0, C(0.0, alone=False)),  # what spoke for less is forgotten
    (C(0.0), -2.5, C(0.0, NOW, -2.5, 1)), (C(0.0, alone=True), -50.0, C(0.0, NOW, -50.0, 1, alone=True)),
    (C(0.0, 9_990.0, -50.0, 1), -42.0, C(0.0, 9_990.0, -50.0, 2)),
    (C(0.0, 9_990.0, -50.0, 1), -58.0, C(0.0, 9_990.0, -50.0, 2)),
    (C(0.0, 9_990.0, -50.0, 1), -41.5, C(0.0, NOW, -41.5, 1)),
    (C(0.0, 9_990.0, -50.0, 5), -58.5, C(0.0, NOW, -58.5, 1)),
    (C(0.0, 9_940.0, -50.0, 2, alone=False), -49.0, C(-49.0, alone=False)),  # a minute, and three results
    (C(0.0, 9_940.5, -50.0, 2), -49.0, C(0.0, 9_940.5, -50.0, 3)),
    (C(0.0, 9_900.0, -50.0, 1), -49.0, C(0.0, 9_900.0, -50.0, 2)),
    (C(0.0, 9_900.0, -50.0, 9), -49.0, C(-49.0)),
    (C(is_new=True), 0.5, C(0.5)), (C(is_new=True), -2.0, C(0.0)),
    (C(is_new=True, alone=True), -1.0, C(0.0, alone=True)),
    (C(is_new=True), -2.5, C(0.0, NOW, -2.5, 1, is_new=True)),
    (C(0.0, 9_995.0, -50.0, 1, is_new=True), -48.0, C(-48.0)),
    (C(0.0, 9_995.0, -50.0, 1, is_new=True), -52.0, C(-50.0)),
    (C(0.0, 9_995.0, -50.0, 1, is_new=True), -47.5, C(0.0, NOW, -47.5, 1, is_new=True)),
    (C(0.0, 9_995.5, -50.0, 1, is_new=True), -50.0, C(0.0, 9_995.5, -50.0, 2, is_new=True)),
    (C(5.0, rivals=(5.0, -95.0)), 3.0, C(5.0, alone=False)), (C(5.0, rivals=(5.0, -95.0)), -97.0, C(-95.0, alone=True)),
    (C(5.0, rivals=(5.0, -95.0)), -93.0, C(-93.0, alone=True)), (C(5.0, rivals=(5.0, -95.0)), 7.0, C(7.0, alone=False)),
    (C(5.0, rivals=(5.0, -95.0)), -50.0, C(5.0, NOW, -50.0, 1, rivals=(5.0, -95.0))),
    (C(5.0, rivals=(5.0, -95.0)), 7.5, C(7.5)),
]  # fmt: skip


@pytest.mark.parametrize(("before", "ahead", "after"), MEASURED)
def test_one_more_result(before: AgentClock, ahead: float, after: AgentClock) -> None:
    """A result changes the figure at each edge: tolerance, how long a lower one has to stand, and how
    far it may vary.
    """
    assert measure(before, NOW + ahead, NOW) == after


def test_a_clock_that_needs_no_change_is_the_same_one() -> None:
    """A clock that needs no change is the same object, as nearly every result leaves it."""
    clock = C(1.0)
    assert measure(clock, NOW, NOW) is clock


STEPPED = [  # (clock before, step of Helen's clock, clock after)
    (C(0.0, is_new=True), 500.0, C(0.0, is_new=True)),
    (C(0.0, 9_000.0, -3.0, 1, is_new=True), 500.0, C(0.0, 9_500.0, -3.0, 1, is_new=True)),
    (C(4.0, alone=True), 500.0, C(-496.0, first=-500.0, alone=True)), (C(4.0, alone=False), 500.0, C(4.0, alone=False)),
    (C(4.0, 9_000.0, 1.0, 2, alone=True), -50.0, C(54.0, 8_950.0, 51.0, 2, alone=True)),
    (C(4.0, 9_000.0, 1.0, 2), 500.0, C(4.0, rivals=(4.0, -496.0))), (C(4.0), -50.0, C(54.0, rivals=(4.0, 54.0))),
    (C(4.0), 2.0, C(4.0)), (C(4.0), 2.5, C(4.0, rivals=(4.0, 1.5))),
    (C(4.0, rivals=(4.0, -496.0)), -500.0, C(4.0)), (C(4.0, rivals=(4.0, -496.0)), 10.0, C(4.0, rivals=(4.0, -506.0))),
]  # fmt: skip


@pytest.mark.parametrize(("before", "by", "after"), STEPPED)
def test_a_step_of_helens_clock(before: AgentClock, by: float, after: AgentClock) -> None:
    """Two figures are possible until a result says which; a clock that is known moves, or does not."""
    assert after_step(before, by) == after


NEWEST = Newest("s", 7, NOW, NOW + 1.0)


@pytest.mark.parametrize(("newest", "spool", "sequence", "older"), [
    (None, "s", 1, False), (NEWEST, "s", 6, True), (NEWEST, "s", 7, True), (NEWEST, "s", 8, False),
    (NEWEST, "t", 1, False),
])  # fmt: skip
def test_what_was_before_the_newest(newest: Newest | None, spool: str, sequence: int, older: bool) -> None:
    """A result is older by its place in the same spool; the newest itself is, too."""
    assert is_older(newest, spool, sequence) is older


@pytest.mark.parametrize(("newest", "ended", "spool", "back"), [
    (None, 0.0, "s", False), (NEWEST, NOW - 2.0, "s", False), (NEWEST, NOW - 2.5, "s", True),
    (NEWEST, NOW - 99.0, "t", False),
    (evolve(NEWEST, doubted=True), NOW + 9.0, "s", True), (evolve(NEWEST, doubted=True), NOW, "t", False),
])  # fmt: skip
def test_what_shows_that_a_clock_was_set_back(newest: Newest | None, ended: float, spool: str, back: bool) -> None:
    """A result shows it that ended over two seconds before the one in front of it, or that follows one in doubt."""
    assert is_set_back(newest, ended, spool) is back
    assert Newest("s", 1, 2.0, 3.0).doubted is False


@pytest.mark.parametrize("clock", [C(), C(1.0, 2.0, 3.0, 4, (5.0, 6.0), True, True), C(1.0, alone=False)])
def test_a_clock_goes_through_json(clock: AgentClock) -> None:
    """An unknown field is not written."""
    assert AgentClock.from_json(clock.to_json()) == clock
    assert C().to_json() == {"offset": 0.0, "since": None, "first": 0.0, "count": 0}
    assert C(alone=False, is_new=True).to_json().keys() - C().to_json().keys() == {"alone", "is_new"}


# ------------------------------------------------------------------------------------------------ Helen's own clock


def window(begin: float, created: float, until: float | None = NOW + 500.0, nightly: bool = False) -> Window:
    when = read_recurrence({"begin": "22:00", "end": "06:00", "zone": "UTC"}) if nightly else None
    return Window("w", "downtime", Scope(), begin, until, when, created=created)


@pytest.mark.parametrize(("given", "from_now"), [
    (window(NOW, NOW), True), (window(NOW + 60.0, NOW), True), (window(NOW + 60.5, NOW), False),
    (window(NOW, NOW, nightly=True), False), (window(NOW - 900.0, NOW), True),
])  # fmt: skip
def test_lengths_from_now_on(given: Window, from_now: bool) -> None:
    """A window is from now on if it begins within a minute after it was made, unless it comes again."""
    assert _is_from_now(given) is from_now
    assert isinstance(window(NOW, NOW, nightly=True).recurrence, Recurrence)


def test_a_length_moves_as_a_whole() -> None:
    """A length moves with its begin, its end if it has one, and when it was made."""
    moved = _moved_window(window(NOW, NOW - 5.0), 70.0)
    assert (moved.begin, moved.until, moved.created) == (NOW + 70.0, NOW + 570.0, NOW + 65.0)
    assert _moved_window(window(NOW, NOW, until=None), 70.0).until is None


@pytest.mark.parametrize(("condition", "since"), [
    (Condition(0, 9_000.0), 9_000.0), (Condition(0, NOW), NOW), (Condition(0, NOW + 1.0), NOW + 8.0),
    (Condition(3, 9_000.0, PENDING), 9_020.0), (Condition(3, NOW + 1.0, PENDING), NOW + 21.0),
])  # fmt: skip
def test_since_when_after_a_step(condition: Condition, since: float) -> None:
    """A begin stays, unless it lies ahead; the wait for a first result moves by the sleep as well."""
    assert _moved_condition(condition, 20.0, 7.0, NOW) == evolve(condition, since=since)


def test_each_time_of_a_state() -> None:
    """Silences move by the step and the sleep, lengths by the step alone."""
    shown = Condition(3, 9_000.0, PENDING)
    given = State(
        shown, shown, Seen(9_900.0, 9_890.0, "s", 1), ack=Ack("o", until=9_950.0), lost=9_800.0, number=3,
        expected=Expected(9_700.0, 50.0), trial=Trial("1", "d", shown), ack_at=5.0,
    )  # fmt: skip
    moved = _moved(given, 20.0, 7.0, NOW)
    late = Condition(3, 9_020.0, PENDING)
    assert moved == evolve(
        given, shown=late, hard=late, seen=Seen(9_920.0, 9_897.0, "s", 1), ack=Ack("o", until=9_957.0), lost=9_820.0,
        expected=Expected(9_720.0, 50.0), trial=Trial("1", "d", late),
    )  # fmt: skip
    bare = State(Condition(0, 1.0), Condition(0, 1.0), Seen(9_900.0, None, "s", 1), ack=Ack("o"))
    assert _moved(bare, 20.0, 7.0, NOW) == evolve(bare, seen=Seen(9_920.0, None, "s", 1))
    empty = State.pending(1.0)
    assert _moved(evolve(empty, shown=bare.shown, hard=bare.shown), 20.0, 7.0, NOW).lost is None


def fleet() -> Timeline:
    made = Timeline()
    run(made.change("helen_start", NOW, None, None, {}))
    run(made.set_rules("a", AgentRules({}, {"c": Rule(stale=100.0)})))
    run(made.link("a", True))
    run(made.link("b", True))
    run(made.link("b", False))
    made.newest["a"] = Newest("s", 1, NOW, NOW)
    made.clocks["x"] = AgentClock(1.0, alone=True)
    return made


def test_a_jump() -> None:
    """A jump moves the time of now, and all that counts by it; an agent without a figure has one that is new."""
    made = fleet()
    made.touched.clear()
    made.changed.clear()
    run(made.jump(NOW + 300.0, 200.0, 30.0))
    assert (made.clock, made.started, made.connected) == (NOW + 300.0, NOW + 230.0, {"a": NOW + 230.0, "b": None})
    assert made.newest["a"] == Newest("s", 1, NOW, NOW + 230.0)
    assert made.clocks == {
        "a": AgentClock(is_new=True), "b": AgentClock(is_new=True), "x": AgentClock(-199.0, first=-200.0, alone=True),
    }  # fmt: skip
    assert (made.lag, made.settles) == (-200.0, NOW + 3_900.0)
    assert made.states["a", "c"].shown.since == NOW + 230.0
    assert (made.touched, made.changed) == ({"a", "b"}, set(made.states))
    assert made._deadlines.next == NOW + 290.0, "of the link that is away"


def test_a_sleep_alone_sets_no_clock() -> None:
    """Windows and agents' clocks stay as they are."""
    made = fleet()
    before = dict(made.clocks)
    run(made.jump(NOW + 30.0, 0.0, 30.0))
    assert (made.lag, made.settles, made.clocks, made.started) == (0.0, None, before, NOW + 30.0)
    assert (ClockSteps().lag, ClockSteps().settles) == (0.0, None)
    awake = fleet()
    run(awake.jump(NOW + 5.0, 5.0))
    assert awake.started == NOW + 5.0, "without a word of a sleep there was none"


@pytest.mark.parametrize(("back", "lag", "settles"), [(100.0, 0.0, None), (98.5, 0.0, None), (98.0, 2.0, 3_600.0),
                                                      (-50.0, 150.0, 3_600.0)])  # fmt: skip
def test_a_step_and_a_step_back(back: float, lag: float, settles: float | None) -> None:
    """A step back within two seconds undoes a step; else the new time has to stand for an hour."""
    made = fleet()
    run(made.jump(NOW - 100.0, -100.0))
    assert (made.lag, made.settles) == (100.0, NOW + 3_500.0)
    run(made.jump(NOW, back))
    assert (made.lag, made.settles) == (lag, None if settles is None else NOW + settles)


@pytest.mark.parametrize(("at", "stands"), [(NOW + 3_599.0, False), (NOW + 3_600.0, True), (NOW + 9_999.0, True)])
def test_the_new_time_stands_after_an_hour(at: float, stands: bool) -> None:
    """Planned windows go by the new time exactly after an hour."""
    made = fleet()
    assert made._settle() is False
    run(made.jump(NOW, 100.0))
    made.clock = at
    assert made._settle() is stands
    assert (made.lag, made.settles) == ((0.0, None) if stands else (-100.0, NOW + 3_600.0))


def test_windows_after_a_step() -> None:
    """A planned one goes by the time before; one from now on moves, and so does the end of one that is on."""
    made = fleet()
    run(made.open_window(evolve(window(NOW, NOW), id="now")))
    run(made.open_window(evolve(window(NOW - 10.0, NOW - 900.0), id="planned")))
    run(made.open_window(evolve(window(NOW + 100.0, NOW + 50.0, NOW + 200.0), id="soon")))
    assert made.active == {"now": NOW + 500.0, "planned": NOW + 500.0}
    run(made.jump(NOW + 1_000.0, 1_000.0))
    assert made.active == {"now": NOW + 1_500.0, "planned": NOW + 500.0}
    planned, now = made.windows["planned"], made.windows["now"]
    assert (now.begin, now.until, planned.until) == (NOW + 1_000.0, NOW + 1_500.0, NOW + 500.0)
    assert (made._on(planned), made._on(now)) == (NOW + 1_500.0, NOW + 1_500.0)
    assert (made._next_edge(planned), made._next_edge(made.windows["soon"])) == (NOW + 1_500.0, NOW + 1_100.0)
    assert (made._lag_of(planned), made._lag_of(now)) == (-1_000.0, 0.0)
    over = evolve(planned, id="over", until=NOW - 5.0)
    assert (made._on(over), made._next_edge(over)) == (None, None)


@pytest.mark.parametrize(("earlier", "stepped"), [(1.0, False), (2.0, False), (2.5, True), (900.0, True)])
@pytest.mark.parametrize("kind", ["result", "change", "start"])
def test_a_record_of_a_clock_that_was_set_back(earlier: float, stepped: bool, kind: str) -> None:
    """A record over two seconds before the newest tells that the clock was set back; others count as if
    they came then.
    """
    made = fleet()
    at = NOW - earlier
    if kind == "result":
        from_helen: Any = made.result("a", "equus:gap", Result(at, 0))
    else:
        from_helen = made.change("helen_start" if kind == "start" else "ack", at, None, None, {})
    run(from_helen)
    assert made.clock == (at if stepped else NOW)
    assert made.lag == (earlier if stepped else 0.0)
