"""Run the process of one SSH session: its input, its output, its signals and its end, with or without a terminal."""

from __future__ import annotations

import os
import signal
from typing import Any, Protocol

from twisted.internet.error import ProcessExitedAlready
from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure
from zope.interface import implementer


class Channel(Protocol):
    """The channel that a process runs for: session_channel.SessionChannel."""

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
    """The process of one session. As a producer it is the client's input: it waits while the process does not read."""

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
        """Send a signal to the process, or to the group in front on its terminal."""
        if not self.is_running:
            return
        terminal = self._channel.terminal_of()
        try:
            if terminal is not None:
                os.killpg(os.tcgetpgrp(terminal), number)
            else:
                self.transport.signalProcess(number)
        except (OSError, ProcessExitedAlready):
            return

    def hang_up(self) -> None:
        """Close the terminal or the pipes, and send SIGHUP."""
        if self.is_running:
            self.signal(signal.SIGHUP)
            self._let_go()
            self.transport.loseConnection()

    def _let_go(self) -> None:
        """Be its producer no more: a descriptor with a producer that it has paused would never be closed."""
        self.transport.unregisterProducer()
        self._channel.unchoke()
