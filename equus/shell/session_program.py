"""Run the process of one SSH session: its input, its output, its signals and its end, with or without a terminal."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import Any, Protocol

from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure
from zope.interface import implementer


class Channel(Protocol):
    """Describes the channel that a process runs for: session_channel.SessionChannel."""

    def choke(self) -> None:
        """Allow the client no more input: the program does not read."""

    def unchoke(self) -> None:
        """Allow the client a full window again."""

    def output(self, descriptor: int, data: bytes) -> None:
        """Send what the program has written."""

    def program_ended(self, status: int, number: int | None, has_core: bool) -> None:
        """Tell the client how the program has ended, and close the channel."""

    def terminal_of(self) -> int | None:
        """Return the descriptor of the terminal, None if there is none."""


@implementer(IPushProducer)
class Program(ProcessProtocol):
    """Describes the process of one session.

    As a producer it is the client's input: it waits while the process does not read.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.is_running = True

    def connectionMade(self) -> None:
        """Stop the client's input while the process does not take it."""
        self.transport.registerProducer(self, True)

    def pauseProducing(self) -> None:
        """Take no more input."""
        self._channel.choke()

    def resumeProducing(self) -> None:
        """Take input again."""
        self._channel.unchoke()

    def stopProducing(self) -> None:
        """Drop all further input: the process has closed it."""
        self._channel.unchoke()

    def childDataReceived(self, childFD: int, data: bytes) -> None:
        """Pass output on."""
        self._channel.output(childFD, data)

    def processEnded(self, reason: Failure) -> None:
        """Tell the channel once all output has come."""
        self.is_running = False
        how: Any = reason.value
        has_core = how.status is not None and os.WCOREDUMP(how.status)
        self._channel.program_ended(how.exitCode or 0, how.signal, has_core)

    @property
    def has_terminal(self) -> bool:
        """Return True while its terminal is open: later the descriptor's number may be that of another file."""
        return self.is_running and self._channel.terminal_of() is not None and bool(self.transport.connected)

    def write(self, data: bytes) -> None:
        """Give the process input."""
        if self.is_running:
            self.transport.write(data)

    def end_input(self) -> None:
        """End the input: a terminal has a character for it."""
        if not self.is_running:
            return
        if self._channel.terminal_of() is not None:
            self.transport.write(b"\x04")
        else:
            self._let_go()
            self.transport.closeStdin()

    def pause(self) -> None:
        """Read no output for now."""
        if self.is_running:
            self.transport.pauseProducing()

    def resume(self) -> None:
        """Read output again."""
        if self.is_running:
            self.transport.resumeProducing()

    def signal(self, number: int) -> None:
        """Send a signal to the group of the process, or to the one in front on its terminal.

        A terminal that the process has given up has no group in front, and 0 would name the group of this server.
        """
        leader = self.transport.pid
        if not self.is_running or leader is None:
            return
        front, terminal = 0, self._channel.terminal_of()
        with suppress(OSError):
            if terminal is not None and self.has_terminal:
                front = os.tcgetpgrp(terminal)
        with suppress(OSError):
            os.killpg(front or leader, number)

    def hang_up(self) -> None:
        """Send SIGHUP, and close the terminal or the pipes."""
        if self.is_running:
            self.signal(signal.SIGHUP)
            self._let_go()
            self.transport.loseConnection()

    def _let_go(self) -> None:
        """Be its producer no more: a descriptor with a producer that it has paused would never be closed."""
        self.transport.unregisterProducer()
        self._channel.unchoke()
