"""Carry bytes between standard input, standard output and a connection, both ways at once, until one side ends.

`ssh` starts `helen tunnel` as its ProxyCommand and talks through it. Nothing blocks: a side that does not read must not
keep the other direction from flowing, or both would wait for each other.
"""

from __future__ import annotations

import os
import select
import socket
import ssl

PIECE = 65_536  # bytes that are read at once, and the most that wait in each direction


def carry(connection: socket.socket, early: bytes, read_from: int, write_to: int) -> None:
    """Carry bytes until the connection ends, or `read_from` has ended and all of it is sent.

    `early` came on the connection already. The descriptors become non-blocking. An OSError of the connection is an end.
    """
    connection.setblocking(False)
    os.set_blocking(read_from, False)
    os.set_blocking(write_to, False)
    _Carrier(connection, early, read_from, write_to).run()


class _Carrier:
    def __init__(self, connection: socket.socket, early: bytes, read_from: int, write_to: int) -> None:
        self._connection, self._read_from, self._write_to = connection, read_from, write_to
        self._up, self._down = b"", early  # what waits to be sent, and to be written
        self._has_input, self._is_over = True, False

    def run(self) -> None:
        while self._down or not self._is_over:
            if not (self._has_input or self._up):
                return
            self._step()

    def _step(self) -> None:
        reads: list[int] = [] if self._down or self._is_over else [self._connection.fileno()]
        writes: list[int] = [self._write_to] if self._down else []
        if not self._is_over:
            reads += [self._read_from] if self._has_input and not self._up else []
            writes += [self._connection.fileno()] if self._up else []
        held = isinstance(self._connection, ssl.SSLSocket) and not self._down and self._connection.pending() > 0
        readable, writable, _ = select.select(reads, writes, [], 0 if held else None)
        if self._write_to in writable:
            self._write()
        if self._connection.fileno() in writable:
            self._send()
        if held or self._connection.fileno() in readable:
            self._receive()
        if self._read_from in readable:
            self._read()

    def _write(self) -> None:
        try:
            self._down = self._down[os.write(self._write_to, self._down) :]
        except BlockingIOError:
            pass
        except OSError:  # nobody reads any more
            self._down, self._is_over = b"", True

    def _send(self) -> None:
        try:
            self._up = self._up[self._connection.send(self._up) :]
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError:
            self._is_over = True

    def _receive(self) -> None:
        try:
            self._down = self._connection.recv(PIECE)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError:
            self._down = b""
        self._is_over = not self._down

    def _read(self) -> None:
        try:
            self._up = os.read(self._read_from, PIECE)
        except BlockingIOError:
            return
        except OSError:
            self._up = b""
        self._has_input = bool(self._up)
