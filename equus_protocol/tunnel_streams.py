"""Join the tunnels of one connection with the streams that they are for, one `bytes` of each in turn.

Both sides of the protocol do the same here. Sockets, clock and connection come in as objects with a few methods, those
of Twisted's transports.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from equus_protocol import messages as m
from equus_protocol.conversation import Conversation
from equus_protocol.tunnel_end import WINDOW, TunnelEnd
from equus_protocol.tunnels import Account

Send = Callable[[m.Message], None]
TunnelMessage = m.Bytes | m.Window | m.Close


class Stream(Protocol):
    """Describes the local side of a tunnel, as a transport of Twisted is one."""

    def write(self, data: bytes) -> None:
        """Take bytes of the peer."""

    def pauseProducing(self) -> None:
        """Read nothing for now."""

    def resumeProducing(self) -> None:
        """Read again."""

    def loseConnection(self) -> None:
        """End, once all that was written has left."""


class Tunnel(Protocol):
    """Describes a tunnel to the code that joins its local side: a TunnelStream, or a tunnel of another Helen."""

    sent: int
    received: int
    on_end: Callable[[str], None]

    def attach(self, local: Stream) -> None:
        """Join the local side, and allow the peer its first bytes. After the end: end the local side."""

    def read(self, data: bytes) -> None:
        """Take bytes of the local side, to be sent."""

    def choke(self) -> None:
        """Allow the peer nothing more for now: the local side does not take what was written to it."""

    def unchoke(self) -> None:
        """Allow the peer more: the local side has taken all."""

    def ended(self) -> None:
        """Close the tunnel once what the local side has brought is sent: there will be no more."""

    def cut(self) -> None:
        """Close the tunnel if it is not over yet, whatever was not sent."""


class TunnelStream:
    """Carries one tunnel. `on_open()` is called when the peer allows bytes for the first time, `on_end(reason)` once.

    `sent` and `received` count bytes. `reason` is a word of docs/protocol.rst, or any other that the peer says.
    """

    def __init__(self, message_id: int, account: Account, send: Send, wake: Callable[[], None]) -> None:
        self.message_id = message_id
        self.sent = self.received = 0
        self.on_open: Callable[[], None] = lambda: None
        self.on_end: Callable[[str], None] = lambda reason: None
        self.is_open = False
        self.is_over = False
        self._account, self._send, self._wake = account, send, wake
        self._end = TunnelEnd(message_id, account, WINDOW)
        self._local: Stream | None = None
        self._is_paused = False  # the local side is not read, since it is quicker than the tunnel
        self._is_choked = False  # the local side takes nothing for now
        self._has_ended = False  # the local side will bring no more

    # ---------------------------------------------------------------------------------------------- the local side

    def attach(self, local: Stream) -> None:
        """Join the local side, and allow the peer its first bytes. After the end: end the local side."""
        if self.is_over:
            local.loseConnection()
            return
        self._local = local
        self._allow()

    def read(self, data: bytes) -> None:
        """Take bytes of the local side, to be sent."""
        if self.is_over:
            return
        self._end.put(data)
        if self._end.is_full and self._local is not None and not self._is_paused:
            self._is_paused = True
            self._local.pauseProducing()
        self._wake()

    def choke(self) -> None:
        """Allow the peer nothing more for now: the local side does not take what was written to it."""
        self._is_choked = True

    def unchoke(self) -> None:
        """Allow the peer more: the local side has taken all."""
        self._is_choked = False
        self._allow()

    def ended(self) -> None:
        """Close the tunnel once what the local side has brought is sent: there will be no more."""
        self._local, self._has_ended = None, True
        self._wake()

    def cut(self) -> None:
        """Close the tunnel if it is not over yet, whatever was not sent."""
        if not self.is_over:
            self.close("done")

    def close(self, reason: str) -> None:
        """Close the tunnel now; what was not sent is lost."""
        if not self._account.we_closed:
            self._send(m.Close(self.message_id, reason))
        self.finish(reason)

    def _allow(self) -> None:
        if not self.is_over and (more := self._end.taken()) is not None:
            self._send(more)

    # ---------------------------------------------------------------------------------------------- the peer's side

    def step(self) -> bool:
        """Send one message with bytes, if there are any; return True if there is more to send at once."""
        if self.is_over:
            return False
        frame = self._end.frame()
        if frame is not None:
            self.sent += len(frame.blob)
            self._send(frame)
        if self._is_paused and not self._end.is_full and self._local is not None:
            self._is_paused = False
            self._local.resumeProducing()
        if self._has_ended and not self._end.waiting:
            self.close("done")
            return False
        return bool(self._end.waiting and self._account.credit)

    def heard(self, message: TunnelMessage) -> None:
        """Handle a message of the peer. Messages after the end are passed over, but for its `close`."""
        if isinstance(message, m.Close):
            self.close(message.reason)
        elif self.is_over:
            return
        elif isinstance(message, m.Bytes):
            self.received += len(message.blob)
            if self._local is not None:
                self._local.write(message.blob)
            if not self._is_choked and not self._has_ended:
                self._allow()
        elif not self.is_open:
            self.is_open = True
            self.on_open()
            self._wake()
        else:
            self._wake()

    def finish(self, reason: str) -> None:
        """End both sides; nothing is sent. The connection calls it when it is lost."""
        if self.is_over:
            return
        self.is_over = True
        local, self._local = self._local, None
        if local is not None:
            local.loseConnection()
        self.on_end(reason)


class Pace:
    """Acts as a push producer for the transport of a local side: the peer sends no more while that is full."""

    def __init__(self, stream: Tunnel) -> None:
        self.pauseProducing, self.resumeProducing = stream.choke, stream.unchoke

    def stopProducing(self) -> None:
        """Do nothing: the end is told in another way."""


class TunnelStreams:
    """Holds all tunnels of one connection.

    `may_send()` returns False while the connection holds bytes that were not written: then `wake` has to be called when
    it has written them. `later(call)` calls in the next turn of the reactor.
    """

    def __init__(
        self, conversation: Conversation, send: Send, may_send: Callable[[], bool],
        later: Callable[[Callable[[], None]], object],
    ) -> None:  # fmt: skip
        self._conversation, self._send, self._may_send, self._later = conversation, send, may_send, later
        self._streams: dict[int, TunnelStream] = {}
        self._is_waiting = False  # for the next turn

    def __len__(self) -> int:
        return len(self._streams)

    def add(self, message_id: int) -> TunnelStream:
        """Return the stream of a tunnel that has just been opened by a `tunnel`, sent or received."""
        account = self._conversation.tunnels.open[message_id]
        stream = self._streams[message_id] = TunnelStream(message_id, account, self._send, self.wake)
        return stream

    def heard(self, message: TunnelMessage) -> None:
        """Handle a message of the peer for one of the tunnels."""
        stream = self._streams.get(message.message_id)
        if stream is not None:
            stream.heard(message)
            self._drop_closed(message.message_id)

    def wake(self) -> None:
        """Take a turn soon."""
        if not self._is_waiting:
            self._is_waiting = True
            self._later(self.turn)

    def turn(self) -> None:
        """Send one message of each tunnel, as long as the connection takes them; those that had none are first then."""
        self._is_waiting = False
        has_more = False
        for message_id, stream in list(self._streams.items()):
            if not self._may_send():
                return
            has_more |= stream.step()
            self._streams.pop(message_id, None)
            self._streams[message_id] = stream
            self._drop_closed(message_id)
        if has_more:
            self.wake()

    def over(self) -> None:
        """End all streams: the connection is lost."""
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            stream.finish("connection-lost")

    def close_all(self, reason: str) -> None:
        """Close all tunnels now."""
        for message_id, stream in list(self._streams.items()):
            stream.close(reason)
            self._drop_closed(message_id)

    def _drop_closed(self, message_id: int) -> None:
        if message_id not in self._conversation.tunnels.open:
            self._streams.pop(message_id, None)
