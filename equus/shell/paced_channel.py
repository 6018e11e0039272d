"""Hold back what a client sends on a channel while its other side, a program or a connection, takes nothing."""

from __future__ import annotations

from typing import Any

from twisted.conch.ssh.channel import SSHChannel
from twisted.conch.ssh.connection import SSHConnection


class PacedChannel(SSHChannel):
    """A channel whose client is allowed no more bytes while it is choked; so one window is the most that waits."""

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


class PacedConnection(SSHConnection):
    """The channels of a connection, of which a choked one gets no further window."""

    def adjustWindow(self, channel: Any, bytesToAdd: int) -> None:
        """Allow the client more of a channel, unless it is choked."""
        if bytesToAdd > 0 and not (isinstance(channel, PacedChannel) and channel.is_choked):
            super().adjustWindow(channel, bytesToAdd)
