"""Compares the clocks of peers with this broker's, to tell which clock is wrong. Pure: a part of the broker.

A peer with another time is refused with 422. But if most peers differ in the same direction, or by as much as this
broker's clock was set a moment ago, then it is this broker's clock that needs to be looked at: no peer is refused.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque

from scale0.broker.context import Context

MOST_NAMES = 10_000  # peers of which the clock is remembered
FRESH = 120.0  # seconds for which the clock of a peer counts after it was told, also of one that was refused
FEWEST = 3  # peers that must agree before they outvote this broker's clock
STEP_TRUSTED = 300.0  # seconds after a step of this broker's clock in which it explains what peers differ by
STEPS = 100  # steps remembered
LARGEST = 1e9  # seconds; a peer may tell any number


class Clocks:
    """Holds by how much the clocks of peers differ from this broker's, by the name of the peer."""

    def __init__(self, context: Context) -> None:
        self._c = context
        self._told: OrderedDict[str, tuple[float, float]] = OrderedDict()  # name -> (monotonic seconds, skew)
        self._sides: Counter[int] = Counter()  # how many are behind (-1), right (0), ahead (1)
        self._steps: deque[tuple[float, float]] = deque(maxlen=STEPS)  # (monotonic seconds, step)
        self._is_suspect = False  # an alarm about our own clock was raised, and the reason for it lasts

    def note(self, name: str, skew: float) -> None:
        """Remember that the clock of the peer `name` is `skew` seconds ahead of this broker's."""
        self._forget(name)
        skew = max(-LARGEST, min(LARGEST, skew))
        self._told[name] = (self._c.now, skew)
        self._sides[self._side(skew)] += 1
        while self._told and (len(self._told) > MOST_NAMES or self._oldest() < self._c.now - FRESH):
            self._forget(next(iter(self._told)))
        if self._is_suspect and not self._are_most(1) and not self._are_most(-1):
            self._is_suspect = False
            self._c.log("info", "most peers agree with the clock of this broker again")

    def _oldest(self) -> float:
        return next(iter(self._told.values()))[0]

    def _forget(self, name: str) -> None:
        told = self._told.pop(name, None)
        if told is not None:
            self._sides[self._side(told[1])] -= 1

    def _side(self, skew: float) -> int:
        limit = self._c.config.max_skew
        return (skew > limit) - (skew < -limit)

    def _are_most(self, side: int) -> bool:
        return self._sides[side] >= FEWEST and 2 * self._sides[side] > len(self._told)

    def configured(self) -> None:
        """Count anew, as `max_skew` may be another."""
        self._sides = Counter(self._side(skew) for _, skew in self._told.values())

    def stepped(self, step: float) -> None:
        """Take note that this broker's clock was set by `step` seconds: peers differ by that much less."""
        self._steps.append((self._c.now, step))
        for name, (when, skew) in self._told.items():
            self._told[name] = (when, skew - step)
        self.configured()
        if abs(step) > self._c.config.max_skew:
            way = "ahead" if step > 0 else "back"
            self._c.alarm(f"the clock of this broker's machine went {way} by {abs(step):.0f} s, or it was suspended")

    def is_ours(self, skew: float) -> bool:
        """Return True if a peer that is `skew` seconds ahead must not be refused: the wrong clock is this broker's."""
        side = self._side(skew)
        if self._are_most(side):
            if not self._is_suspect:
                self._is_suspect = True
                self._c.alarm(
                    f"the clocks of {self._sides[side]} of {len(self._told)} peers differ from this broker's, one by"
                    f" {skew:+.0f} s: is the clock of this machine right? No peer is refused for it"
                )
            return True
        recent = sum(step for when, step in self._steps if self._c.now - when <= STEP_TRUSTED)
        return abs(skew + recent) <= self._c.config.max_skew
