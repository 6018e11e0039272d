"""Who has the reactor next: what concerns the whole fleet is done a few agents at a time, and writes are joined.

`soon` joins all that is said to a connection in one turn; `later` lets a busy one go on listening in the next turn;
`walk` goes through many things in short steps. One `callLater(0)` at most is waiting for all of them.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from twisted.logger import Logger

STEP_SECONDS = 0.004  # of work before the reactor looks at its sockets again


class Speaker(Protocol):
    """A connection, as it is seen from here."""

    def flush(self) -> None: ...

    def listen(self) -> None: ...


class Turns:
    """`steady` is read for its own steps only; it decides nothing else."""

    log = Logger()

    def __init__(self, reactor: Any, steady: Callable[[], float] = time.monotonic) -> None:
        self._reactor = reactor
        self._steady = steady
        self._dirty: dict[Speaker, None] = {}
        self._late: dict[Speaker, None] = {}
        self._walks: deque[tuple[Iterator[Any], Callable[[Any], object]]] = deque()
        self._waiting: Any = None

    def soon(self, speaker: Speaker) -> None:
        """Write what was said to it once, in the next turn."""
        self._dirty[speaker] = None
        self._wake()

    def later(self, speaker: Speaker) -> None:
        """Go on listening to it in the next turn."""
        self._late[speaker] = None
        self._wake()

    def forget(self, speaker: Speaker) -> None:
        """It has gone."""
        self._dirty.pop(speaker, None)
        self._late.pop(speaker, None)

    def walk(self, things: Iterable[Any], each: Callable[[Any], object]) -> None:
        """Call `each` with every thing, from the next turn on. Walks end in the order in which they began."""
        self._walks.append((iter(list(things)), each))
        self._wake()

    def stop(self) -> None:
        """Nothing is done any more."""
        self._walks.clear()
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _wake(self) -> None:
        if self._waiting is None:
            self._waiting = self._reactor.callLater(0, self._turn)

    def _turn(self) -> None:
        self._waiting = None
        until = self._steady() + STEP_SECONDS
        late, self._late = self._late, {}
        for speaker in late:
            speaker.listen()
        while self._dirty and self._steady() < until:
            speaker = next(iter(self._dirty))
            del self._dirty[speaker]
            speaker.flush()
        while self._walks and self._steady() < until:
            self._step()
        if self._dirty or self._walks:
            self._wake()

    def _step(self) -> None:
        things, each = self._walks[0]
        try:
            each(next(things))
        except StopIteration:
            self._walks.popleft()
        except Exception:  # what is wrong with one agent keeps nobody else from its turn
            self.log.failure("a walk through the fleet")
