"""Open tunnels that Helen asks for, each to the program of its kind; close those of a kind that is unknown here.

Helen carries the bytes and can't read them: the other end is at the person who asked for the tunnel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from equus.link.connection import Connection
from equus_protocol import messages as m
from equus_protocol.tunnel_streams import TunnelStream, TunnelStreams


class TunnelProgram(Protocol):
    """Serves the tunnels of one kind."""

    def open(self, description: bytes, stream: TunnelStream) -> None:
        """Attach a program to a stream, now or later, or close it. `description`: JSON, as Helen believes."""

    def policy_changed(self) -> None:
        """Take note that another policy is in force. Blocking, as reading a policy is."""

    def report(self) -> dict[str, Any]:
        """Return what the load report says of the program, by its names there."""


class Tunnels:
    """Holds the tunnels of one connection. `programs` serves each kind, by its name."""

    def __init__(self, connection: Connection, programs: Mapping[str, TunnelProgram]) -> None:
        self._programs = programs
        self._streams = TunnelStreams(
            connection.conversation, connection.send, lambda: connection.is_writable, connection.soon
        )
        self.wake = self._streams.wake  # the connection takes bytes again
        self.connection_lost = self._streams.over
        self.close_all = self._streams.close_all

    def open(self, tunnel: m.Tunnel) -> None:
        """Open a tunnel, or close it at once."""
        stream = self._streams.add(tunnel.message_id)
        program = self._programs.get(tunnel.kind)
        if program is None:
            stream.close("unknown-kind")
        else:
            program.open(tunnel.blob, stream)

    def heard(self, message: Any) -> None:
        """Handle `bytes`, `window` or `close`."""
        self._streams.heard(message)
