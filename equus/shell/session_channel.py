"""Run one program for an SSH session channel: a shell, a command or SFTP, with a terminal or without one.

A program that does not read, and a client that does not read, stop each other: neither costs this process memory
beyond one window.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import signal
import struct
import termios
from typing import Any

from attrs import frozen
from twisted.conch.ssh import common
from twisted.conch.ssh.channel import SSHChannel
from twisted.conch.ssh.connection import EXTENDED_DATA_STDERR
from twisted.conch.ssh.session import parseRequest_pty_req, parseRequest_window_change
from twisted.internet import reactor
from twisted.internet.error import ProcessExitedAlready
from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure
from zope.interface import implementer

SFTP_SERVERS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/lib/ssh/sftp-server")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MOST_VARIABLES, MOST_VALUE = 32, 256  # of the client, in number and in bytes
SIGNALS = frozenset({b"HUP", b"INT", b"KILL", b"PIPE", b"QUIT", b"TERM", b"USR1", b"USR2", b"ALRM"})


@frozen
class Account:
    """A user of the host."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str

    @classmethod
    def of(cls, name: str) -> Account:
        """Return the account of a user. Raises KeyError if there is none. May ask the host's directory of users."""
        found = pwd.getpwnam(name)
        home = found.pw_dir if os.path.isdir(found.pw_dir) else "/"
        return cls(name, found.pw_uid, found.pw_gid, home, found.pw_shell or "/bin/sh")


def is_allowed_variable(name: bytes) -> bool:
    """Return True for the few variables that a client may set: its language."""
    return name == b"LANG" or name.startswith(b"LC_")


class SessionChannel(SSHChannel):
    """One session. `avatar` is server.User: account, permit, settings, and `touched()` for each byte that moves."""

    name = b"session"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.is_choked = False  # the program does not read
        self._program: Program | None = None
        self._variables: dict[str, str] = {}
        self._terminal: tuple[int, int, str] | None = None

    # ---------------------------------------------------------------------------------------------- requests

    def request_env(self, data: bytes) -> bool:
        """Set a variable that is allowed, and refuse any other."""
        name, value, _ = common.getNS(data, 2)
        is_taken = is_allowed_variable(name) and len(value) <= MOST_VALUE and len(self._variables) < MOST_VARIABLES
        if is_taken and b"\0" not in name + value:
            self._variables[name.decode("ascii", "replace")] = value.decode("utf-8", "replace")
        return is_taken

    def request_pty_req(self, data: bytes) -> bool:
        """Make a terminal of the size that the client has; refused if its certificate says so."""
        if self._terminal is not None or not self.avatar.permit.may_pty:
            return False
        term, size, _ = parseRequest_pty_req(data)
        master, slave = os.openpty()
        name = os.ttyname(slave)
        account = self.avatar.account
        if account.uid != os.geteuid():
            os.chown(name, account.uid, account.gid)
        os.chmod(name, 0o600)
        self._terminal = master, slave, name
        self._set_size(size)
        self._variables |= {"TERM": term.decode("ascii", "replace")[:64].replace("\0", ""), "SSH_TTY": name}
        return True

    def request_window_change(self, data: bytes) -> bool:
        """Give the terminal another size."""
        if self._terminal is not None and (self._program is None or self._program.is_running):
            self._set_size(parseRequest_window_change(data))
        return True

    def _set_size(self, size: tuple[int, int, int, int]) -> None:
        assert self._terminal is not None
        fcntl.ioctl(self._terminal[0], termios.TIOCSWINSZ, struct.pack("4H", *(min(part, 65_535) for part in size)))

    def request_shell(self, _data: bytes) -> bool:
        """Start the user's shell, as at a login."""
        return self._start(None)

    def request_exec(self, data: bytes) -> bool:
        """Start a command in the user's shell."""
        return self._start(common.getNS(data)[0].decode("utf-8", "surrogateescape"))

    def request_subsystem(self, data: bytes) -> bool:
        """Start OpenSSH's server of SFTP, if the host has it; there is no other subsystem."""
        server = next(filter(os.path.exists, SFTP_SERVERS), None)
        return common.getNS(data)[0] == b"sftp" and server is not None and self._start(f"exec {server}")

    def request_signal(self, data: bytes) -> bool:
        """Send a signal to the program, or to what is in front on its terminal."""
        name = common.getNS(data)[0]
        if name in SIGNALS and self._program is not None:
            self._program.signal(getattr(signal, f"SIG{name.decode()}"))
        return name in SIGNALS

    def _start(self, wanted: str | None) -> bool:
        user = self.avatar
        if self._program is not None or (wanted is not None and "\0" in wanted):
            return False
        account: Account = user.account
        forced = user.settings.command
        argv = [account.shell, "-c", wanted] if wanted is not None else ["-" + os.path.basename(account.shell)]
        executable = account.shell
        if user.permit.command is not None:
            argv = [account.shell, "-c", user.permit.command]
        if forced:
            executable, argv = forced[0], list(forced)
        if wanted is not None and (forced or user.permit.command is not None):
            self._variables["SSH_ORIGINAL_COMMAND"] = wanted
        environment = self._variables | {
            "HOME": account.home, "USER": account.name, "LOGNAME": account.name, "SHELL": account.shell, "PATH": PATH,
        }  # fmt: skip
        self._program = Program(self)
        others = () if account.uid == os.geteuid() else (account.uid, account.gid)
        user.note(f"runs {wanted!r}" if wanted is not None else "begins a shell")
        reactor.spawnProcess(  # type: ignore[attr-defined]
            self._program, executable, [each.encode("utf-8", "surrogateescape") for each in argv], environment,
            account.home, *others, usePTY=self._terminal or 0,
        )  # fmt: skip
        return True

    # ---------------------------------------------------------------------------------------------- bytes

    def dataReceived(self, data: bytes) -> None:
        """Give the program its input."""
        self.avatar.touched()
        if self._program is not None:
            self._program.write(data)

    def eofReceived(self) -> None:
        """End the program's input."""
        if self._program is not None:
            self._program.end_input()

    def choke(self) -> None:
        """Allow the client no more input: the program does not read."""
        self.is_choked = True

    def unchoke(self) -> None:
        """Allow the client a full window again."""
        self.is_choked = False
        if not (self.localClosed or self.remoteClosed):
            self.conn.adjustWindow(self, self.localWindowSize - self.localWindowLeft)

    def stopWriting(self) -> None:
        """Read nothing of the program: the client does not read."""
        if self._program is not None:
            self._program.pause()

    def startWriting(self) -> None:
        """Read of the program again."""
        if self._program is not None:
            self._program.resume()

    def output(self, descriptor: int, data: bytes) -> None:
        """Send what the program has written."""
        self.avatar.touched()
        if self.localClosed:
            return
        if descriptor == 2:
            self.writeExtended(EXTENDED_DATA_STDERR, data)
        else:
            self.write(data)

    # ---------------------------------------------------------------------------------------------- the end

    def program_ended(self, status: int, number: int | None, has_core: bool) -> None:
        """Tell the client how the program has ended, and close the channel."""
        if self.localClosed:
            return
        if number is not None:
            name = signal.Signals(number).name.removeprefix("SIG").encode()
            how = common.NS(name) + bytes([has_core]) + common.NS(b"") + common.NS(b"")
            self.conn.sendRequest(self, b"exit-signal", how)
        else:
            self.conn.sendRequest(self, b"exit-status", struct.pack(">L", status))
        self.loseConnection()

    def closed(self) -> None:
        """Hang the program up: the channel has gone."""
        if self._program is not None:
            self._program.hang_up()
        elif self._terminal is not None:
            os.close(self._terminal[0])
            os.close(self._terminal[1])
            self._terminal = None

    def terminal_of(self) -> int | None:
        """Return the descriptor of the terminal, None if there is none."""
        return None if self._terminal is None else self._terminal[0]


@implementer(IPushProducer)
class Program(ProcessProtocol):
    """The process of one session. As a producer it is the client's input: it waits while the process does not read."""

    def __init__(self, channel: SessionChannel) -> None:
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
