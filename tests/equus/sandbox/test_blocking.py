"""Test the loop that drives a sandbox without a reactor: how long it waits, also while its process is stopped."""

import socket
from collections.abc import Iterator

import pytest

from equus.sandbox.blocking import SelectLoop
from groundwork.awake_clock import LATE_SECONDS

WITHIN = 5.0  # seconds that each test waits, by a clock that it sets itself


class Loop(SelectLoop):
    """Run a loop by a clock that stands still unless the test moves it."""

    now = 100.0

    def seconds(self) -> float:  # type: ignore[override]
        return self.now

    def stand_still(self, seconds: float) -> None:
        """Move the clock as a SIGSTOP or a suspended machine does: the next look at it shows a later time."""
        self.now += seconds


class Letters:
    """Reads one byte in each turn, so that three of them take three turns."""

    def __init__(self, loop: Loop) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.read = b""
        loop.addReader(self)

    def fileno(self) -> int:
        return self.ours.fileno()

    def doRead(self) -> None:
        self.read += self.ours.recv(1)


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def letters(loop: Loop) -> Iterator[Letters]:
    found = Letters(loop)
    yield found
    found.ours.close()
    found.theirs.close()


@pytest.mark.parametrize("turns", [1, 3])
def test_what_came_while_the_process_stood_still_is_read(loop: Loop, letters: Letters, turns: int) -> None:
    """Bytes that came while the process stood still are read before the loop gives up."""
    letters.theirs.send(b"x" * turns)
    loop.callLater(0, loop.stand_still, 1000.0)
    loop.until(lambda: len(letters.read) == turns, WITHIN)
    assert letters.read == b"x" * turns


def test_a_short_halt_ends_with_a_last_look(loop: Loop, letters: Letters) -> None:
    """A halt that is longer than the time left, and too short to be told from a slow turn, ends with a last look."""
    halt = LATE_SECONDS * 0.9
    loop.callLater(0, letters.theirs.send, b"x")
    loop.callLater(0, loop.stand_still, halt)
    loop.until(lambda: letters.read, halt / 2)


def test_time_that_passes_turn_by_turn_counts(loop: Loop) -> None:
    """A condition that never holds is given up after the time and one turn more, and no earlier."""

    def never() -> bool:
        loop.stand_still(0.5)
        loop.callLater(0, lambda: None)  # so that the turn waits for nothing
        return False

    with pytest.raises(TimeoutError, match="not within 5 s"):
        loop.until(never, WITHIN)
    assert WITHIN <= loop.now - 100.0 <= WITHIN + 1.5
