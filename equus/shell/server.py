"""Speak SSH on one inherited socket: the server of one connection, in a process of its own that listens nowhere.

It ends with its connection. supervisor.py starts it, and ends what it leaves behind.
"""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import load_pem_private_key
from twisted.conch.error import IgnoreAuthentication
from twisted.conch.interfaces import IConchUser
from twisted.conch.ssh import common, keys, transport, userauth
from twisted.conch.ssh.factory import SSHFactory
from twisted.cred.error import UnauthorizedLogin
from twisted.internet import defer, reactor
from twisted.internet.task import LoopingCall
from twisted.logger import globalLogBeginner

from equus.policy.shell import AUDITOR
from equus.shell.account import Account
from equus.shell.auditor import Auditor
from equus.shell.avatar import Avatar
from equus.shell.forward_channel import ForwardChannel
from equus.shell.paced_channel import PacedConnection
from equus.shell.permits import Permit, permit
from equus.shell.recording import Recorder
from equus.shell.server_transport import Transport
from equus.shell.session_channel import SessionChannel
from equus.shell.settings import ServerSettings
from groundwork.safe_text import safe_line

TRIES = 6  # keys that a client may show
LOOK_SECONDS = 5.0  # between two looks at the file of keys
SIGNATURES = frozenset({b"ssh-ed25519", b"ecdsa-sha2-nistp256", b"ecdsa-sha2-nistp384", b"ecdsa-sha2-nistp521",
                        b"rsa-sha2-256", b"rsa-sha2-512"})  # fmt: skip


class User(Avatar):
    """Stands for a person who has logged in as an account of the host."""

    def __init__(self, server: Server, account: Account, opened: Permit, blob: bytes) -> None:
        super().__init__()
        self.account, self.permit, self.blob = account, opened, blob
        self.login = account.name
        self.settings, self.recorder = server.settings, server.recorder
        self.touched, self.note, self.end = server.touched, server.note, server.end
        self.channelLookup[b"session"] = SessionChannel
        if server.settings.forward and opened.may_forward:
            self.channelLookup[b"direct-tcpip"] = ForwardChannel


class PublicKeyAuth(userauth.SSHUserAuthServer):
    """Lets people in by keys and certificates alone."""

    attemptsBeforeDisconnect = TRIES

    def serviceStarted(self) -> None:
        """Offer public keys, and wait. The time for a login is the connection's."""
        self.authenticatedWith: list[bytes] = []
        self.loginAttempts = 0
        self.user: bytes | None = None
        self.nextService: bytes | None = None
        self.supportedAuthentications = [b"publickey"]
        self._cancelLoginTimeout = None

    def auth_publickey(self, packet: bytes) -> Any:
        """Judge a key that is shown, and its signature. Fails with UnauthorizedLogin if it opens nothing."""
        assert self.user is not None and self.nextService is not None
        has_signature = packet[:1] != b"\0"
        algorithm, blob, rest = common.getNS(packet[1:], 2)
        server: Server = self.transport.factory
        user = self.user.decode("utf-8", "replace")
        opened = server.permit(user, blob)
        if opened is None or self.nextService != b"ssh-connection":
            return defer.fail(UnauthorizedLogin("this key opens nothing here"))
        if not has_signature:
            self.transport.sendPacket(userauth.MSG_USERAUTH_PK_OK, packet[1:])
            return defer.fail(IgnoreAuthentication())
        signed = b"".join((
            common.NS(self.transport.sessionID), bytes([userauth.MSG_USERAUTH_REQUEST]), common.NS(self.user),
            common.NS(self.nextService), common.NS(b"publickey"), b"\x01", common.NS(algorithm), common.NS(blob),
        ))  # fmt: skip
        signature = common.getNS(rest)[0]
        if not is_good_signature(opened.key, signature, signed):
            return defer.fail(UnauthorizedLogin("the signature is wrong"))
        try:
            return defer.succeed((IConchUser, server.let_in(user, opened, blob), lambda: None))
        except KeyError:
            return defer.fail(UnauthorizedLogin("there is no such account"))


def is_good_signature(key: bytes, signature: bytes, signed: bytes) -> bool:
    """Return True if this plain public key has made the signature, by an algorithm that is good today."""
    try:
        kind = common.getNS(signature)[0]
        return kind in SIGNATURES and bool(keys.Key.fromString(key, "BLOB").verify(signature, signed))
    except Exception:  # conch raises whatever the bytes lead to
        return False


class Channels(PacedConnection):
    """Holds the channels of a connection."""

    def ssh_GLOBAL_REQUEST(self, packet: bytes) -> None:
        """Refuse every global request: this server listens nowhere for its clients."""
        _, rest = common.getNS(packet)
        if rest[:1] != b"\0":
            self.transport.sendPacket(82, b"")  # MSG_REQUEST_FAILURE


class Server(SSHFactory):
    """Serves one connection by its settings, and ends it when its time, its silence or its key is over."""

    protocol = Transport
    services = {b"ssh-userauth": PublicKeyAuth, b"ssh-connection": Channels}
    noisy = False

    def __init__(self, settings: ServerSettings, clock: Any, wall: Any, over: Any) -> None:
        key = keys.Key(load_pem_private_key(settings.host_key.encode(), None))  # type: ignore[arg-type]
        self.settings, self.over = settings, over
        self.publicKeys, self.privateKeys = {b"ssh-ed25519": key.public()}, {b"ssh-ed25519": key}
        self.primes = None
        self.clock, self._wall = clock, wall
        self._touched_at = self._began = clock.seconds()
        self._user: User | Auditor | None = None
        self._connection: Any = None
        self.recorder: Recorder | None = None
        if settings.room is not None:
            self.recorder = Recorder(Path(settings.recordings), settings.room, wall, clock.seconds)
        self._look = LoopingCall(self._look_again)
        self._look.clock = clock
        self._login_timer = clock.callLater(settings.login, self._nobody)

    def buildProtocol(self, addr: Any) -> Any:
        """Return the protocol of the one connection."""
        self._connection = super().buildProtocol(addr)
        return self._connection

    def permit(self, user: str, blob: bytes) -> Permit | None:
        """Return what a key opens now, None for nothing; a file that can't be used opens nothing, and is noted."""
        try:
            return permit(self.settings.access, user, blob, self._wall())
        except (OSError, ValueError) as error:
            self.note(f"can't look up keys: {error}")
            return None

    def let_in(self, name: str, opened: Permit, blob: bytes) -> User | Auditor:
        """Return the user of a connection that has shown a good key. Raises KeyError if there is no such account."""
        if name == AUDITOR:
            self._user = Auditor(self, opened, blob, Path(self.settings.recordings))
        else:
            self._user = User(self, Account.of(name), opened, blob)
        self.note(f"{opened.who} is in as {name}")
        self._login_timer.cancel()
        self._look.start(LOOK_SECONDS, now=False)
        return self._user

    def _nobody(self) -> None:
        why = f"nobody has logged in within {self.settings.login:g} s"
        self._connection.sendDisconnect(transport.DISCONNECT_NO_MORE_AUTH_METHODS_AVAILABLE, why.encode())

    def touched(self) -> None:
        """Take note that a byte has moved."""
        self._touched_at = self.clock.seconds()

    def note(self, what: str) -> None:
        """Write a line for the agent's log: who, for whom by Helen's word, and what."""
        print(safe_line(f"{self.settings.caller or 'somebody'}: {what}"), file=sys.stderr, flush=True)

    def _look_again(self) -> None:
        why = self._why_over()
        if why is not None:
            self.end(why)

    def end(self, why: str) -> None:
        """End the connection, and tell the client and the log why; only the first reason counts."""
        if self._look.running:
            self._look.stop()
            self.note(why)
            self._connection.sendDisconnect(transport.DISCONNECT_BY_APPLICATION, why.encode())

    def _why_over(self) -> str | None:
        now, user = self.clock.seconds(), self._user
        if now - self._began >= self.settings.most:
            return f"the longest time of a session, {self.settings.most:g} s, is over"
        if now - self._touched_at >= self.settings.idle:
            return f"nothing has moved for {self.settings.idle:g} s"
        if user is not None and self.permit(user.login, user.blob) is None:
            return "the key of this session opens nothing any more"
        return None


def serve(stream: socket.socket, settings: ServerSettings) -> None:
    """Serve one connection to its end."""
    loop: Any = reactor

    def over() -> None:
        loop.callLater(0, loop.stop)

    # Conch tells each channel that it refuses with a traceback: a client must not fill the agent's log.
    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False, discardBuffer=True)
    server = Server(settings, loop, time.time, over)
    server.doStart()
    stream.setblocking(False)
    loop.adoptStreamConnection(stream.fileno(), stream.family, server)
    stream.close()
    loop.run()
