"""Read and write the sandbox's sockets in a reactor, and pass whole messages on. The Runner decides what they mean.

Each link belongs to the reactor thread, never blocks, and bounds the bytes that it holds.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from equus.processes.process import receive
from equus.sandbox import frames

# Bytes of one read: a result is most often one or two KiB, and 1 MiB at most.
READ_SIZE = 262_144
# Datagrams taken in one turn of the reactor.
DATAGRAMS_PER_TURN = 64
# Reads from one worker in one turn: a mebibyte in all. After its end: more than net.core.wmem_max lets a socket hold.
READS_PER_TURN = 4
DRAIN_READS = 64


class _Link:
    """Implements Twisted's IReadWriteDescriptor without importing Twisted: `equus lint` has no reactor."""

    def __init__(self, reactor: Any, channel: socket.socket) -> None:
        self._reactor = reactor
        self._channel = channel
        self.closed = False
        channel.setblocking(False)
        reactor.addReader(self)

    def fileno(self) -> int:
        return self._channel.fileno()

    def logPrefix(self) -> str:
        return "sandbox"

    def connectionLost(self, reason: Any) -> None:
        """Close: the reactor found the descriptor broken, or is shutting down."""
        self.close()

    def doRead(self) -> None:
        raise NotImplementedError

    def doWrite(self) -> None:
        self._reactor.removeWriter(self)

    def close(self) -> None:
        """Leave the reactor and close the socket; `lost` is not called for that."""
        if not self.closed:
            self.closed = True
            self._reactor.removeReader(self)
            self._reactor.removeWriter(self)
            self._channel.close()


class ControlLink(_Link):
    """Exchanges datagrams, and descriptors beside them, with the zygote or the broker.

    It calls `heard(message, descriptors)` for each datagram, and `lost()` once when the other side has closed.
    """

    def __init__(
        self, reactor: Any, channel: socket.socket, heard: Callable[[bytes, list[int]], None], lost: Callable[[], None]
    ) -> None:
        self._heard, self._lost = heard, lost
        super().__init__(reactor, channel)

    def doRead(self) -> None:
        """Pass on the datagrams that are there, a bounded number in one turn."""
        for _ in range(DATAGRAMS_PER_TURN):
            if self.closed:
                return
            try:
                message, descriptors = receive(self._channel, frames.CONTROL_LIMIT, 1)
            except BlockingIOError:
                return
            except OSError:
                message, descriptors = b"", []
            if not message:
                self.close()
                self._lost()
                return
            self._heard(message, descriptors)

    def send(self, message: bytes, *descriptors: int) -> bool:
        """Send one datagram. Return False if the other side is gone, or has been stopped for very long."""
        try:
            socket.send_fds(self._channel, [message], descriptors)
        except OSError:
            return False
        return True


class WorkerLink(_Link):
    """Sends one job to a worker and reads its frames: `heard(kind, text)` for each, `lost()` at the end of file.

    A frame of impossible length is passed on as `heard(b"", b"")`.
    """

    def __init__(
        self,
        reactor: Any,
        channel: socket.socket,
        job: bytes,
        heard: Callable[[bytes, bytes], None],
        lost: Callable[[], None],
    ) -> None:
        self._heard, self._lost = heard, lost
        self._out = memoryview(job)
        self._in = bytearray()
        super().__init__(reactor, channel)
        self.doWrite()
        if self._out and not self.closed:
            reactor.addWriter(self)

    def doWrite(self) -> None:
        """Send as much of the job as the socket takes."""
        with suppress(BlockingIOError):
            try:
                while self._out:
                    self._out = self._out[self._channel.send(self._out) :]
            except (BrokenPipeError, ConnectionError):
                self._out = memoryview(b"")  # it ended before it read all; the next read notices
        if not self._out:
            self._reactor.removeWriter(self)

    def drain(self) -> None:
        """Read the frames that a worker left in its socket when it ended."""
        self._read(DRAIN_READS)

    def doRead(self) -> None:
        self._read(READS_PER_TURN)

    def _read(self, times: int) -> None:
        """Read a bounded number of times: a hostile worker may write as fast as this side reads."""
        for _ in range(times):
            if self.closed:
                return
            try:
                part = self._channel.recv(READ_SIZE)
            except BlockingIOError:
                return
            except OSError:
                part = b""
            if not part:
                self.close()
                self._lost()
                return
            self._in += part
            self._take_frames()

    def _take_frames(self) -> None:
        while not self.closed and len(self._in) >= frames.LENGTH.size:
            (length,) = frames.LENGTH.unpack_from(self._in)
            end = frames.LENGTH.size + length
            if not 0 < length <= frames.WORKER_FRAME_LIMIT:
                self._in.clear()
                self._heard(b"", b"")
                return
            if len(self._in) < end:
                return
            kind, text = bytes(self._in[4:5]), bytes(self._in[5:end])
            del self._in[:end]
            self._heard(kind, text)


class AnswerLink(_Link):
    """Answers a worker's host calls with `answer` instead of the broker: `equus test` replays recorded answers."""

    def __init__(self, reactor: Any, channel: socket.socket, answer: Callable[[bytes], bytes]) -> None:
        self._answer = answer
        self._in = bytearray()
        self._out = b""
        super().__init__(reactor, channel)

    def doRead(self) -> None:
        """Read the worker's call; answer it once it is complete."""
        try:
            part = self._channel.recv(READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        if not part:
            self.close()
            return
        self._in += part
        if len(self._in) < frames.LENGTH.size:
            return
        (length,) = frames.LENGTH.unpack_from(self._in)
        if length > frames.CALL_FRAME_LIMIT:
            self.close()
        elif len(self._in) >= frames.LENGTH.size + length:
            answer = self._answer(bytes(self._in[frames.LENGTH.size :]))
            self._in.clear()  # a worker asks one thing at a time
            self._out += frames.LENGTH.pack(len(answer)) + answer
            self._reactor.addWriter(self)

    def doWrite(self) -> None:
        """Send as much of the answer as the socket takes."""
        try:
            self._out = self._out[self._channel.send(self._out) :]
        except BlockingIOError:
            return
        except OSError:
            self._out = b""
        if not self._out:
            self._reactor.removeWriter(self)


def close_all(descriptors: list[int]) -> None:
    """Close descriptors that came beside a datagram and are not used."""
    for descriptor in descriptors:
        os.close(descriptor)
