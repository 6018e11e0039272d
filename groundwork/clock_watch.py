"""Notices when the wall clock is set and when the process stood still, by comparing clocks with each other.

The wall clock is compared with the one that counts since the boot, a suspended machine included. A difference that
grows at once is a step of the wall clock. A pause between two looks, or time that only the clock since the boot has
counted, is time slept. The owner looks several times a second; whatever takes a stamp asks `wall`, so no stamp by a new
time is taken before the step is announced. A Helen asks thousands of times a second: a look shortly before is enough as
long as the wall clock goes with the monotonic one.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable

from attrs import frozen

from groundwork.awake_clock import LATE_SECONDS
from groundwork.event import Event
from groundwork.start_clock import Boot, boot_id

STEP_SECONDS = 2.0  # from which a difference is a step: less is what time daemons put right by and by
DRIFT = 0.001  # of the time that passes: so much the wall clock may be slowed down or sped up, and it is no step
SETTLE_SECONDS = 3_600.0  # that a step ahead has to stand before anything expires by it
LOOK_SECONDS = 0.05  # that one look is enough for
NEWS_SECONDS = 10.0  # of a sleep, from which people are told: a busy machine stalls for less
KEPT = 20  # jumps that are kept for those who ask


@frozen
class Jump:
    """Describes one step of the wall clock, or one sleep, or both at once.

    `at`: unix seconds, after it; `stepped`: seconds by which the clock was set, negative for back; `slept`: seconds in
    which the process or the machine stood still.
    """

    at: float
    stepped: float
    slept: float


def seconds_since_boot() -> float:
    """Return the seconds since the boot with those of a suspended machine, or monotonic seconds where none are told."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class ClockWatch:
    """Tells the time by both clocks, and calls `jumped` with each Jump before any stamp by the new time is given.

    `wall` returns unix seconds, `steady` monotonic seconds, `boot` seconds since the boot. Nothing is noticed before
    `begin`: a start may take long.
    """

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        boot: Callable[[], float] = seconds_since_boot,
        late: float = LATE_SECONDS,
    ) -> None:
        self.jumped: Event[[Jump]] = Event()
        self.jumps: deque[Jump] = deque(maxlen=KEPT)
        self.steps = {"back": 0, "ahead": 0}
        self.slept = 0.0  # seconds, since `begin`
        self._wall, self._steady, self._boot, self._late = wall, steady, boot, late
        self._paused = 0.0  # seconds of all pauses by the monotonic clock
        self._looked_at = self._booted_for = -math.inf  # of the last look
        self._apart = self._offset = 0.0  # seconds that the wall clock is ahead of the monotonic one, and of the boot
        self._is_watching = False
        self.doubted_at = 0.0  # unix seconds of the last step or start in doubt: what was said before says nothing
        self._net = self._settled = 0.0  # seconds of all steps; the same as far as it has stood
        self._stepped_at = 0.0  # monotonic seconds
        self._may_confirm = False

    def begin(self, doubt: float = 0.0, may_confirm: bool = False) -> None:
        """Begin to watch, by the time of now, which may be `doubt` seconds ahead: `settled` waits as after a step.

        `may_confirm`: there may have been no step at all, so that `confirm` ends the wait.
        """
        if doubt > 0.0:
            self._net, self._stepped_at, self.doubted_at = self._net + doubt, self._steady(), self._wall()
            self._may_confirm = may_confirm
        self._looked_at, self._booted_for = self._steady(), self._boot()
        self._offset = self._wall() - self._booted_for
        self._apart = self._offset + self._booted_for - self._looked_at
        self._is_watching = True  # last: another thread may ask for the settled time

    def look(self) -> None:
        """Compare the clocks; call this several times a second."""
        if not self._is_watching:
            return
        steady, boot = self._steady(), self._boot()
        wall = self._wall()
        passed, suspended = steady - self._looked_at, (boot - self._booted_for) - (steady - self._looked_at)
        self._looked_at, self._booted_for = steady, boot
        paused = passed if passed >= self._late else 0.0
        stepped = self._stepped(wall - boot, passed)
        self._apart = self._offset + boot - steady
        slept = paused + (suspended if suspended >= self._late else 0.0)
        if stepped or slept:
            self._paused += paused
            self._announce(Jump(wall, stepped, slept), steady)

    def _stepped(self, offset: float, passed: float) -> float:
        """Return the seconds by which the wall clock was set; a drift is followed, and is none."""
        found, most = offset - self._offset, DRIFT * passed
        if abs(found) >= STEP_SECONDS:
            self._offset = offset
            return found
        self._offset += min(max(found, -most), most)
        return 0.0

    def _announce(self, jump: Jump, steady: float) -> None:
        self.jumps.append(jump)
        self.slept += jump.slept
        if jump.stepped:
            self.steps["ahead" if jump.stepped > 0.0 else "back"] += 1
            self._net, self._stepped_at, self.doubted_at = self._net + jump.stepped, steady, jump.at
            self._may_confirm = False
        self.jumped(jump)

    def recall(self, jump: Jump) -> None:
        """Keep a step that was found out otherwise: what is stored lies ahead of the clock at a start."""
        self.jumps.append(jump)
        self.steps["ahead" if jump.stepped > 0.0 else "back"] += 1

    # ---------------------------------------------------------------------------------------------- asking

    def boot(self) -> Boot:
        """Return the boot of the machine by the wall clock of now."""
        return Boot(boot_id(), self._wall() - self._boot())

    def wall(self) -> float:
        """Return unix seconds for a stamp, after a look, unless one was lately and the clock goes on as it did."""
        wall, steady = self._wall(), self._steady()
        if steady - self._looked_at < LOOK_SECONDS and -STEP_SECONDS < wall - steady - self._apart < STEP_SECONDS:
            return wall
        self.look()
        return self._wall()

    def steady(self) -> float:
        """Return monotonic seconds for deadlines of silence, without the pauses, after a look or shortly after one."""
        steady = self._steady()
        if steady - self._looked_at >= LOOK_SECONDS:
            self.look()
            steady = self._steady()
        return steady - self._paused

    def settled(self) -> float:
        """Return unix seconds by which things expire: a step ahead counts only when it has stood for SETTLE_SECONDS."""
        self.look()
        return self._wall() - self.unsettled()

    def settled_for_thread(self) -> float:
        """Return what `settled` does, in any thread: it announces nothing, and counts no step that was not announced.

        Before `begin` it is 0: nothing expires before it is known if the clock of the start is in doubt.
        """
        if not self._is_watching:
            return 0.0
        return min(self._wall(), self._offset + self._boot() + STEP_SECONDS) - self.unsettled()

    def unsettled(self) -> float:
        """Return the seconds by which the clock went ahead, or may be ahead since a start, that don't count yet."""
        if self._steady() - self._stepped_at >= SETTLE_SECONDS:
            self._settled = self._net
        return max(0.0, self._net - self._settled)

    def confirm(self) -> bool:
        """Let the time of now count at once, for others have told the same; return False after a step that is sure.

        Then it has to stand for its hour: the others may go by the source of time that is wrong.
        """
        if self._may_confirm:
            self._settled = self._net
        return self._may_confirm

    def hold(self) -> None:
        """Let the hour begin anew: others tell an earlier time."""
        self._stepped_at = self._steady()
