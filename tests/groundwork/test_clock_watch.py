"""Steps of the wall clock and time slept are told apart, and announced before anybody has a stamp by the new time."""

from __future__ import annotations

import random

import pytest

from groundwork.clock_watch import SETTLE_SECONDS, ClockWatch, Jump

NOW = 1_800_000_000.0


class Machine:
    """Holds three clocks that can be made to jump."""

    def __init__(self) -> None:
        self.wall, self.steady, self.boot = NOW, 50.0, 80.0
        self.said: list[Jump] = []
        self.watch = ClockWatch(lambda: self.wall, lambda: self.steady, lambda: self.boot)
        self.watch.jumped.subscribe(self.said.append)
        self.watch.begin()

    def run(self, seconds: float, tick: float = 0.25, drift: float = 0.0) -> None:
        for _ in range(round(seconds / tick)):
            self.pass_by(tick)
            self.wall += drift * tick
            self.watch.look()

    def pass_by(self, seconds: float) -> None:
        self.wall, self.steady, self.boot = self.wall + seconds, self.steady + seconds, self.boot + seconds

    @property
    def jumps(self) -> list[tuple[float, float]]:
        return [(round(jump.stepped, 3), round(jump.slept, 3)) for jump in self.said]


@pytest.mark.parametrize("by", [-86_400.0 * 365, -7_200.0, -2.0, 2.0, 60.0, 7_200.0])
def test_a_step_is_announced_with_the_first_stamp(by: float) -> None:
    """A step is announced once with its size; the deadlines of silence don't see it (F3, F4)."""
    machine = Machine()
    machine.run(10.0)
    machine.wall += by
    before = machine.steady
    assert machine.watch.wall() == NOW + 10.0 + by
    assert machine.watch.steady() == before
    machine.run(10.0)
    assert machine.jumps == [(by, 0.0)]
    assert machine.said[0].at == NOW + 10.0 + by


@pytest.mark.adversary(57)
@pytest.mark.parametrize("seconds", [2.0, 75.0, 40_000.0])
def test_a_pause_is_time_slept(seconds: float) -> None:
    """A process that was stopped slept: all clocks went on, and its deadlines did not (F4)."""
    machine = Machine()
    machine.run(1.0)
    before = machine.watch.steady()
    machine.pass_by(seconds)
    assert machine.watch.steady() == before
    machine.run(1.0)
    assert machine.watch.steady() == before + 1.0
    assert machine.jumps == [(0.0, seconds)]


@pytest.mark.parametrize("seconds", [3.0, 30_000.0])
def test_a_suspended_machine_slept_and_its_clock_was_not_set(seconds: float) -> None:
    """The monotonic clock of a suspended machine stands still, and the one since the boot does not."""
    machine = Machine()
    machine.run(1.0)
    machine.wall, machine.boot = machine.wall + seconds, machine.boot + seconds
    machine.run(1.0)
    assert machine.jumps == [(0.0, seconds)]


def test_a_virtual_machine_that_was_paused_has_a_clock_that_is_set() -> None:
    """All clocks of such a machine stand still; then its time daemon puts the wall clock right."""
    machine = Machine()
    machine.run(1.0)
    machine.wall += 600.0
    machine.run(1.0)
    assert machine.jumps == [(600.0, 0.0)]


@pytest.mark.parametrize("drift", [-0.0005, 0.0005])
def test_what_a_time_daemon_puts_right_by_and_by_is_no_step(drift: float) -> None:
    """A drift of half a second in a thousand is no step, even for hours."""
    machine = Machine()
    machine.run(20_000.0, drift=drift)
    assert machine.jumps == []


@pytest.mark.parametrize("by", [-0.4, 0.4])
def test_many_small_steps_are_noticed(by: float) -> None:
    """Many small steps add up to jumps; else a clock that runs away would be followed in silence."""
    machine = Machine()
    for _ in range(60):
        machine.wall += by
        machine.run(10.0)
    assert sum(stepped for stepped, _ in machine.jumps) == pytest.approx(60 * by, abs=3.0)


def test_nothing_expires_for_a_step_ahead_before_it_has_stood() -> None:
    """A step ahead that is taken back never counts; a step back counts at once (F4)."""
    machine = Machine()
    machine.wall += 86_400.0
    machine.run(600.0, tick=1.0)
    assert machine.watch.settled() == NOW + 600.0
    machine.wall -= 86_400.0
    assert machine.watch.settled() == NOW + 600.0
    machine.wall += 7_200.0
    machine.watch.look()
    machine.run(SETTLE_SECONDS - 1.0, tick=1.0)
    assert machine.watch.settled() == pytest.approx(machine.wall - 7_200.0)
    machine.run(2.0)
    assert machine.watch.settled() == machine.wall
    machine.wall -= 9_000.0
    assert machine.watch.settled() == machine.wall
    machine.run(60.0)
    machine.wall += 9_000.0
    assert machine.watch.settled() == machine.wall


def test_a_start_that_takes_long_is_no_jump() -> None:
    """The watch compares nothing before `begin`, so that a long start is no jump."""
    machine = Machine()
    watch = ClockWatch(lambda: machine.wall, lambda: machine.steady, lambda: machine.boot)
    watch.jumped.subscribe(machine.said.append)
    machine.pass_by(600.0)
    assert watch.wall() == machine.wall
    watch.begin()
    watch.look()
    assert machine.jumps == []


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_adds_up(seed: int) -> None:
    """The wall clock has moved by the time awake, the time slept and the steps."""
    rng, machine = random.Random(seed), Machine()
    begun = machine.watch.steady()
    for _ in range(40):
        machine.run(rng.uniform(0.0, 20.0))
        what = rng.random()
        if what < 0.4:
            machine.wall += rng.choice((-1, 1)) * rng.uniform(2.0, 1e6)
        elif what < 0.7:
            machine.pass_by(rng.uniform(2.0, 1e5))
        else:
            slept = rng.uniform(2.0, 1e5)
            machine.wall, machine.boot = machine.wall + slept, machine.boot + slept
        machine.watch.look()
    awake = machine.watch.steady() - begun
    moved = sum(jump.stepped + jump.slept for jump in machine.said)
    assert machine.wall - NOW == pytest.approx(awake + moved, abs=0.01)
