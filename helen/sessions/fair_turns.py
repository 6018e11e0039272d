"""Shares the reactor fairly: writes are joined, and work on a whole fleet is done a few agents at a time.

`soon` joins all that is said to a connection in one turn; `later` lets one go on listening in the next turn;
`has_time` says if what has just come may be handled in this turn; `walk` goes through many things in short steps, and
`walk_all` says when it is through, or why not.
Connections that flood (helen.sessions.flood_meter) are busy: all of them together have one slice of SLICE_SECONDS at a
time, in rotation, and rest between two, so that a ping of another agent waits for one slice at most, however many
of them there are, and their results leave the journal and the evaluation some time. Walks, busy connections and others
that work long share a rotation: one of them works in each turn of the reactor (helen.turn_rotation).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Cooperator
from twisted.logger import Logger

from helen import garbage_looks
from helen.turn_rotation import LONG_SLICE, SHORT_SLICE, TurnRotation

STEP_SECONDS = SHORT_SLICE  # of work before the reactor looks at its sockets again, while an agent floods
CALM_STEP_SECONDS = LONG_SLICE  # the same at other times: a thousand agents that speak at once pay for each turn
SLICE_SECONDS = 0.0005  # of work for one connection, before others are looked at
REST = 1.0  # times what a busy slice took, until the next one
REST_MOST = 0.010  # seconds
BUSY_SECONDS = 1.0  # after its last slice of a flood a connection counts as busy
STALE_SECONDS = 3 * CALM_STEP_SECONDS  # after which a turn that nobody ended is over; a timer for each would cost more


class TurnsOver(Exception):
    """Ends a walk that is awaited: Helen stops, and gives no more turns."""


class Speaker(Protocol):
    """Describes the part of a connection that FairTurns uses."""

    @property
    def is_busy(self) -> bool:
        """Return True if it has lately flooded."""

    def flush(self) -> None:
        """Write what has been said to it."""

    def listen(self) -> None:
        """Handle what it has sent."""


class FairTurns:
    """Gives turns to connections and to walks. `steady` (monotonic seconds) measures its own steps only."""

    log = Logger()

    def __init__(
        self, reactor: Any, steady: Callable[[], float] = time.monotonic, rotation: TurnRotation | None = None
    ) -> None:
        self._reactor = reactor
        self.rotation = rotation or TurnRotation(reactor, steady)
        self.steady = steady
        self._to_flush: dict[Speaker, None] = {}
        self._to_listen: dict[Speaker, None] = {}
        self._busy: dict[Speaker, None] = {}  # the same of busy connections
        self._next_turn: Any = None
        self._next_busy: Any = None
        self._is_listening = False
        self._busy_rests_until = 0.0  # monotonic seconds
        self._busy_since = -STALE_SECONDS  # monotonic seconds: since when what came in is being handled
        self._walks: deque[tuple[list[Any], Callable[[Any], object]]] = deque()
        self._is_walking = False
        self._awaited: dict[Deferred[None], None] = {}  # of the walks that somebody waits for
        self._is_over = False
        self._cooperator = Cooperator(self._step_budget, self._plan)

    def soon(self, speaker: Speaker) -> None:
        """Flush it once, in the next turn."""
        self._to_flush[speaker] = None
        if self._next_turn is None:
            self._wake()

    def later(self, speaker: Speaker) -> None:
        """Listen to it once more: in the next turn, and if it is busy, when it is its turn among the busy ones."""
        if speaker.is_busy:
            self.rotation.press()
            self._busy[speaker] = None
            self._wake_busy()
        else:
            self._to_listen[speaker] = None
            self._wake()

    def begin(self) -> float:
        """Begin a turn of reading: the time of `has_time` counts from here. A reader of all agents says so itself.

        Return when the turn is over, by `steady`: such a reader looks at the clock behind each agent, without a call.
        """
        now = self._busy_since = self.steady()
        garbage_looks.look()
        return now + (STEP_SECONDS if now < self.rotation.pressed_until else CALM_STEP_SECONDS)

    def has_time(self) -> bool:
        """Return False once the time of this turn has gone: then ask for a turn by `later`, and read no more.

        So that a flood on many connections, which all have bytes in one turn, does not delay an agent among them.
        """
        now = self.steady()
        if now - self._busy_since >= STALE_SECONDS:  # nothing waits, so it was in an earlier turn of the reactor
            self._busy_since = now
            garbage_looks.look()
        return now - self._busy_since < (STEP_SECONDS if now < self.rotation.pressed_until else CALM_STEP_SECONDS)

    def forget(self, speaker: Speaker) -> None:
        """Give no turn to a connection that has gone."""
        self._to_flush.pop(speaker, None)
        self._to_listen.pop(speaker, None)
        self._busy.pop(speaker, None)

    def walk(self, things: Iterable[Any], each: Callable[[Any], object]) -> None:
        """Call `each` with every thing, from the next turn on. Walks end in the order in which they began."""
        self._walks.append((list(things), each))
        if not self._is_walking:
            self._is_walking = True
            self._cooperator.cooperate(self._steps())

    def walk_all(self, things: Iterable[Any], each: Callable[[Any], object]) -> Deferred[None]:
        """Walk like `walk`; the Deferred fires when `each` was called with every thing.

        It fails with the first fault, after which no further thing is taken, and with TurnsOver when Helen stops.
        """
        if self._is_over:
            return fail(TurnsOver("Helen is stopping"))
        done: Deferred[None] = Deferred()

        def take(thing: Any) -> None:
            if not done.called:
                try:
                    each(thing)
                except Exception:
                    self._awaited.pop(done, None)
                    done.errback()

        def end(_: None) -> None:
            if not done.called:
                self._awaited.pop(done, None)
                done.callback(None)

        self._awaited[done] = None
        self.walk(things, take)
        self.walk((None,), end)
        return done

    def stop(self) -> None:
        """Give no more turns. Walks that are awaited fail with TurnsOver."""
        self._is_over = True
        self._walks.clear()
        awaited, self._awaited = self._awaited, {}
        for done in awaited:
            done.errback(TurnsOver("Helen is stopping"))
        self._cooperator.stop()
        for call in (self._next_turn, self._next_busy):
            if call is not None:
                call.cancel()
        self._next_turn = self._next_busy = None

    def _wake(self) -> None:
        if self._next_turn is None:
            self._next_turn = self._reactor.callLater(0, self._turn)

    def _turn(self) -> None:
        self._next_turn, self._busy_since = None, -STALE_SECONDS
        self._listen()
        until = self.steady() + STEP_SECONDS
        while self._to_flush and self.steady() < until:
            speaker = next(iter(self._to_flush))
            del self._to_flush[speaker]
            speaker.flush()
        if self._to_flush:
            self._wake()

    def _listen(self) -> None:
        """Listen to those that wait, each once and the first in any case; those that come too late are first then."""
        until = self.steady() + STEP_SECONDS
        waiting, self._to_listen = self._to_listen, {}
        while waiting:
            speaker = next(iter(waiting))
            del waiting[speaker]
            speaker.listen()
            if self.steady() >= until:
                break
        if waiting:
            self._to_listen = waiting | self._to_listen
            self._wake()

    def _wake_busy(self) -> None:
        if self._next_busy is None and not self._is_listening:
            rest = max(0.0, self._busy_rests_until - self.steady())
            self._next_busy = self.rotation.callLater(rest, self._busy_turn)

    def _busy_turn(self) -> None:
        """Listen to the busy connection that has waited longest, then rest before the next."""
        self._next_busy = None
        if self._busy:
            began = self.steady()
            speaker = next(iter(self._busy))
            del self._busy[speaker]
            self._is_listening = True  # to one of them: if it asks for more, it asks for no rest
            try:
                speaker.listen()
            finally:
                self._is_listening = False
                now = self.steady()
                self._busy_rests_until = now + min(REST_MOST, REST * (now - began))
                if self._busy:
                    self._wake_busy()

    def _plan(self, step: Callable[[], None]) -> Any:
        """Plan the next step of the walks; return the call, which the cooperator cancels when it is stopped."""
        return self.rotation.soon(step)

    def _step_budget(self) -> Callable[[], bool]:
        """Return a function that says when the cooperator has worked for long enough."""
        until = self.steady() + STEP_SECONDS
        garbage_looks.look()
        return lambda: self.steady() >= until

    def _steps(self) -> Iterator[None]:
        """Do one step of the oldest walk at a time; a fault with one agent takes no other's turn."""
        while self._walks:
            things, each = self._walks[0]
            for thing in things:
                try:
                    each(thing)
                except Exception:
                    self.log.failure("a walk through the fleet")
                yield
            if self._walks:  # `stop` clears them
                self._walks.popleft()
        self._is_walking = False
