"""Cut a stream into the `bytes` messages of a tunnel, and allow the peer more as its own bytes are taken. Pure.

One end of a tunnel stands between a stream (a socket, a process) and a connection. Its driver stops reading the stream
while the end is full, and asks for one frame at a time, so that several tunnels and all other messages take turns.
"""

from __future__ import annotations

from equus_protocol import messages as m
from equus_protocol.tunnels import MAX_FRAME, Account

WINDOW = 262_144  # bytes that are allowed ahead: 5 MB a second at 50 ms there and back
FULL = 4 * MAX_FRAME  # bytes that wait for credit, from which on the stream is not read: what one read may bring


class TunnelEnd:
    """Holds the bytes of a stream that wait for credit, and says when the peer may send more."""

    def __init__(self, message_id: int, account: Account, window: int = WINDOW) -> None:
        """Begin with `window` bytes, which the peer may send ahead of what the stream has taken."""
        self.message_id = message_id
        self._account = account
        self._window = window
        self._waiting = bytearray()

    @property
    def waiting(self) -> int:
        """Return how many bytes of the stream wait to be sent."""
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Return True while the stream should not be read."""
        return len(self._waiting) >= FULL

    def put(self, data: bytes) -> None:
        """Keep bytes of the stream until frames take them."""
        self._waiting += data

    def frame(self) -> m.Bytes | None:
        """Return the next message with bytes of the stream, None while there are none or no credit is left."""
        size = min(len(self._waiting), self._account.credit, MAX_FRAME)
        if size <= 0 or self._account.we_closed or self._account.they_closed:
            return None
        part = bytes(self._waiting[:size])
        del self._waiting[:size]
        return m.Bytes(self.message_id, part)

    def taken(self) -> m.Window | None:
        """Return the message that allows more, once the stream has taken all it was given; None while there is none.

        It is sent when half of the window is used up: one for each message of the peer would double their number.
        """
        more = self._window - self._account.granted
        if more < self._window // 2 or self._account.we_closed or self._account.they_closed:
            return None
        return m.Window(self.message_id, more)
