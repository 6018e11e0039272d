"""Makes Twisted's reactor go by the monotonic clock: a wall clock that is set moves no timer.

Twisted's reactor reads `time.time`. Under it a step back of an hour holds up every `callLater`, `LoopingCall` and
timeout for an hour, and a step ahead fires all of them at once. Each program calls `use_monotonic_clock` as soon as it
has imported the reactor; `reactor.seconds()` is monotonic seconds from then on, and `time.time` is for stamps only.
"""

from __future__ import annotations

import time
from typing import Any


def use_monotonic_clock(reactor: Any) -> None:
    """Let `reactor.seconds` be `time.monotonic`. To repeat it is harmless.

    Calls that are scheduled already keep the time that is left to them: they move to the new clock, all by the same
    length, so that their order stays.
    """
    if reactor.seconds is time.monotonic:
        return
    before, reactor.seconds = reactor.seconds, time.monotonic
    ahead = time.monotonic() - before()
    for call in reactor.getDelayedCalls():
        call.time += ahead
        call.seconds = time.monotonic
