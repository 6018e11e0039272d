"""Tests tables of starts: last record, clock of now, boots and agents' clocks, with the decision that each asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from groundwork.clock_watch import SETTLE_SECONDS, STEP_SECONDS, ClockWatch
from groundwork.start_clock import Agents, Boot, StartClock, boot_id, judge, judge_by_agents

NOW = 1_800_000_000.0
DAY, HOUR = 86_400.0, 3_600.0
SAME, OTHER, UNTOLD = "7a4c", "91ff", ""


@pytest.mark.parametrize(
    ("last", "before", "boot", "wanted"),
    [
        # The same boot: a step is known to the second, however long Helen was away.
        (NOW - 5.0, Boot(SAME, NOW - DAY), Boot(SAME, NOW - DAY), StartClock()),
        (NOW - 40 * DAY, Boot(SAME, NOW - 90 * DAY), Boot(SAME, NOW - 90 * DAY), StartClock()),  # a stop
        (NOW - 40 * DAY, Boot(SAME, NOW - 90 * DAY), Boot(SAME, NOW - 90 * DAY + 59.0), StartClock()),  # drift
        (NOW - 2 * HOUR, Boot(SAME, NOW - 3 * DAY), Boot(SAME, NOW - 3 * DAY + 60.0), StartClock(60.0, 60.0)),
        (NOW - DAY, Boot(SAME, NOW - 9 * DAY), Boot(SAME, NOW - 8 * DAY), StartClock(DAY, DAY)),
        (NOW - 3 * HOUR, Boot(SAME, NOW - DAY), Boot(SAME, NOW - DAY - 2 * HOUR), StartClock(-2 * HOUR, 0.0)),
        (NOW + HOUR, Boot(SAME, NOW - DAY), Boot(SAME, NOW - DAY - HOUR), StartClock(-HOUR, 0.0)),
        # Another boot: the time before it is explained by nothing.
        (NOW - 60.0, Boot(SAME, NOW - DAY), Boot(OTHER, NOW - 30.0), StartClock()),  # an ordinary boot
        (NOW - 9 * HOUR, Boot(SAME, NOW - 9 * DAY), Boot(OTHER, NOW - 8.5 * HOUR), StartClock()),
        (NOW - 9 * HOUR, Boot(SAME, NOW - 9 * DAY), Boot(OTHER, NOW - 8 * HOUR), StartClock(0.0, HOUR)),
        (NOW - 400 * DAY, Boot(SAME, NOW - 401 * DAY), Boot(OTHER, NOW - 60.0), StartClock(0.0, 400 * DAY - 60.0)),
        (NOW + DAY, Boot(SAME, NOW - DAY), Boot(OTHER, NOW - 60.0), StartClock()),  # behind
        # No boot is known, of then or of now: all of the time is in doubt.
        (NOW - 2 * DAY, None, Boot(OTHER, NOW - 60.0), StartClock(0.0, 2 * DAY)),
        (NOW - 2 * DAY, Boot(UNTOLD, NOW), Boot(UNTOLD, NOW - 60.0), StartClock(0.0, 2 * DAY)),
        (NOW - 2 * DAY, Boot(SAME, NOW - 9 * DAY), Boot(UNTOLD, NOW - HOUR), StartClock(0.0, 2 * DAY)),
        (NOW - HOUR + 1.0, None, Boot(OTHER, NOW - 60.0), StartClock()),
        (0.0, None, Boot(OTHER, NOW - 60.0), StartClock()),  # nothing is stored yet
    ],
)  # fmt: skip
def test_what_a_start_tells(last: float, before: Boot | None, boot: Boot, wanted: StartClock) -> None:
    """A step is told from a long stop if the boot is the same; else the clock is in doubt."""
    assert judge(last, before, NOW, boot) == wanted


@pytest.mark.parametrize(
    ("ahead", "wanted"),
    [
        ([], Agents.FEW),
        ([0.0, 0.1], Agents.FEW),
        ([0.0, 0.1, -0.2], Agents.AGREE),
        ([-7_200.0, -7_200.0], Agents.FEW),
        ([-7_200.0, -7_201.0, 0.1], Agents.BEHIND),
        ([-7_200.0, -90.0, 0.1, 0.0], Agents.FEW),  # no majority
        ([-7_200.0, 5_000.0, 0.1, 0.0], Agents.AGREE),  # one agent is wrong, and one the other way
        ([-60.0, -60.0, -60.0], Agents.AGREE),
        ([-60.1, -61.0, 0.0], Agents.BEHIND),
        ([7_200.0, 7_200.0, 7_200.0], Agents.AGREE),  # ours is behind: nothing expires too early by it
    ],
)
def test_what_agents_say(ahead: list[float], wanted: Agents) -> None:
    """A majority of three agents or more decides."""
    assert judge_by_agents(ahead) is wanted


def test_the_id_of_a_boot(tmp_path: Path) -> None:
    """The id of a boot is read as the kernel writes it, and is "" if it writes none."""
    (tmp_path / "id").write_text("0f1e-2d\n")
    (tmp_path / "odd").write_bytes(b"\xff")
    assert [boot_id(tmp_path / name) for name in ("id", "odd", "none")] == ["0f1e-2d", "", ""]
    assert boot_id() == boot_id() != ""


class Machine:
    """Holds the clocks of a machine, and a watch that begins in doubt."""

    def __init__(self, doubt: float, may_confirm: bool = False) -> None:
        self.wall, self.steady = NOW, 50.0
        self.watch = ClockWatch(lambda: self.wall, lambda: self.steady, lambda: self.steady)
        assert self.watch.settled_for_thread() == 0.0  # nothing expires before it is known if there is a doubt
        self.watch.begin(doubt, may_confirm)

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds)):
            self.wall, self.steady = self.wall + 1.0, self.steady + 1.0
            self.watch.look()


@pytest.mark.parametrize("doubt", [60.0, 7_200.0, 400 * DAY])
def test_nothing_expires_for_an_hour_after_a_start_in_doubt(doubt: float) -> None:
    """Nothing expires for the hour after such a start; then the new time counts, if it stood."""
    machine = Machine(doubt)
    assert (machine.watch.settled(), machine.watch.unsettled()) == (NOW - doubt, doubt)
    machine.run(SETTLE_SECONDS - 1.0)
    assert machine.watch.settled() == machine.watch.settled_for_thread() == machine.wall - doubt
    machine.run(1.0)
    assert machine.watch.settled() == machine.watch.settled_for_thread() == machine.wall
    assert machine.watch.unsettled() == 0.0


def test_a_clock_in_doubt_that_is_put_right_never_counted() -> None:
    """A clock that is set back within the hour never counted."""
    machine = Machine(7_200.0)
    machine.run(600.0)
    machine.wall -= 7_200.0
    assert machine.watch.settled() == NOW + 600.0 - 7_200.0
    machine.run(SETTLE_SECONDS)
    assert machine.watch.settled() == machine.wall


def test_agents_confirm_a_start_and_no_step() -> None:
    """A step is sure, since agents that agree with it may go by the same wrong source of time."""
    machine = Machine(7_200.0, may_confirm=True)
    assert machine.watch.confirm()
    assert machine.watch.settled() == NOW
    machine = Machine(7_200.0)
    assert not machine.watch.confirm()
    assert machine.watch.settled() == NOW - 7_200.0
    machine = Machine(7_200.0, may_confirm=True)
    machine.wall += 300.0
    machine.watch.look()
    assert not machine.watch.confirm()
    assert machine.watch.settled() == NOW - 7_200.0


def test_agents_that_are_behind_hold_the_hour() -> None:
    """The hour begins anew each time that agents are behind."""
    machine = Machine(7_200.0)
    machine.run(SETTLE_SECONDS - 10.0)
    machine.watch.hold()
    machine.run(SETTLE_SECONDS - 1.0)
    assert machine.watch.unsettled() == 7_200.0
    machine.run(1.0)
    assert machine.watch.unsettled() == 0.0


def test_a_thread_counts_no_step_that_was_not_announced() -> None:
    """A step of 90 days ahead expires nothing for a thread; a step of an hour back only delays."""
    machine = Machine(0.0)
    machine.run(60.0)
    assert machine.watch.settled_for_thread() == NOW + 60.0
    machine.wall, machine.steady = machine.wall + 90 * DAY, machine.steady + 1.0
    assert machine.watch.settled_for_thread() == NOW + 61.0 + STEP_SECONDS
    assert list(machine.watch.jumps) == []  # and it announced nothing
    machine.watch.look()
    assert machine.watch.settled_for_thread() == NOW + 61.0
    machine.wall -= 90 * DAY + HOUR
    assert machine.watch.settled_for_thread() <= NOW + 61.0 - HOUR
