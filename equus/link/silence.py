"""Judge the silence of a Helen: ping it, and drop the connection if not even that is answered.

Two times are kept. The heartbeat, docs/protocol.rst section 5, is for every Helen of version 2. A shorter one holds
while an answer is awaited (the `ack` of a report) and there is another Helen to go to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.logger import Logger

PING_AFTER = 20.0  # seconds without reading anything; docs/protocol.rst section 5
DROP_AFTER = 10.0  # seconds more
SWITCH_PING_AFTER, SWITCH_DROP_AFTER = 4.0, 4.0  # seconds until a ping, seconds more until the link is dropped


class Silence:
    """Watches one connection. `last_read` is when, by the reactor's clock, bytes came last.

    `later` sets a timer by name, seconds and call. `may_switch` returns True if the shorter time holds. `ping` and
    `drop` act on the connection.
    """

    log = Logger()

    def __init__(
        self,
        clock: Any,
        later: Callable[[str, float, Callable[[], Any]], None],
        may_switch: Callable[[], bool],
        ping: Callable[[], None],
        drop: Callable[[], None],
    ) -> None:
        self._clock, self._later, self._may_switch, self._ping, self._drop = clock, later, may_switch, ping, drop
        self.last_read: float = clock.seconds()
        self.is_watched = False  # by the heartbeat
        self._awaiting: float | None = None  # since when (clock.seconds) an answer is awaited

    def watch(self) -> None:
        """Begin the heartbeat."""
        self.is_watched = True
        self._later("heartbeat", PING_AFTER, self._check_heartbeat)

    def await_answer(self, is_awaited: bool) -> None:
        """Start or stop the time in which Helen must answer."""
        if not is_awaited:
            self._awaiting = None
        elif self._awaiting is None:
            self._awaiting = self._clock.seconds()
            self._later("answer", SWITCH_PING_AFTER, self._check_answer)

    def forgive(self) -> None:
        """Judge no silence in which this agent slept: a ping comes first, and Helen has its full time to answer it."""
        now = self._clock.seconds()
        self.last_read = max(self.last_read, now - PING_AFTER)
        if self._awaiting is not None:
            self._awaiting = max(self._awaiting, now - SWITCH_PING_AFTER)

    def _check_heartbeat(self) -> None:
        """Ping or drop a silent Helen. The timer is moved only when it fires, so that reading costs nothing."""
        silence = self._clock.seconds() - self.last_read
        left = self._judge(silence, PING_AFTER, DROP_AFTER, "Helen has been silent for {silence:.0f} s and answered no"
                           " ping: dropped")  # fmt: skip
        if left is not None:
            self._later("heartbeat", left, self._check_heartbeat)

    def _check_answer(self) -> None:
        """Ping or drop a Helen that owes an answer. Without another Helen the slower heartbeat is enough."""
        if self._awaiting is None:
            return
        left: float | None = SWITCH_PING_AFTER
        if self._may_switch():
            silence = self._clock.seconds() - max(self.last_read, self._awaiting)
            left = self._judge(silence, SWITCH_PING_AFTER, SWITCH_DROP_AFTER,
                               "Helen has answered nothing for {silence:.0f} s: going to another")  # fmt: skip
        if left is not None:
            self._later("answer", left, self._check_answer)

    def _judge(self, silence: float, ping_after: float, drop_after: float, sentence: str) -> float | None:
        """Return the seconds until the next look, or None if the connection was dropped."""
        if silence >= ping_after + drop_after:
            self.log.error(sentence, silence=silence)
            self._drop()
            return None
        if silence < ping_after:
            return ping_after - silence
        self._ping()
        return ping_after + drop_after - silence
