"""Reads the limits of a gate, such as `errors=5%`, `run-time=2`, `window=1m`, into values. Pure.

docs/rollouts.rst has the table. helen/rollout/gates.py compares the results of a ring with them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attrs import evolve, fields, frozen

from groundwork.durations import parse_duration

MOST_RUNS = 30  # of one check on one agent that count: a check that runs each second would otherwise fill memory
LONGEST = 86_400.0  # seconds of a window or of patience
OFF = "off"
_SHARE, _NUMBER, _COUNT = (
    re.compile(text) for text in (r"[0-9]+(\.[0-9]+)?%", r"[0-9]+(\.[0-9]+)?", r"[1-9][0-9]{0,3}")
)


@frozen
class Limits:
    """Holds the limits of a gate. Shares are of 1; None: not compared. Times in seconds."""

    errors: float = 0.05
    changed: float = 0.05
    missing: float = 0.05
    run_time: float | None = 2.0
    memory: float | None = 1.5
    results: int = 3
    window: float = 30.0
    patience: float = 600.0

    def to_json(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(Limits)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Limits:
        return cls(**{each.name: document[each.name] for each in fields(Limits) if each.name in document})

    @property
    def pause(self) -> float:
        """Return the seconds between two runs that are asked for."""
        return self.window / self.results


USUAL = Limits()
NAMES = tuple(each.name.replace("_", "-") for each in fields(Limits))


def read_limits(said: Mapping[str, str], default: Limits = USUAL) -> Limits:
    """Read limits by name; those that are not given are as in `default`.

    Raises ValueError with a sentence if a name or value is unknown, or patience is shorter than the window.
    """
    found: dict[str, Any] = {}
    for name, text in said.items():
        if name not in NAMES:
            raise ValueError(f"{name!r} is no gate: {', '.join(NAMES)}")
        try:
            found[name.replace("-", "_")] = _READERS[name](text.strip())
        except ValueError as error:
            raise ValueError(f"{name}={text}: {error}") from error
    limits = evolve(default, **found)
    if limits.patience < limits.window:
        raise ValueError("patience is shorter than window: a ring would end before it has been watched")
    return limits


def _share(text: str) -> float:
    number = float(text.removesuffix("%")) if _SHARE.fullmatch(text) else -1.0
    if not 0 <= number <= 100:
        raise ValueError("write a share, from 0% to 100%")
    return number / 100


def _factor(text: str) -> float | None:
    if text == OFF:
        return None
    number = float(text) if _NUMBER.fullmatch(text) else 0.0
    if not 1 <= number <= 1_000:
        raise ValueError(f"write how many times as much it may be, from 1 to 1000, or {OFF}")
    return number


def _count(text: str) -> int:
    if not _COUNT.fullmatch(text) or int(text) > MOST_RUNS:
        raise ValueError(f"write a number from 1 to {MOST_RUNS}")
    return int(text)


def _time(text: str) -> float:
    found = parse_duration(text)
    if not 0 < found <= LONGEST:
        raise ValueError("write a time of a day at most, such as 30s or 10m")
    return found


_READERS: dict[str, Any] = {
    "errors": _share, "changed": _share, "missing": _share, "run-time": _factor, "memory": _factor,
    "results": _count, "window": _time, "patience": _time,
}  # fmt: skip
