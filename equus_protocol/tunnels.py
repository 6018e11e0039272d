"""Keep account of the tunnels of one connection: which ids are open, and how many bytes each side may still send.

A tunnel is a stream of bytes in each direction, cut into `bytes` messages. Each side sends only as many bytes as the
other has allowed (its credit), so a slow reader costs neither side memory, and no tunnel fills the connection.
`Conversation` asks here if a message is legal, in either direction. docs/protocol.rst, "tunnel", is the specification.
"""

from __future__ import annotations

from attrs import define

from equus_protocol import messages as m

MAX_TUNNELS = 16  # open at once on one connection
MAX_FRAME = 16_384  # bytes in one message, so that results and pings go between two of them
MAX_WINDOW = 1_048_576  # bytes that one side may be allowed to send: what the other may have to keep
MAX_DESCRIPTION = 4_096  # bytes of the JSON of `tunnel`

KINDS = frozenset({m.Tunnel, m.Bytes, m.Window, m.Close})
Fault = tuple[str, str]  # a slug of errors.SLUGS, and a sentence for the log


@define
class Account:
    """Counts what one tunnel allows: `credit` are the bytes that this side may send, `granted` those of the peer."""

    credit: int = 0
    granted: int = 0
    we_closed: bool = False
    they_closed: bool = False


class Tunnels:
    """Holds the accounts of the open tunnels of one connection by message id.

    Each side closes a tunnel once. Its id is free when both have, so what was on the way meanwhile is no fault.
    """

    def __init__(self) -> None:
        self.open: dict[int, Account] = {}

    def fault(self, kind: type, message_id: int, value: object, size: int, ours: bool) -> Fault | None:
        """Return why a message is illegal now, None if it is legal.

        `value` is the third field of `tunnel` (its window) or the second one of `window`, `size` the length of the
        blob in bytes. `ours`: it goes to the peer.
        """
        if kind is m.Tunnel:
            return self._open_fault(message_id, value, size)
        account = self.open.get(message_id)
        if account is None or (account.we_closed if ours else account.they_closed):
            return "unknown-message-id", f"{kind.__name__} for {message_id}, which is no open tunnel"
        if kind is m.Bytes:
            return _bytes_fault(message_id, size, account.credit if ours else account.granted)
        if kind is m.Window:
            return _window_fault(message_id, value, account.granted if ours else account.credit)
        return None

    def _open_fault(self, message_id: int, window: object, size: int) -> Fault | None:
        if message_id in self.open:
            return "unknown-message-id", f"tunnel {message_id} is still open"
        if len(self.open) >= MAX_TUNNELS:
            return "too-many-outstanding", f"more than {MAX_TUNNELS} tunnels at once"
        if size > MAX_DESCRIPTION:
            return "blob-too-large", f"{size} bytes describe a tunnel; {MAX_DESCRIPTION} is the most"
        return _window_fault(message_id, window, 0)

    def note(self, message: m.Tunnel | m.Bytes | m.Window | m.Close, ours: bool) -> None:
        """Take note of a legal message, sent (`ours`) or received."""
        if isinstance(message, m.Tunnel):
            self.open[message.message_id] = Account(granted=message.window) if ours else Account(credit=message.window)
            return
        account = self.open[message.message_id]
        if isinstance(message, m.Bytes) and ours:
            account.credit -= len(message.blob)
        elif isinstance(message, m.Bytes):
            account.granted -= len(message.blob)
        elif isinstance(message, m.Window) and ours:
            account.granted += message.more
        elif isinstance(message, m.Window):
            account.credit += message.more
        else:
            self._close(message.message_id, account, ours)

    def _close(self, message_id: int, account: Account, ours: bool) -> None:
        if ours:
            account.we_closed = True
        else:
            account.they_closed = True
        if account.we_closed and account.they_closed:
            del self.open[message_id]


def _bytes_fault(message_id: int, size: int, left: int) -> Fault | None:
    if size == 0:
        return "bad-int", f"no bytes at all for tunnel {message_id}"
    if size > MAX_FRAME:
        return "blob-too-large", f"{size} bytes for tunnel {message_id}; {MAX_FRAME} is the most in one message"
    if size > left:
        return "window-exceeded", f"{size} bytes for tunnel {message_id}, which allows {left}"
    return None


def _window_fault(message_id: int, more: object, held: int) -> Fault | None:
    if isinstance(more, int) and held + more > MAX_WINDOW:
        return "window-exceeded", f"tunnel {message_id} allows {held + more} bytes; {MAX_WINDOW} is the most"
    return None
