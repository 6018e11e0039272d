"""Test on a virtual clock when a process counts as silent, question by question."""

import pytest
from twisted.internet.task import Clock

from equus.sandbox.heartbeat import MOST_UNANSWERED, PING_EVERY, Heartbeat


class Watched:
    """Hold a watch, its questions, and whether an answer is needed."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.asked: list[float] = []
        self.silent: list[float] = []
        self.needed = True
        self.watch = Heartbeat(
            self.clock,
            lambda: self.asked.append(self.clock.seconds()),
            lambda: self.needed,
            lambda: self.silent.append(self.clock.seconds()),
        )

    def wait(self, periods: int) -> None:
        for _ in range(periods):
            self.clock.advance(PING_EVERY)


@pytest.mark.adversary(37)
def test_one_that_is_silent_is_told_of_once() -> None:
    """A silent process is reported once, after two questions, and then no more is asked."""
    watched = Watched()
    watched.watch.begin()
    watched.wait(10)
    assert watched.asked == [0.0, PING_EVERY]
    assert watched.silent == [MOST_UNANSWERED * PING_EVERY]
    assert watched.clock.getDelayedCalls() == []


def test_one_that_answers_late_is_not_silent() -> None:
    """An answer that comes late, as on a machine that stood still, but before the second question, is no silence."""
    watched = Watched()
    watched.watch.begin()
    watched.wait(1)
    watched.watch.answered()
    watched.wait(1)
    watched.watch.answered()
    assert watched.silent == []


def test_one_that_stops_in_the_middle() -> None:
    """A process that stops in the middle is asked and reported, as long as it is needed."""
    watched = Watched()
    watched.watch.begin()
    for _ in range(5):
        watched.watch.answered()
        watched.wait(1)
    watched.wait(5)
    assert len(watched.asked) == 7
    assert watched.silent == [7 * PING_EVERY]


def test_nobody_needs_it_any_more() -> None:
    """A process that is needed no more is not asked, no timer is left, and the next need begins anew."""
    watched = Watched()
    watched.watch.begin()
    watched.watch.begin()
    watched.watch.answered()
    watched.needed = False
    watched.wait(10)
    assert (watched.asked, watched.silent, watched.clock.getDelayedCalls()) == ([0.0], [], [])
    watched.needed = True
    watched.watch.begin()
    assert len(watched.asked) == 2


def test_an_open_question_is_answered_first() -> None:
    """A question that is open stays open when its run ends, so that a silent process is still reported."""
    watched = Watched()
    watched.watch.begin()
    watched.needed = False
    watched.wait(10)
    assert watched.silent == [MOST_UNANSWERED * PING_EVERY]


def test_stopped() -> None:
    """A stopped watch asks no question and reports nothing."""
    watched = Watched()
    watched.watch.begin()
    watched.watch.stop()
    watched.wait(10)
    assert (watched.silent, watched.clock.getDelayedCalls()) == ([], [])
