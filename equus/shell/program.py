"""Open tunnels of the kind `ssh`: each gets a process that speaks SSH, if the host's own policy allows it.

The agent itself sees sealed bytes. It passes settings and one end of a socket to the process, and ends it by closing
that.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import evolve, frozen
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure

from equus.identity.identity import Identity
from equus.policy.policy import PolicyInForce
from equus.processes.process import python_environment, python_module
from equus.shell import host_key
from equus.shell.permits import Access
from equus.shell.recordings import FOLDER, NoRoom, forget_old, prepare
from equus.shell.settings import ServerSettings
from equus_protocol.host_key import sign
from equus_protocol.tunnel_streams import Pace, TunnelStream

END_SECONDS = 20.0  # from the end of a connection until its process must have gone
OPENINGS, OPENINGS_SECONDS = 30, 60.0  # tunnels that may be opened in that time: each costs this host a process
TIDY_SECONDS = 3_600.0  # between two looks for recordings that are too old
KEPT = 30 * 86_400.0  # seconds that recordings are kept where the policy says nothing any more
MAX_CALLER = 200  # characters of a name that Helen says


@frozen
class Started:
    """Holds a process of one connection, and our end of its socket."""

    process: subprocess.Popen[bytes]
    ours: socket.socket


def start(settings: ServerSettings, record_most: int | None = None, others: int = 0) -> Started:
    """Start the process of one connection. Blocking. `record_most`: bytes of all recordings; None: nothing is recorded.

    `others`: connections that are open, each of which may still record its share. Raises OSError if that fails, and
    NoRoom if there is no room for a recording.
    """
    if record_most is not None:
        settings = evolve(settings, room=prepare(Path(settings.recordings), record_most, others))
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            process = subprocess.Popen(
                python_module("equus.shell.supervisor", str(theirs.fileno())),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env=python_environment(),
                cwd="/",
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
            assert process.stdin is not None
            process.stdin.write(settings.dump())
            process.stdin.flush()
        except OSError:
            ours.close()
            raise
    return Started(process, ours)


class ShellProgram:
    """Serves the tunnels of one agent. `state` is its folder, where the host key lies; `identity()`: of the moment.

    It is made where blocking does no harm: it reads the host key.
    """

    log = Logger()

    def __init__(
        self, policy: PolicyInForce, state: Path, identity: Callable[[], Identity | None], reactor: Any,
        defer_to_thread: Callable[..., Deferred[Any]],
    ) -> None:  # fmt: skip
        self._policy, self._state, self._identity = policy, state, identity
        self._recordings = state.absolute() / FOLDER
        self._signed: tuple[bytes, dict[str, str]] | None = None  # certificate and report of the last signature
        self._reactor, self._defer_to_thread = reactor, defer_to_thread
        self._open = 0
        self._opened: deque[float] = deque(maxlen=OPENINGS)  # monotonic seconds
        self._key: host_key.HostKey | None = None
        self.policy_changed()
        reactor.callLater(0, self._tidy)

    def policy_changed(self) -> None:
        """Read the host key, or make it, where the policy lets people in. Blocking. A fault is logged."""
        self._key = self._signed = None
        if self._policy.current.shell is None or os.geteuid() != 0:
            return
        try:
            self._key = host_key.load(self._state)
        except (OSError, ValueError) as error:
            self.log.error("the host key can't be used, so nobody is let in: {why}", why=str(error))

    def report(self) -> dict[str, Any]:
        """Return `{"shell": {"host_key", "signature", "certificate"}}`, or nothing while no login is allowed.

        The signature is by the key of the agent's certificate, so that people can tell this host from a program in
        between.
        """
        identity = self._identity()
        if self._key is None:
            return {}
        if identity is None:
            return {"shell": {"host_key": self._key.line}}
        if self._signed is None or self._signed[0] != identity.certificate:
            said = {"host_key": self._key.line, "signature": sign(self._key.line, identity.key)}
            self._signed = identity.certificate, said | {"certificate": identity.certificate.decode("ascii")}
        return {"shell": self._signed[1]}

    def open(self, description: bytes, stream: TunnelStream) -> None:
        """Start a process for a tunnel, or close it with the reason."""
        shell = self._policy.current.shell
        if shell is None or self._key is None:
            stream.close("denied")
            return
        if self._open >= shell.sessions or self._is_hurried():
            stream.close("busy")
            return
        self._open += 1
        caller = read_caller(description)
        self.log.info("a tunnel to SSH is opened, for {caller} by Helen's word", caller=caller)
        access = Access(shell.users, shell.authorized_keys, shell.trusted_user_ca, shell.auditors)
        settings = ServerSettings(
            self._key.pem, access, shell.command, shell.forward, shell.idle, shell.most, caller, str(self._recordings)
        )
        most = shell.record_mib * 1_048_576 if shell.record else None
        started = self._defer_to_thread(start, settings, most, self._open - 1)
        started.addCallbacks(self._started, self._failed, callbackArgs=(stream,), errbackArgs=(stream,))

    def _is_hurried(self) -> bool:
        """Return True if too many tunnels were opened lately; else count one more."""
        now = self._reactor.seconds()
        if len(self._opened) == OPENINGS and now - self._opened[0] < OPENINGS_SECONDS:
            return True
        self._opened.append(now)
        return False

    def _tidy(self) -> None:
        """Remove recordings that are older than the policy keeps them, in a thread, and again in an hour."""
        shell = self._policy.current.shell
        kept = KEPT if shell is None else shell.keep
        done = self._defer_to_thread(forget_old, self._recordings, kept, time.time())
        done.addErrback(lambda failure: self.log.error("old recordings stay: {why}", why=failure.getErrorMessage()))
        done.addBoth(lambda _: self._reactor.callLater(TIDY_SECONDS, self._tidy))

    def _started(self, started: Started, stream: TunnelStream) -> None:
        factory: Factory[Protocol] = Factory.forProtocol(lambda: LocalEnd(stream, lambda: self._ended(started)))
        factory.noisy = False
        started.ours.setblocking(False)
        try:
            self._reactor.adoptStreamConnection(started.ours.fileno(), socket.AF_UNIX, factory)
        except OSError as error:  # no descriptor is left: it is made of another one
            self.log.error("SSH can't be joined with its tunnel: {why}", why=error.strerror)
            stream.close("failed")
            self._ended(started)
        finally:
            started.ours.close()

    def _failed(self, failure: Failure, stream: TunnelStream) -> None:
        self._open -= 1
        self.log.error("SSH can't be started: {why}", why=failure.getErrorMessage())
        stream.close("full" if failure.check(NoRoom) else "failed")

    def _ended(self, started: Started) -> None:
        """Wait, in a thread, for the process to end all that the session has left behind."""
        self._defer_to_thread(finish, started.process).addBoth(self._gone)

    def _gone(self, _: object) -> None:
        self._open -= 1


def finish(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def read_caller(description: bytes) -> str:
    """Return whom a tunnel is for, by Helen's word, as one line that is safe in a log."""
    try:
        document = json.loads(description)
        words = [str(document[key]) for key in ("caller", "address") if key in document]
    except (ValueError, TypeError, RecursionError):
        words = []
    return "".join(letter if letter.isprintable() else "?" for letter in " at ".join(words))[:MAX_CALLER]


class LocalEnd(Protocol):
    """Serves our end of the socket to the process: the local side of a tunnel, a `Stream` of tunnel_streams."""

    transport: Any

    def __init__(self, stream: TunnelStream, ended: Callable[[], None]) -> None:
        self._stream, self._ended = stream, ended

    def connectionMade(self) -> None:
        """Join the tunnel with the process."""
        self.transport.registerProducer(Pace(self._stream), True)
        self._stream.attach(self)

    def dataReceived(self, data: bytes) -> None:
        """Take bytes of the process."""
        self._stream.read(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Close the tunnel once all bytes of the process are sent: it has ended."""
        self._stream.ended()
        self._ended()

    def write(self, data: bytes) -> None:
        """Give the process bytes of the tunnel."""
        self.transport.write(data)

    def pauseProducing(self) -> None:
        """Read nothing of the process for now."""
        self.transport.pauseProducing()

    def resumeProducing(self) -> None:
        """Read of the process again."""
        self.transport.resumeProducing()

    def loseConnection(self) -> None:
        """Hang up: the tunnel is closed."""
        self.transport.unregisterProducer()
        self.transport.resumeProducing()
        self.transport.loseConnection()
