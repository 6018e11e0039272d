"""Hold back what a client sends on a channel while its other side, a program or a connection, takes nothing.

And hold back that side while the client takes nothing, whatever window it has given: its word costs no memory here.
"""

from __future__ import annotations

from typing import Any

from twisted.conch.ssh.channel import SSHChannel
from twisted.conch.ssh.connection import SSHConnection


class PacedChannel(SSHChannel):
    """Describes a channel whose client is allowed no more bytes while it is choked.

    So one window is the most that waits.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.is_choked = False

    def choke(self) -> None:
        """Allow the client no more."""
        self.is_choked = True

    def unchoke(self) -> None:
        """Allow the client a full window again."""
        self.is_choked = False
        if not (self.localClosed or self.remoteClosed):
            self.conn.adjustWindow(self, self.localWindowSize - self.localWindowLeft)

    def write(self, data: bytes) -> None:
        """Send bytes; read no more of them while the connection is full."""
        super().write(data)
        self._hold_if_full()

    def writeExtended(self, dataType: int, data: bytes) -> None:
        """Send bytes of another kind; read no more of them while the connection is full."""
        super().writeExtended(dataType, data)
        self._hold_if_full()

    def closeReceived(self) -> None:
        """Close the channel: the client takes nothing of what waits for its window."""
        self.buf, self.extBuf = b"", []
        super().closeReceived()

    def _hold_if_full(self) -> None:
        if self.conn.is_full:
            self.stopWriting()


class PacedConnection(SSHConnection):
    """Holds the channels of a connection, of which a choked one gets no further window."""

    is_full = False  # what was sent waits here, since the client does not read

    def hold(self) -> None:
        """Read nothing more that would have to be sent."""
        self.is_full = True
        for channel in list(self.channels.values()):
            channel.stopWriting()

    def go_on(self) -> None:
        """Read again, for those channels that have a window."""
        self.is_full = False
        for channel in list(self.channels.values()):
            if channel.areWriting:
                channel.startWriting()

    def adjustWindow(self, channel: Any, bytesToAdd: int) -> None:
        """Allow the client more of a channel, unless it is choked."""
        if bytesToAdd > 0 and not (isinstance(channel, PacedChannel) and channel.is_choked):
            super().adjustWindow(channel, bytesToAdd)
