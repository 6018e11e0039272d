"""Run one program for an SSH session channel: a shell, a command or SFTP, with a terminal or without one.

A program that does not read, and a client that does not read, stop each other: neither costs this process memory
beyond one window.
"""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import termios
from collections.abc import Callable
from typing import Any

from twisted.conch.ssh import common
from twisted.conch.ssh.connection import EXTENDED_DATA_STDERR
from twisted.conch.ssh.session import parseRequest_pty_req, parseRequest_window_change
from twisted.internet import reactor

from equus.shell.account import Account
from equus.shell.login_process import start
from equus.shell.paced_channel import PacedChannel
from equus.shell.recording import About, Kind, Recording, RecordingFailed
from equus.shell.session_program import Program
from equus.shell.terminal_modes import set_modes

SFTP_SERVERS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/lib/ssh/sftp-server")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MOST_VARIABLES, MOST_VALUE = 32, 256  # of the client, in number and in bytes
SIGNALS = frozenset({b"HUP", b"INT", b"KILL", b"PIPE", b"QUIT", b"TERM", b"USR1", b"USR2", b"ALRM"})


def is_allowed_variable(name: bytes) -> bool:
    """Return True for the few variables that a client may set: its language."""
    return name == b"LANG" or name.startswith(b"LC_")


class SessionChannel(PacedChannel):
    """Serves one session.

    `avatar` is server.User: account, permit, settings, and `touched()` for each byte that moves.
    """

    name = b"session"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._program: Program | None = None
        self._variables: dict[str, str] = {}
        self._terminal: tuple[int, int, str] | None = None
        self._size = (80, 24)  # columns and rows
        self._recording: Recording | None = None
        self._hides_errors = False

    # ---------------------------------------------------------------------------------------------- requests

    def request_env(self, data: bytes) -> bool:
        """Set a variable that is allowed, and refuse any other."""
        name, value, _ = common.getNS(data, 2)
        is_short = len(name) <= MOST_VALUE and len(value) <= MOST_VALUE and len(self._variables) < MOST_VARIABLES
        is_taken = is_allowed_variable(name) and is_short
        if is_taken and b"\0" not in name + value:
            self._variables[name.decode("ascii", "replace")] = value.decode("utf-8", "replace")
        return is_taken

    def request_pty_req(self, data: bytes) -> bool:
        """Make a terminal of the size that the client has; refused if its certificate says so."""
        if self._terminal is not None or not self.avatar.permit.may_pty:
            return False
        term, size, modes = parseRequest_pty_req(data)
        master, slave = os.openpty()
        name = os.ttyname(slave)
        account = self.avatar.account
        if account.uid != os.geteuid():
            os.chown(name, account.uid, account.gid)
        os.chmod(name, 0o600)
        self._terminal = master, slave, name
        self._set_size(size)
        set_modes(slave, modes)
        self._variables |= {"TERM": term.decode("ascii", "replace")[:64].replace("\0", ""), "SSH_TTY": name}
        return True

    def request_window_change(self, data: bytes) -> bool:
        """Give the terminal another size."""
        if self._terminal is not None and (self._program is None or self._program.has_terminal):
            self._set_size(parseRequest_window_change(data))
        return True

    def _set_size(self, size: tuple[int, int, int, int]) -> None:
        """Set rows, columns, width and height of the terminal."""
        assert self._terminal is not None
        size = tuple(min(part, 65_535) for part in size)  # type: ignore[assignment]
        self._size = size[1], size[0]
        self._record(lambda recording: recording.resized(*self._size))
        fcntl.ioctl(self._terminal[0], termios.TIOCSWINSZ, struct.pack("4H", *size))

    def request_shell(self, _data: bytes) -> bool:
        """Start the user's shell, as at a login."""
        return self._start(None)

    def request_exec(self, data: bytes) -> bool:
        """Start a command in the user's shell."""
        return self._start(common.getNS(data)[0].decode("utf-8", "surrogateescape"))

    def request_subsystem(self, data: bytes) -> bool:
        """Start OpenSSH's server of SFTP, if the host has it; there is no other subsystem."""
        server = next(filter(os.path.exists, SFTP_SERVERS), None)
        return common.getNS(data)[0] == b"sftp" and server is not None and self._start(f"exec {server}", server)

    def request_signal(self, data: bytes) -> bool:
        """Send a signal to the program, or to what is in front on its terminal."""
        name = common.getNS(data)[0]
        if name in SIGNALS and self._program is not None:
            self._program.signal(getattr(signal, f"SIG{name.decode()}"))
        return name in SIGNALS

    def _start(self, wanted: str | None, sftp_server: str | None = None) -> bool:
        """Start what is wanted, or what must run instead of it. `sftp_server`: its path, if that is wanted."""
        user = self.avatar
        if self._program is not None or (wanted is not None and "\0" in wanted):
            return False
        account: Account = user.account
        forced = self._forced()
        is_logged = bool(sftp_server and user.recorder and not forced and account.has_full_shell())
        executable, argv = account.shell, ["-" + os.path.basename(account.shell)]
        if forced:
            executable, argv = forced[0], list(forced)
            self._variables |= {} if wanted is None else {"SSH_ORIGINAL_COMMAND": wanted}
        elif sftp_server is not None and is_logged:
            executable, argv = sftp_server, [sftp_server, "-e", "-l", "INFO"]  # no file of the user's decides what runs
        elif wanted is not None:
            argv = [account.shell, "-c", wanted]
        if not self._begin_recording(wanted, is_logged):
            return False
        environment = self._variables | {
            "HOME": account.home, "USER": account.name, "LOGNAME": account.name, "SHELL": account.shell, "PATH": PATH,
        }  # fmt: skip
        self._program = Program(self)
        user.note(f"runs {wanted!r}" if wanted is not None else "begins a shell")
        words = [os.fsencode(each) for each in argv]
        try:
            start(reactor, self._program, account, executable, words, environment, self._terminal)
        except OSError as error:
            self._program = None
            user.note(f"no process can be made: {error.strerror}")
            self._end_recording(f"no process can be made: {error.strerror}")
            return False
        return True

    def _forced(self) -> list[str]:
        """Return what runs whatever is asked for: the policy's command, else the certificate's; empty for none."""
        user = self.avatar
        by_certificate = user.permit.command
        if user.settings.command or by_certificate is None:
            return list(user.settings.command)
        return [user.account.shell, "-c", by_certificate]

    # ---------------------------------------------------------------------------------------------- the recording

    def _begin_recording(self, wanted: str | None, is_sftp: bool) -> bool:
        """Begin the recording, if the policy wants one; return False if there can be none."""
        user = self.avatar
        if user.recorder is None:
            return True
        kind: Kind = "files" if is_sftp else "command" if self._terminal is None else "terminal"
        wanted = None if wanted is None else wanted.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        about = About(
            user.permit.who, user.account.name, user.settings.caller, kind, wanted, self._variables.get("TERM", ""),
            self._size,
        )  # fmt: skip
        try:
            self._recording = user.recorder.begin(about)
        except RecordingFailed as error:
            user.end(str(error))
            return False
        self._hides_errors = is_sftp  # they are the log of the server, for the recording alone
        return True

    def _record(self, event: Callable[[Recording], None]) -> bool:
        """Record an event, before it counts. Return False, and end the connection, if that can't be done."""
        if self._recording is not None:
            try:
                event(self._recording)
            except RecordingFailed as error:
                self.avatar.end(str(error))
                return False
        return True

    # ---------------------------------------------------------------------------------------------- bytes

    def dataReceived(self, data: bytes) -> None:
        """Give the program its input."""
        self.avatar.touched()
        if self._program is not None and self._record(lambda recording: recording.input(data)):
            self._program.write(data)

    def eofReceived(self) -> None:
        """End the program's input."""
        if self._program is not None:
            self._program.end_input()

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
        is_error = descriptor == 2
        if self.localClosed or not self._record(lambda recording: recording.output(data, is_error)):
            return
        if is_error and not self._hides_errors:
            self.writeExtended(EXTENDED_DATA_STDERR, data)
        elif not is_error:
            self.write(data)

    # ---------------------------------------------------------------------------------------------- the end

    def program_ended(self, status: int, number: int | None, has_core: bool) -> None:
        """Tell the client how the program has ended, and close the channel."""
        self._end_recording(f"signal {number}" if number is not None else f"exit status {status}")
        if self.localClosed:
            return
        if number is not None and number in set(signal.Signals):
            name = signal.Signals(number).name.removeprefix("SIG").encode()
            how = common.NS(name) + bytes([has_core]) + common.NS(b"") + common.NS(b"")
            self.conn.sendRequest(self, b"exit-signal", how)
        else:
            told = status if number is None else 128 + number  # a signal without a name, as a shell tells it
            self.conn.sendRequest(self, b"exit-status", struct.pack(">L", told))
        self.loseConnection()

    def closed(self) -> None:
        """Hang the program up: the channel has gone."""
        self._end_recording("the connection has ended")
        if self._program is not None:
            self._program.hang_up()
        elif self._terminal is not None:
            os.close(self._terminal[0])
            os.close(self._terminal[1])
            self._terminal = None

    def _end_recording(self, how: str) -> None:
        if self._recording is not None:
            self._recording.end(how)

    def terminal_of(self) -> int | None:
        """Return the descriptor of the terminal, None if there is none."""
        return None if self._terminal is None else self._terminal[0]
