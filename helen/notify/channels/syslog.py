"""Implement the channel `syslog`: it sends alerts to a log server after RFC 5424, by UDP, TCP, TLS or a Unix socket."""

from __future__ import annotations

import os
import re
import socket
from typing import Any, ClassVar

from attrs import frozen
from OpenSSL import SSL, crypto
from twisted.internet import ssl
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure

from helen.files.toml_table import Table
from helen.notify.attempt import MAX_READ, Attempt, SendFailed
from helen.notify.channels.channel import ChannelKind
from helen.notify.incident_events import alerts_to_tell
from helen.notify.syslog_lines import FACILITIES, MAX_DATAGRAM, MAX_MESSAGE, framed, line

PORTS = {"udp": 514, "tcp": 601, "tls": 6514}
WANTED = '"udp://HOST[:514]", "tcp://HOST[:601]", "tls://HOST[:6514]" or "unix:/dev/log"'
_ADDRESS = re.compile(r"(udp|tcp|tls)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]{1,255})(?::([0-9]{1,5}))?")


@frozen
class Syslog(ChannelKind):
    """Holds the settings of a syslog server. `via`: udp, tcp, tls or unix.

    `ca`: path of a PEM file with the authorities to trust instead of the system's.
    """

    type_name: ClassVar[str] = "syslog"

    via: str
    host: str  # or the path of the socket
    port: int = 0
    facility: str = "daemon"
    ca: str | None = None

    @classmethod
    def read(cls, table: Table) -> Syslog:
        """Take `to`, `facility` and `ca`."""
        to = table.text("to", f"write {WANTED}")
        via, host, port = _address(to)
        if to and not via:
            table.fault("to", f"write {WANTED}")
        facility, ca = table.choice("facility", tuple(FACILITIES), "daemon"), table.text("ca", "write a path", "")
        if ca and via and via != "tls":
            table.faults.append(f"{table.place}: ca is for tls://, and to is {to}")
        return cls(via, host, port, facility, ca or None)

    async def send(self, attempt: Attempt) -> str:
        """Send one message for each alert that has changed, all of them in a repeat. Raises SendFailed."""
        host, process = socket.gethostname(), os.getpid()
        most = MAX_MESSAGE if self.via in ("tcp", "tls") else MAX_DATAGRAM
        told = alerts_to_tell(attempt.message)
        found = [line(alert, fires, self.facility, host, process, most) for alert, fires in told]
        if self.via in ("tcp", "tls"):
            await self._over_stream(attempt, found)
            return f"{len(found)} sent over {self.via}"
        await attempt.in_thread(lambda: self._as_datagrams(found, attempt.timeout))
        return f"{len(found)} sent; {self.via} tells nobody whether they arrived"

    async def _over_stream(self, attempt: Attempt, found: list[bytes]) -> None:
        """Connect, write all of it and wait until the connection has ended well: then the server has taken it.

        Over TLS that takes its own end of TLS, as RFC 5425 has it; one that is cut is sent again.
        """
        reactor = attempt.reactor
        endpoint = await self._endpoint(attempt)
        sender = _Sender(b"".join(map(framed, found)))
        done = Deferred.fromCoroutine(_converse(endpoint, sender))
        late = SendFailed(f"not handed over within {attempt.timeout:g} s")
        done.addTimeout(attempt.timeout, reactor, onTimeoutCancel=lambda _, __: Failure(late))
        try:
            await done
        except SendFailed:
            sender.abort()
            raise
        except Exception as error:
            raise SendFailed(f"no connection to {self.host} port {self.port}: {_reason(error)}") from error

    async def _endpoint(self, attempt: Attempt) -> Any:
        endpoint: Any = HostnameEndpoint(attempt.reactor, self.host.encode(), self.port, timeout=attempt.timeout)
        if self.via == "tcp":
            return endpoint
        roots = await attempt.in_thread(self._roots)
        try:
            options = ssl.optionsForClientTLS(self.host, trustRoot=roots)
        except ValueError as error:
            raise SendFailed(f"{self.host} is no name that a certificate can have: {error}") from error
        return wrapClientTLS(options, endpoint)

    def _as_datagrams(self, found: list[bytes], timeout: float) -> None:
        """Send each by itself. Blocks: a look-up, and a socket of this machine that is full."""
        try:
            with self._socket(timeout) as out:
                for each in found:
                    out.send(each)
        except (OSError, ValueError) as error:
            raise SendFailed(f"{self.host} can't be sent to: {error}") from error

    def _socket(self, timeout: float) -> socket.socket:
        if self.via == "unix":
            out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            address: Any = self.host
        else:
            family, kind, protocol, _, address = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_DGRAM)[0]
            out = socket.socket(family, kind, protocol)
        out.settimeout(timeout)
        try:
            out.connect(address)
        except OSError:
            out.close()
            raise
        return out

    def _roots(self) -> Any:
        if self.ca is None:
            return ssl.platformTrust()
        try:
            with open(self.ca, "rb") as file:
                return ssl.trustRootFromCertificates([ssl.Certificate.loadPEM(file.read(MAX_READ))])
        except (OSError, SSL.Error, crypto.Error, ValueError) as error:
            raise SendFailed(f"the authority {self.ca} can't be read: {error}") from error

    def show(self) -> dict[str, Any]:
        """Return `url`, `facility` and `ca`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        url = f"unix:{self.host}" if self.via == "unix" else f"{self.via}://{host}:{self.port}"
        return {"url": url, "facility": self.facility, "ca": self.ca}


def _address(text: str) -> tuple[str, str, int]:
    """Return the way, the host or path, and the port; empty texts and 0 if it is none."""
    if text.startswith("unix:/"):
        return "unix", text[5:], 0
    found = _ADDRESS.fullmatch(text)
    if found is None:
        return "", "", 0
    via, host, port = found.groups()
    number = PORTS[via] if port is None else int(port)
    return (via, host.strip("[]"), number) if 0 < number < 65_536 else ("", "", 0)


class _Sender(Protocol):
    """Writes its bytes and half-closes. `ended` fires when the connection has ended: that all was written."""

    def __init__(self, content: bytes) -> None:
        self.ended: Deferred[None] = Deferred()
        self._content = content

    def connectionMade(self) -> None:
        """Write all of it; the transport closes when it has left."""
        transport: Any = self.transport
        transport.write(self._content)
        transport.loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Tell how the connection has ended."""
        if not self.ended.called:
            if reason.check(ConnectionDone):
                self.ended.callback(None)
            else:
                self.ended.errback(reason)

    def abort(self) -> None:
        """Close at once."""
        transport: Any = self.transport
        if transport is not None:
            transport.abortConnection()


async def _converse(endpoint: Any, sender: _Sender) -> None:
    await endpoint.connect(Factory.forProtocol(lambda: sender))
    await sender.ended


def _reason(error: Exception) -> str:
    """Return the words of an error of TCP or TLS."""
    if isinstance(error, SSL.Error):
        details = error.args[0] if error.args and isinstance(error.args[0], list) else []
        return "TLS: " + ("; ".join(each[-1] for each in details if each) or "the handshake failed")
    return str(error) or type(error).__name__
