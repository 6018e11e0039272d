"""Counts the functions of Python that run: the exact measure of what a hot path costs, on any machine."""

from __future__ import annotations

import gc
import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any


class Counting:
    """Counts calls of functions written in Python while its block runs, by their names in `names`.

    With `threads` it counts calls of threads that begin in the block, and none of this one. Garbage is not collected
    meanwhile, as calls that a collection makes would count as well.
    """

    def __init__(self, threads: bool = False) -> None:
        self.names: Counter[str] = Counter()
        self._threads = threads
        self._before: Any = None
        self._collects = gc.isenabled()

    @property
    def all(self) -> int:
        return self.names.total()

    def __call__(self, frame: Any, event: str, given: Any) -> None:
        if event == "call":
            self.names[frame.f_code.co_name] += 1

    def __enter__(self) -> Counting:
        gc.disable()
        if self._threads:
            threading.setprofile(self)
        else:
            self._before = sys.getprofile()
            sys.setprofile(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._threads:
            threading.setprofile(None)  # type: ignore[arg-type]
        else:
            sys.setprofile(self._before)
            self.names["__exit__"] -= 1  # this one
            self.names += Counter()  # without those of none
        if self._collects:
            gc.enable()


def calls_of(act: Callable[[], object]) -> dict[str, int]:
    """Return the functions of Python that run within `act`, by name, without `act` itself."""
    with Counting() as counts:
        act()
    counts.names[act.__code__.co_name] -= 1  # type: ignore[attr-defined]
    return dict(+counts.names)
