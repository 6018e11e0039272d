"""Bound what one person's connection may hold open, for every kind of person that server.py lets in."""

from __future__ import annotations

from typing import Any

from twisted.conch.avatar import ConchUser
from twisted.conch.error import ConchError
from twisted.conch.ssh.connection import OPEN_RESOURCE_SHORTAGE

MOST_CHANNELS = 10  # of one connection, as OpenSSH has it; and as many forwarded ones on their way, open or not
LEAST_PACKET = 256  # bytes that a client has to take at once: one that takes none would get packets without an end


class Avatar(ConchUser):
    """Stands for a person who has shown a good key."""

    connecting = 0  # forwarded connections that are not made yet

    def lookupChannel(self, channelType: bytes, windowSize: int, maxPacket: int, data: bytes) -> Any:
        """Return a new channel. Raises ConchError if there are too many, or none of this kind or of such packets."""
        if max(len(self.conn.channels), self.connecting) >= MOST_CHANNELS:
            raise ConchError("too many channels", OPEN_RESOURCE_SHORTAGE)
        if maxPacket < LEAST_PACKET:
            raise ConchError(f"packets of {maxPacket} bytes are too small", OPEN_RESOURCE_SHORTAGE)
        return super().lookupChannel(channelType, windowSize, maxPacket, data)
