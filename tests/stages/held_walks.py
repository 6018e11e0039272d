"""Makes fair turns go on by hand: walks wait until a test takes their steps, one at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any


class HeldWalks:
    """Stands in for the fair turns of sessions. `walk` only takes note; `take_all` takes the steps that wait."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[Any], object], Any]] = deque()

    def walk(self, things: Iterable[Any], each: Callable[[Any], object]) -> None:
        self._waiting.extend((each, thing) for thing in list(things))

    @property
    def left(self) -> int:
        """Return how many steps wait."""
        return len(self._waiting)

    def step(self) -> None:
        """Take the next step."""
        each, thing = self._waiting.popleft()
        each(thing)

    def take_all(self, done: Callable[[], int]) -> list[int]:
        """Take all steps, and those that they add; return by how much `done()` has grown in each."""
        sizes = list[int]()
        while self._waiting:
            before = done()
            self.step()
            sizes.append(done() - before)
        return sizes
