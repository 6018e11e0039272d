"""Send reports from the spool to Helen: in order, after `loaded`, never more at once than a window."""

from __future__ import annotations

from collections import deque

from equus.link.connection import Connection
from equus.spool.segment import Record
from equus.spool.spool_thread import SpoolThread
from equus_protocol import messages as m

WINDOW = 256 * 1024  # bytes in flight: 25 MB/s at Helen's group commit of 10 ms; a crash makes so much come twice


class ReportSender:
    """Sends the reports of one connection. `sent` is the highest sequence that was sent on it."""

    def __init__(self, connection: Connection, writer: SpoolThread) -> None:
        self._connection = connection
        self._writer = writer
        self.spool = writer.state.id
        self.sent = writer.state.first - 1
        self._in_flight: deque[tuple[int, int]] = deque()
        self._bytes_in_flight = 0
        self._is_reading = False

    def pump(self) -> None:
        """Send more, if a report is durable, the window has room, and Helen reads.

        A report in memory is sent at once; any other is read from the disk first.
        """
        while self._may_send():
            room = WINDOW - self._bytes_in_flight
            records = self._writer.recent(self.spool, self.sent, room)
            if not records:
                self._is_reading = True
                self._writer.read(self.spool, self.sent, room, self._read)
                return
            self._send(records)

    def _may_send(self) -> bool:
        state, connection = self._writer.state, self._connection
        if state.id != self.spool or self._is_reading or not (connection.alive and connection.is_writable):
            return False
        return self._bytes_in_flight < WINDOW and self.sent < state.last

    def _read(self, records: list[Record]) -> None:
        self._is_reading = False
        if self._writer.state.id != self.spool:
            return  # they are in a new spool now, and are sent from there
        self._send(records)
        if records:
            self.pump()

    def _send(self, records: list[Record]) -> None:
        for record in records:
            self._connection.send(m.Report(self.spool, record.sequence, record.check, record.blob))
            self.sent = record.sequence
            self._in_flight.append((record.sequence, len(record.blob)))
            self._bytes_in_flight += len(record.blob)
        self._connection.await_answer(bool(self._in_flight))

    def acked(self, ack: m.Ack) -> None:
        """Forget all reports up to that of an ack. An ack of another spool is late, and ignored."""
        if ack.spool != self.spool:
            return
        while self._in_flight and self._in_flight[0][0] <= ack.sequence:
            self._bytes_in_flight -= self._in_flight.popleft()[1]
        self._connection.await_answer(False)  # for the rest in flight the time begins anew
        self._connection.await_answer(bool(self._in_flight))
        self._writer.acknowledge(ack.spool, ack.sequence)
        self.pump()
