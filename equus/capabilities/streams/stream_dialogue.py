"""Send texts on an open connection, and read until enough has come back. Opens and closes nothing."""

from typing import Any

from attrs import frozen

from equus.capabilities.calls import CallFailed, Fields, bad
from equus.capabilities.streams.stream import Stream

# Bytes of a banner or a status page; at most one blob of the protocol.
RECEIVE_DEFAULT, RECEIVE_LIMIT = 4096, 1_048_576
SEND_LIMIT = 65_536
MOST_SENDS = 20


def as_bytes(call: str, name: str, value: Any, as_hex: bool) -> bytes:
    """Return an argument as bytes: from hexadecimal digits, or a text as UTF-8. Raises CallFailed if it is neither."""
    if not isinstance(value, str):
        raise bad(f"{call}: {name} must be a text")
    try:
        data = bytes.fromhex(value) if as_hex else value.encode("utf-8", "surrogateescape")
    except ValueError:
        raise bad(f"{call}: {name} must be hexadecimal digits, as hex = true says") from None
    if len(data) > SEND_LIMIT:
        raise bad(f"{call}: {name} must be at most {SEND_LIMIT} bytes")
    return data


def as_text(data: bytes, as_hex: bool) -> str:
    return data.hex() if as_hex else data.decode("utf-8", "replace")


@frozen
class Dialogue:
    """Holds the texts to send and the conditions that end reading."""

    sends: tuple[bytes, ...]
    expect: bytes | None
    until: bytes | None
    some: bool
    limit: int
    as_hex: bool

    @classmethod
    def take(cls, fields: Fields) -> "Dialogue":
        """Read a Dialogue from the arguments of a call. Raises CallFailed if they are wrong, or contradictory."""
        call, send, as_hex = fields.call, fields.take("send"), fields.flag("hex", False)
        items = send if isinstance(send, list) else [] if send is None else [send]
        if len(items) > MOST_SENDS:
            raise bad(f"{call}: send has at most {MOST_SENDS} items")
        expect, until, some = fields.take("expect"), fields.take("until"), fields.flag("some", False)
        found = cls(
            tuple(as_bytes(call, "send", item, as_hex) for item in items),
            None if expect is None else as_bytes(call, "expect", expect, as_hex),
            None if until is None else as_bytes(call, "until", until, as_hex),
            some,
            fields.whole("limit", RECEIVE_DEFAULT, 0, RECEIVE_LIMIT),
            as_hex,
        )
        if some and (len(items) > 1 or found.expect or found.until):
            raise bad(f"{call}: some takes what comes first, so it goes with neither expect, until nor a list to send")
        if len(items) > 1 and not found.until:
            raise bad(f"{call}: a list to send needs until, which says when the next item is due")
        return found

    def run(self, stream: Stream) -> dict[str, Any]:
        """Send and read. Return {"received", "closed"}, and "matched" if `expect` was given."""
        received, closed = self._exchange(stream)
        answer = {"received": as_text(received, self.as_hex), "closed": closed}
        return answer if self.expect is None else answer | {"matched": self.expect in received}

    def _exchange(self, stream: Stream) -> tuple[bytes, bool]:
        """Return all bytes received, and True if the peer closed the connection."""
        received, closed, seen = b"", False, 0
        # In a protocol with turns the server's greeting comes before the first item to send.
        waiting = list(self.sends) if len(self.sends) > 1 else []
        if not waiting and self.sends:
            stream.send(self.sends[0])
        if not (self.sends or self.expect or self.until or self.some):
            return received, closed
        while len(received) < self.limit:
            piece = self._more(stream, len(received), bool(received))
            if not piece:
                closed = piece is not None
                break
            received += piece
            if waiting and self.until and self.until in received[seen:]:
                seen = len(received)
                stream.send(waiting.pop(0))
            elif not waiting and self._enough(received, seen):
                break
        return received, closed

    def _more(self, stream: Stream, have: int, may_end: bool) -> bytes | None:
        """Return the next piece, or None if the time is over and `may_end`: some bytes have come before."""
        try:
            return stream.receive(self.limit - have)
        except CallFailed as failed:
            if failed.code == "timeout" and may_end:
                return None
            raise

    def _enough(self, received: bytes, seen: int) -> bool:
        return (
            self.some
            or bool(self.expect and self.expect in received)
            or bool(self.until and self.until in received[seen:])
        )
