"""Reads one HTTP request of the API: bounded in memory, and with what the gate has found out about it.

A body is kept in memory up to MAX_BODY, a stranger's up to much less, and nothing of it is read before its caller is
known. The answer can be held back until it is on disk, and a command goes on to its end even if its client hangs up.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from io import BytesIO
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.python.failure import Failure
from twisted.web.http import parse_qs
from twisted.web.server import Request

from helen.web.access import STRANGER, Caller
from helen.web.connections.clients import Client
from helen.web.problems import PROBLEM_JSON, Problem, document_of

MAX_BODY = 8 * 1024 * 1024  # bytes of a request: a push of a folder of checks
STRANGER_BODY = 65_536  # bytes of a body whose head shows nothing that opens anything: a login, a result with its key

Release = Callable[[bytes], "Deferred[Any]"]
RefusePage = Callable[["ApiRequest", Problem], bytes]
MostBody = Callable[["ApiRequest"], int]


class ApiRequest(Request):
    """Refuses a body that is announced, or grows, beyond what its head allows, and reads no more of it."""

    content: BytesIO | None
    caller: Caller = STRANGER  # the gate sets it
    connection: Client | None = None  # of a site
    subject = ""  # what a command is about, for the audit
    agent = ""  # the name of the agent in the path, if there is one
    is_dry_run = False  # nothing is done, and the audit hears of nothing
    is_uncertain = False  # the answer is an error, and yet what was asked for may be done later
    refuse_page: RefusePage | None = None  # makes an error a page, if a page was asked for
    is_shielded = False  # what it asks for is done to its end, even if the client hangs up
    most_body: MostBody = staticmethod(lambda request: MAX_BODY)  # the gate's; asked when the head is here
    _most = MAX_BODY
    _is_refused = False
    _held: list[bytes] | None = None
    _release: Release = staticmethod(succeed)

    def gotLength(self, length: int | None) -> None:
        """Prepare for a body of so many bytes; None: its length is not announced. The head is here, whole."""
        if self.connection is not None:
            self.connection.head_is_here()
        self.content = BytesIO()
        self._most = self.most_body(self)
        if length is not None and length > self._most:
            self._refuse()

    def handleContentChunk(self, data: bytes) -> None:
        """Keep a piece of the body, or refuse the request that it makes too large."""
        assert self.content is not None
        has_room = self.connection is None or self.connection.keep(len(data))
        if self.content.tell() + len(data) > self._most or not has_room:
            self._refuse()
        elif not self._is_refused:
            self.content.write(data)

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        """Take a request that is here as a whole, with the parameters of its query alone.

        Twisted would read forms as well, on the reactor and before anybody has asked who sends them: 8 MiB of
        multipart/form-data take many seconds. A route that wants a form reads it itself.
        """
        if self._is_refused or self.content is None:
            return
        self.content.seek(0)
        self.method, self.uri, self.clientproto = command, path, version
        self.path, _, query = path.partition(b"?")
        if self.path == b"*":  # Twisted answers it past the gate
            self.path = b"/*"
        self.args = parse_qs(query, True)
        self.process()

    def target(self) -> bytes:
        """Return the path of a request whose head is here, and whose body is not."""
        asked: bytes = getattr(self.channel, "_path", b"")
        return asked.partition(b"?")[0]

    def body(self) -> bytes:
        """Return the body, from its first byte."""
        return b"" if self.content is None else self.content.getvalue()

    def cut(self) -> None:
        """Cut the connection at once. No end of the answer is written."""
        self.chunked = 0
        if self.transport is not None:
            self.transport.abortConnection()

    def later(self, seconds: float, call: Callable[[], object]) -> Any:
        """Call the function after some seconds, by the clock of the site; return Twisted's delayed call."""
        channel: Any = self.channel
        return channel.site.reactor.callLater(seconds, call)

    def hold(self, release: Release) -> None:
        """Keep the answer back until the Deferred that `release(answer)` returns has fired."""
        self._held, self._release = [], release

    def write(self, data: bytes) -> None:
        """Send a piece of the answer, or collect it while the answer is held."""
        if self._held is None:
            super().write(data)
        else:
            self._held.append(data)

    def _refuse(self) -> None:
        """Answer past Twisted, which sends none while the request is still coming in."""
        if self._is_refused:
            return
        self._is_refused = True
        said = f"a request holds at most {self._most} bytes"
        if self._most < MAX_BODY:
            said += f", and one with a token or a key in its head {MAX_BODY}"
        body = document_of(Problem(413, "too large", said))
        head = ("HTTP/1.1 413 Content Too Large", f"content-type: {PROBLEM_JSON}", "connection: close",
                "x-content-type-options: nosniff")  # fmt: skip
        lines = "".join(f"{line}\r\n" for line in (*head, f"content-length: {len(body)}", ""))
        transport: Any = self.channel.transport  # mypy takes the methods of an interface for those of its objects
        transport.write(lines.encode() + body)
        self.channel.loseConnection()

    def connectionLost(self, reason: Failure) -> None:
        """End the request; a shielded one goes on, and those that wait for its end are told at its end."""
        if not self.is_shielded:
            super().connectionLost(reason)
            return
        waiting, self.notifications, content, self.content = self.notifications, [], self.content, None
        super().connectionLost(reason)
        self.notifications, self.content = waiting, content

    def finish(self) -> None:
        """End the answer, once it is released."""
        if self._held is not None:
            body, self._held = b"".join(self._held), None
            self._release(body).addBoth(self._send, body)
        elif not self._disconnected:
            super().finish()
        else:
            self.finished = 1
            waiting, self.notifications = self.notifications, []
            for each in waiting:
                each.callback(None)

    def _send(self, _: object, body: bytes) -> None:
        self.write(body)
        self.finish()


def address_of(request: ApiRequest) -> str:
    """Return the address of the client, as the socket has it; that of loopback for the control socket."""
    return str(getattr(request.getClientAddress(), "host", "127.0.0.1"))


def credential(request: ApiRequest) -> str:
    """Return the secret that a request shows: a bearer token, or the password of Basic authentication; else empty."""
    given = (request.getHeader(b"authorization") or b"").decode("latin-1")  # a header may hold any bytes
    kind, _, rest = given.partition(" ")
    if kind.lower() == "bearer":
        return str(rest.strip())
    if kind.lower() != "basic":
        return ""
    try:
        return base64.b64decode(rest, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return ""
