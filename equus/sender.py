"""Takes reports from the spool to Helen: in order, after `loaded`, never more at once than a window."""

from __future__ import annotations

from collections import deque

from equus.connection import Connection
from equus.spool_segment import Record
from equus.spool_writer import SpoolWriter
from equus_protocol import messages as m

WINDOW = 256 * 1024  # bytes in flight: at a Helen's group commit of 10 ms that is 25 MB/s, and what a crash sends twice


class Sender:
    """One connection's reports. `sent` is the highest sequence said on it."""

    def __init__(self, connection: Connection, writer: SpoolWriter) -> None:
        self._connection = connection
        self._writer = writer
        self.spool = writer.standing.id
        self.sent = writer.standing.first - 1
        self._in_flight: deque[tuple[int, int]] = deque()
        self._flying = 0  # bytes in _in_flight
        self._is_reading = False

    def pump(self) -> None:
        """Send on, if there is something durable, room in the window, and a peer who reads."""
        standing = self._writer.standing
        if (
            standing.id != self.spool
            or self._is_reading
            or not (self._connection.alive and self._connection.is_writable)
        ):
            return
        room = WINDOW - self._flying
        if room > 0 and self.sent < standing.last:
            self._is_reading = True
            self._writer.read(self.spool, self.sent, room, self._read)

    def _read(self, records: list[Record]) -> None:
        self._is_reading = False
        if self._writer.standing.id != self.spool:
            return  # they go out under their new name
        for record in records:
            self._connection.send(m.Report(self.spool, record.sequence, record.check, record.blob))
            self.sent = record.sequence
            self._in_flight.append((record.sequence, len(record.blob)))
            self._flying += len(record.blob)
        self._connection.awaits(bool(self._in_flight))
        if records:
            self.pump()

    def acked(self, ack: m.Ack) -> None:
        """One ack speaks for all before it. Of another spool: late, and of no use."""
        if ack.spool != self.spool:
            return
        while self._in_flight and self._in_flight[0][0] <= ack.sequence:
            self._flying -= self._in_flight.popleft()[1]
        self._connection.awaits(False)  # of what is still in flight the time begins anew
        self._connection.awaits(bool(self._in_flight))
        self._writer.acknowledge(ack.spool, ack.sequence)
        self.pump()
