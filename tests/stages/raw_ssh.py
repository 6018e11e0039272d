"""Is a client of SSH that says what a test wants, on a socket that blocks; OpenSSH's client would never say it."""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Any

from openssh import PATIENCE
from twisted.conch.ssh import transport
from twisted.conch.ssh.common import NS
from twisted.conch.ssh.keys import Key
from twisted.internet.defer import Deferred, succeed

SERVICE_REQUEST, USERAUTH_REQUEST, FAILURE, SUCCESS = 5, 50, 51, 52
CHANNEL_OPEN, OPENED, NOT_OPENED, WINDOW, DATA, STDERR, CLOSE, REQUEST = 90, 91, 92, 93, 94, 95, 97, 98


class RawClient(transport.SSHClientTransport):
    """Keeps all that the server says but for changes of keys, as (number, payload)."""

    supportedKeyExchanges = (b"curve25519-sha256",)

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self.heard: list[tuple[int, bytes]] = []
        self.is_secure = self.is_over = False
        self.transport: Any = self
        self.write, self.loseConnection = self._socket.sendall, self._socket.close
        self.connectionMade()
        while not (self.is_secure or self.is_over):
            self.read()

    def verifyHostKey(self, _key: bytes, _fingerprint: bytes) -> Deferred[bool]:
        return succeed(True)

    def connectionSecure(self) -> None:
        self.is_secure = True

    def dispatchMessage(self, messageNum: int, payload: bytes) -> None:
        if 20 <= messageNum < 50:
            super().dispatchMessage(messageNum, payload)
        else:
            self.heard.append((messageNum, payload))

    def read(self) -> None:
        """Read once."""
        try:
            data = self._socket.recv(65_536)
        except ConnectionResetError:
            data = b""
        self.is_over = not data
        if data:
            self.dataReceived(data)

    def wait_for(self, *numbers: int) -> tuple[int, bytes]:
        """Return the first message of one of these numbers, and forget all up to it."""
        while True:
            for place, (number, payload) in enumerate(self.heard):
                if number in numbers:
                    del self.heard[: place + 1]
                    return number, payload
            assert not self.is_over, f"the connection has ended; none of {numbers} in {self.heard}"
            self.read()

    def rest(self) -> list[tuple[int, bytes]]:
        """Return all that comes up to the end."""
        while not self.is_over:
            self.read()
        return self.heard

    def close(self) -> None:
        self._socket.close()

    # ---------------------------------------------------------------------------------------------- requests

    def ask_for_login(self, user: str, key: Path) -> None:
        """Ask for the service and show a key with its signature, without a wait."""
        self.sendPacket(SERVICE_REQUEST, NS(b"ssh-userauth"))
        self.show_key(user, key)

    def show_key(self, user: str, key: Path) -> None:
        """Show a key with its signature, without a wait."""
        known = Key.fromFile(str(key))
        said = NS(user.encode()) + NS(b"ssh-connection") + NS(b"publickey") + b"\1" + NS(known.sshType())
        said += NS(known.public().blob())
        assert self.sessionID is not None
        signature = known.sign(NS(self.sessionID) + bytes([USERAUTH_REQUEST]) + said)
        self.sendPacket(USERAUTH_REQUEST, said + NS(signature))

    def log_in(self, user: str, key: Path) -> None:
        self.ask_for_login(user, key)
        assert self.wait_for(SUCCESS, FAILURE)[0] == SUCCESS

    def open(
        self, number: int, window: int, packet: int, kind: bytes = b"session", more: bytes = b""
    ) -> tuple[int, int]:
        """Open a channel; return the number of the answer and that of the channel at the server."""
        self.sendPacket(CHANNEL_OPEN, NS(kind) + struct.pack(">3L", number, window, packet) + more)
        answer, payload = self.wait_for(OPENED, NOT_OPENED)
        return answer, struct.unpack(">L", payload[4:8])[0]

    def run(self, channel: int, command: bytes) -> None:
        self.sendPacket(REQUEST, struct.pack(">L", channel) + NS(b"exec") + b"\0" + NS(command))
