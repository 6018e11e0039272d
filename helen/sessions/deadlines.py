"""Says how long each phase of a connection may last, and when a line or a blob comes too slowly.

Each limit has a test on both sides (tests/helen/sessions/test_connection.py); docs/protocol.rst, section 8, has the
reasons. Nothing here reads a clock: `now` is in monotonic seconds.
"""

from __future__ import annotations

from enum import Enum

from helen.identity.tls import HANDSHAKE_SECONDS

HELLO_SECONDS = 10.0  # from the end of the handshake to the whole line, however busy its bytes
LINE_SECONDS = 30.0  # for one line
BLOB_SECONDS = 60.0  # for one blob, or at BLOB_FLOOR if that takes longer
BLOB_FLOOR = 16_384  # bytes per second
QUIET_SECONDS = 20.0  # without a byte: version 2 is pinged
DEAD_SECONDS = 10.0  # without a byte after that ping: dropped
CLOSE_SECONDS = 3.0  # that a peer has to take our last line and answer our end of TLS
REASSURE_SECONDS = 3.0  # a held agent is pinged so often: it hears that we live, and doesn't go to another Helen


class Phase(Enum):
    """Names the phases of a connection, in their order; each phase may be followed by CLOSING or ENDED as well."""

    HANDSHAKE = "handshake"  # of TLS
    HELLO = "hello"  # enrolment happens here, too
    DECISION = "the roster's decision"
    ADMITTED = "messages"
    CLOSING = "the end"  # the last line is on its way
    ENDED = "nothing"


# Phase -> seconds that it may last; without a row, as long as it likes.
LASTS = {Phase.HANDSHAKE: HANDSHAKE_SECONDS, Phase.HELLO: HELLO_SECONDS, Phase.CLOSING: CLOSE_SECONDS}


class PartialInput:
    """Watches a line or a blob that has come in part, so that a slow peer holds no connection open."""

    __slots__ = ("_since", "bytes", "part")

    def __init__(self) -> None:
        self.bytes = 0  # that have come since the part began
        self.part: str | None = None  # "line" or "blob"; None once a whole message has come: what follows is another
        self._since = 0.0

    def note(self, part: str | None, now: float) -> None:
        """Begin the deadline of `part` at `now`, in monotonic seconds, unless it is running already.

        None: nothing has come in part.
        """
        if part is None or part != self.part:
            self.part, self._since, self.bytes = part, now, 0

    def shift(self, seconds: float) -> None:
        """Move the deadline by the seconds in which nothing was read."""
        self._since += seconds

    def is_due(self, now: float) -> bool:
        """Return True if a part has been incomplete for longer than a line may take. `now`: monotonic seconds."""
        return self.part is not None and now - self._since >= LINE_SECONDS

    def fault(self, now: float) -> str | None:
        """Return a sentence if the part has come too slowly by `now`, in monotonic seconds."""
        lasting = now - self._since
        if self.part == "line":
            return f"a line that takes more than {LINE_SECONDS:g} s"
        if lasting >= BLOB_SECONDS and self.bytes < lasting * BLOB_FLOOR:
            return f"a blob that takes more than {BLOB_SECONDS:g} s at {BLOB_FLOOR} B/s"
        return None
