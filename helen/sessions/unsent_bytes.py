"""Holds what is said to a peer until it is written, and bounds what waits for a peer that doesn't read.

Twisted has no call for how much a transport still holds. A transport without the attributes that are read here (a
test's, a faster one) is taken at the caller's own count.
"""

from __future__ import annotations

from typing import Any

UNSENT_MOST = 4 * 1024 * 1024  # bytes that wait for an agent that doesn't read; then it is cut
UNSENT_MUCH = 65_536  # bytes from which on great answers wait: what Twisted's own transports call full


class OutgoingBytes:
    """Joins all that is said to one peer in a turn into one write."""

    __slots__ = ("_unsent", "parts", "size", "transport_full")

    def __init__(self) -> None:
        self.transport_full = False  # the transport has asked for a pause
        self.parts: list[bytes] = []  # what has been added since the last write
        self.size = 0  # of `parts`
        self._unsent = 0  # bytes written since the transport was empty; an upper bound

    @property
    def is_congested(self) -> bool:
        """Return whether great answers should rather wait, since too many bytes are unsent."""
        return self.transport_full or self.size >= UNSENT_MUCH

    def add(self, data: bytes) -> None:
        """Keep these bytes for the next write."""
        self.parts.append(data)
        self.size += len(data)

    def clear(self) -> None:
        """Forget what was not written."""
        self.parts, self.size = [], 0

    def transport_drained(self) -> None:
        """Take note that the transport has written all it held."""
        self.transport_full = False
        self._unsent = 0

    def flush(self, transport: Any) -> bool:
        """Write what has been added since the last time. False: too much waits already, and nothing is written."""
        if not self.parts:
            return True
        data = self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)
        self.parts, self.size = [], 0
        self._unsent += len(data)
        if self._unsent > UNSENT_MOST and self.transport_full:
            self._unsent = unsent(transport, self._unsent - len(data)) + len(data)
            if self._unsent > UNSENT_MOST:
                return False
        transport.write(data)  # calls pauseProducing at once if that is more than the kernel takes
        if not self.transport_full:
            self._unsent = 0
        return True


def unsent(transport: Any, counted: int) -> int:
    """Return the bytes that wait in `transport` and in those below it: plaintext in TLS, and bytes for the kernel.

    Returns `counted` if no transport of them tells.
    """
    exact = getattr(transport, "unsent", None)
    if isinstance(exact, int):  # of the hub
        return exact
    waiting, known = 0, False
    while transport is not None:
        waiting += sum(map(len, getattr(transport, "_appSendBuffer", ())))
        if hasattr(transport, "dataBuffer"):
            known = True
            waiting += len(transport.dataBuffer) - transport.offset + transport._tempDataLen
        transport = getattr(transport, "transport", None)
    return waiting if known else counted


def release(transport: Any) -> None:
    """Free what an ended transport still holds: an object that refers to it later must not keep megabytes alive."""
    while transport is not None:
        if hasattr(transport, "_appSendBuffer"):
            transport._appSendBuffer = []
        if hasattr(transport, "dataBuffer"):
            transport.dataBuffer, transport.offset = b"", 0
            transport._tempDataBuffer, transport._tempDataLen = [], 0
        transport = getattr(transport, "transport", None)
