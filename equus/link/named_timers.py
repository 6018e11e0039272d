"""Keep the timers of one connection by name, and notice when one fires late because the agent slept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from groundwork.awake_clock import LATE_SECONDS


class NamedTimers:
    """Holds at most one timer of each name, on the reactor's clock, so that all can be cancelled together.

    `overslept` is called before a timer that fires LATE_SECONDS or more behind its time: nobody was heard meanwhile.
    """

    def __init__(self, clock: Any, overslept: Callable[[], None]) -> None:
        self._clock, self._overslept = clock, overslept
        self._timers: dict[str, Any] = {}

    def later(self, name: str, seconds: float, call: Callable[[], Any], is_patient: bool = False) -> None:
        """Call `call` in so many seconds, unless a timer of this name is set.

        A patient one begins anew if it fires late.
        """
        if name not in self._timers:
            self._timers[name] = self._clock.callLater(seconds, self._fire, name, seconds, call, is_patient)

    def cancel(self, name: str) -> None:
        """Cancel the timer of this name, if there is one."""
        if timer := self._timers.pop(name, None):
            timer.cancel()

    def cancel_all(self) -> None:
        """Cancel every timer."""
        for name in list(self._timers):
            self.cancel(name)

    def _fire(self, name: str, seconds: float, call: Callable[[], Any], is_patient: bool) -> None:
        planned = self._timers.pop(name).getTime()
        if self._clock.seconds() - planned >= LATE_SECONDS:
            self._overslept()
            if is_patient:
                self.later(name, seconds, call, is_patient)
                return
        call()
