"""Runs long work in turns of the reactor of a few milliseconds: whole lists are walked, sorted and written so.

Twisted's own cooperator takes 10 ms a turn, and a step more; that is as long as an agent, or another page, may wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from twisted.internet.task import CooperativeTask, Cooperator

from helen import garbage_looks

TURN_SECONDS = 0.003  # of the reactor's time; a step is begun before they are over, so a step has to be short
ROWS_A_STEP = 50  # of some 20 us each


def budget(now: Callable[[], float] = time.monotonic) -> Callable[[], bool]:
    """Return the test that is True once a turn that begins now is over. `now` returns monotonic seconds."""
    until = now() + TURN_SECONDS
    garbage_looks.look()
    return lambda: now() >= until


_cooperator = Cooperator(budget)


def cooperate(steps: Iterator[None]) -> CooperativeTask[Iterator[None]]:
    """Begin to take the steps, several a turn; return the task, which can be paused."""
    return _cooperator.cooperate(steps)


async def take_turns(steps: Iterator[None]) -> None:
    """Take the steps, several a turn, and return when there is none left."""
    await cooperate(steps).whenDone()
