"""Tests how late the reactor is, and what of that Helen held, with figures of the kernel as they would come."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helen.processor_wait import ThreadTimes
from helen.reactor_looks import LOOK_SECONDS, READ_SECONDS, ReactorLooks, held
from helen.telemetry import Look, Telemetry
from helen.web.figures.metric_families import reactor_families
from helen.web.routes.health import lag_words

MS = 0.001


def times(ran: float, waited: float) -> ThreadTimes:
    return ThreadTimes(ran * MS, waited * MS)


@pytest.mark.parametrize(
    ("lag", "ran", "waited", "own"),
    [
        (0.1, 0.05, 0.0, 0.1),  # the usual look: woken in time
        (12.0, 0.1, 11.9, 0.1),  # woken when it was due, and another program had the processor
        (12.0, 12.0, 0.0, 12.0),  # a step that took so long
        (12.0, 0.2, 0.0, 12.0),  # another thread of Helen had the interpreter: no wait for a processor
        (12.0, 0.2, 4.0, 8.0),  # both
        (12.0, 3.0, 9.0, 3.0),  # a step of 3 ms that was interrupted for 9
        (12.0, 5.0, 20.0, 5.0),  # the turn began long before: it waited more than the look was late
        (6.0, 12.0, 9.0, 6.0),  # ran more than the look was late: its own, whatever it waited before
        (0.0, 3.0, 9.0, 0.0),  # in time
    ],
)
def test_what_helen_held(lag: float, ran: float, waited: float, own: float) -> None:
    """Helen held the lag less its thread's waits for a processor, and at least what the thread ran."""
    assert held(lag * MS, times(5.0, 7.0), times(5.0 + ran, 7.0 + waited)) == pytest.approx(own * MS)


SPANS = st.lists(st.tuples(st.sampled_from(["runs", "waits", "sleeps"]), st.integers(1, 30)), max_size=12)


@given(SPANS, SPANS)
def test_no_run_time_after_the_due_moment_is_taken_away(before: list[Any], after: list[Any]) -> None:
    """The held time is never less than what ran after the due moment, and never more than the lag."""
    sums = {kind: sum(each for what, each in before + after if what == kind) for kind in ("runs", "waits", "sleeps")}
    lag = sum(each for _, each in after)
    own = held(lag * MS, times(0, 0), times(sums["runs"], sums["waits"])) / MS
    assert sum(each for what, each in after if what == "runs") - 1e-6 <= own <= lag + 1e-6
    if not any(what == "waits" for what, _ in before):  # else some of its waits are of the time before
        assert own >= sum(each for what, each in after if what != "waits") - 1e-6


class Kernel:
    """Holds a clock, and the figures of one thread by it."""

    def __init__(self) -> None:
        self.now, self.ran, self.waited = 1_000.0, 0.0, 0.0
        self.is_readable, self.readings = True, 0

    def read(self) -> ThreadTimes | None:
        self.readings += 1
        return ThreadTimes(self.ran, self.waited) if self.is_readable else None

    def run(self, milliseconds: float) -> None:
        self.now += milliseconds * MS
        self.ran += milliseconds * MS

    def wait(self, milliseconds: float) -> None:
        self.now += milliseconds * MS
        self.waited += milliseconds * MS

    def sleep_until(self, moment: float) -> None:
        self.now = max(self.now, moment)


def scene() -> tuple[Kernel, Telemetry, ReactorLooks]:
    kernel, telemetry = Kernel(), Telemetry()
    return kernel, telemetry, ReactorLooks(telemetry, lambda: kernel.now, kernel.read)


def seen(telemetry: Telemetry) -> list[tuple[float, float | None]]:
    """Return the looks, in milliseconds."""
    return [
        (round(each.lag / MS, 3), None if each.held is None else round(each.held / MS, 3)) for each in telemetry.looks
    ]


def test_each_look_has_its_own_turn() -> None:
    """A wait of the thread before its turn began is taken from no look."""
    kernel, telemetry, looks = scene()
    due = kernel.now + LOOK_SECONDS
    kernel.wait(100.0)  # in another turn
    looks.before_turn()
    kernel.sleep_until(due)
    kernel.wait(12.0)
    looks.look()
    looks.before_turn()
    kernel.sleep_until(due + LOOK_SECONDS)
    kernel.run(15.0)
    looks.look()
    looks.before_turn()
    kernel.sleep_until(due + 2 * LOOK_SECONDS)
    looks.look()
    assert seen(telemetry) == [(12.0, 0.0), (15.0, 15.0), (0.0, 0.0)]
    assert telemetry.processor_wait == pytest.approx(0.112)
    assert (telemetry.loop_lag.cumulative()[-1], telemetry.loop_held.cumulative()[-1]) == (3, 3)


def test_a_turn_that_began_after_the_look_was_due() -> None:
    """The turn before it held the reactor, so the begin of that one counts: its run time would be left
    out otherwise.
    """
    kernel, telemetry, looks = scene()
    kernel.sleep_until(kernel.now + LOOK_SECONDS - 5 * MS)
    looks.before_turn()
    kernel.run(20.0)
    looks.before_turn()
    kernel.wait(3.0)
    looks.look()
    assert seen(telemetry) == [(18.0, 18.0)]


def test_without_a_reading_all_lag_counts_as_helens() -> None:
    kernel, telemetry, looks = scene()
    kernel.wait(LOOK_SECONDS / MS + 40.0)
    looks.look()
    assert seen(telemetry) == [(40.0, 40.0)]


def test_looks_that_were_missed_are_one_look() -> None:
    """Missed looks are one look; the next one is due as if nothing had been, four times a second from the start on."""
    kernel, telemetry, looks = scene()
    start = kernel.now
    looks.before_turn()
    kernel.run(1_000.0)
    looks.look()
    looks.before_turn()
    kernel.sleep_until(start + 1.25)
    kernel.run(2.0)
    looks.look()
    assert seen(telemetry) == [(750.0, 750.0), (2.0, 2.0)]


def test_where_the_kernel_tells_nothing() -> None:
    """Only the lag is told then, and no 0, which would say that Helen never held the reactor."""
    kernel, telemetry, looks = scene()
    kernel.is_readable = False
    for turn in itertools.count(1):
        looks.before_turn()
        kernel.sleep_until(1_000.0 + turn * LOOK_SECONDS)
        kernel.wait(12.0)
        looks.look()
        if turn == 3:
            break
    assert seen(telemetry) == [(12.0, None)] * 3
    names = [family.name for family in reactor_families(telemetry)]
    assert (names, telemetry.loop_held.cumulative()[-1]) == (["helen_event_loop_lag_seconds"], 0)


def test_readings_are_as_many_as_milliseconds_at_most() -> None:
    """The kernel's figures are read at most once a millisecond, as turns of a busy reactor are shorter."""
    kernel, _, looks = scene()
    for _ in range(10_000):
        looks.before_turn()
        kernel.run(0.05)
    assert kernel.readings <= 10_000 * 0.05 * MS / READ_SECONDS + 1


def test_each_turn_is_watched_before_it_waits() -> None:
    kernel, _, looks = scene()
    calls = list[Any]()
    reactor = SimpleNamespace(doIteration=lambda timeout: calls.append((timeout, kernel.readings)))
    looks.watch(reactor)
    reactor.doIteration(None)
    kernel.run(READ_SECONDS / MS)
    reactor.doIteration(0.25)
    assert calls == [(None, 1), (0.25, 2)]


def test_the_figures_in_metrics() -> None:
    telemetry = Telemetry()
    telemetry.looked(Look(0.012, 0.002), 3.5)
    figures = {family.name: list(family.samples) for family in reactor_families(telemetry)}
    assert list(figures) == [
        "helen_event_loop_lag_seconds", "helen_event_loop_held_seconds", "helen_event_loop_processor_wait_seconds",
    ]  # fmt: skip
    sums = [figures[f"helen_event_loop_{name}_seconds"][-2] for name in ("lag", "held")]
    assert sums == [("_sum", {}, 0.012), ("_sum", {}, 0.002)]
    assert figures["helen_event_loop_processor_wait_seconds"] == [("", {}, 3.5)]


@pytest.mark.parametrize(
    ("look", "words"),
    [
        (Look(0.080, 0.005), "75 ms it waited for a processor, 5 ms Helen held it; this machine has too little CPU"),
        (Look(0.080, 0.075), "5 ms it waited for a processor, 75 ms Helen held it; Helen has too much to do"),
        (Look(1.5, None), "the reactor was 1,500 ms late within the last minute; the kernel does not tell how much"),
    ],
)  # fmt: skip
def test_health_tells_a_busy_machine_from_a_busy_helen(look: Look, words: str) -> None:
    assert words in lag_words(look)
