"""How much a check flaps: the weighted share of the last 20 results whose status was another than the one before.

The newest weighs 1.2, the oldest 0.8, so that what settles down is believed sooner. Pure; two small tables instead of a
loop, since it is asked for every result of a check that ever changed.
"""

from __future__ import annotations

SIZE = 20  # results that are looked at
MASK = (1 << SIZE) - 1
_HALF = SIZE // 2
_WEIGHTS = [1.2 - 0.4 * age / (SIZE - 1) for age in range(SIZE)]


def _table(weights: list[float]) -> list[float]:
    """The share in per cent for each pattern of ten bits."""
    return [
        100.0 / SIZE * sum(weight for bit, weight in enumerate(weights) if pattern >> bit & 1)
        for pattern in range(1 << _HALF)
    ]


_NEWER, _OLDER = _table(_WEIGHTS[:_HALF]), _table(_WEIGHTS[_HALF:])
_LOW = (1 << _HALF) - 1


def percent(bits: int) -> float:
    """0 for a check that never changes, 100 for one that changes with each result."""
    return _NEWER[bits & _LOW] + _OLDER[bits >> _HALF & _LOW]
