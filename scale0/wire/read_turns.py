"""Shares the turns of the reactor among ZeroMQ sockets, so that a flood of messages leaves time for everything else."""

from __future__ import annotations

from typing import Any, Protocol

TURN_BUDGET = 128  # messages per reactor turn; at 40 us each that is 5 ms before TLS traffic and timers get their turn
SLICE = 32  # of them, for one socket at a time, so that a flooded socket does not starve the one beside it


class Drained(Protocol):
    """Describes a socket that is read in turns."""

    def drain(self, limit: int) -> int:
        """Receive until nothing is left or `limit` messages came; return how many came."""


class ReadTurns:
    """Reads the sockets of one reactor that are due, round robin, TURN_BUDGET messages a turn."""

    def __init__(self, reactor: Any) -> None:
        self.reactor = reactor
        self._due: dict[Drained, None] = {}
        self._in_turn = False
        self._call: Any = None

    def mark(self, socket: Drained) -> None:
        """Note that a socket may hold messages of which the edge is gone; it is read in this turn or in the next."""
        self._due[socket] = None
        if not self._in_turn and self._call is None:
            self._call = self.reactor.callLater(0, self._next_turn)

    def edge(self, socket: Drained) -> None:
        """Read a socket after an edge of its descriptor, at once if the budget of this reactor turn is not spent."""
        self._due[socket] = None
        if self._call is None:  # else the budget is spent, and the next turn has been asked for
            self._turn()

    def again(self, socket: Drained) -> None:
        """Note from within a drain that the socket is not read to its end."""
        self._due[socket] = None

    def forget(self, socket: Drained) -> None:
        """Read a socket no more: it is closed."""
        self._due.pop(socket, None)

    def stop(self) -> None:
        """Cancel the turn that was asked for."""
        if self._call is not None and self._call.active():
            self._call.cancel()

    def _next_turn(self) -> None:
        self._call = None
        self._turn()

    def _turn(self) -> None:
        due, left, self._in_turn = self._due, TURN_BUDGET, True
        try:
            while due and left > 0:
                socket = next(iter(due))
                del due[socket]
                taken = socket.drain(min(left, SLICE))
                left -= taken + 1  # an empty drain costs a turn's budget too: a send in each must not loop for ever
        finally:
            self._in_turn = False
            if due and self._call is None:
                self._call = self.reactor.callLater(0, self._next_turn)
