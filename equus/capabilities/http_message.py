"""Write one HTTP/1.1 request and read its answer as bytes: URLs and headers are checked here, framing is h11's work.

Pure: no sockets, and no redirects. h11 knows the grammar; how much of an answer is taken stays a decision of this file.
"""

import re
from collections.abc import Callable, Iterator
from urllib.parse import quote_from_bytes, urljoin, urlsplit

import h11
from attrs import frozen

from equus.capabilities.address import host_argument
from equus.capabilities.calls import CallFailed, bad

# What Apache and nginx take as one head, four times over: cookies of large sites are the reason. No other part of an
# answer that h11 must see whole (a chunk's size line, the trailers) may be longer either.
HEAD_BYTES = 32_768
# Large sites send some 60 headers; Apache takes at most 100 in a request.
MOST_ANSWER_HEADERS = 256
URL_CHARACTERS = 8192
HEADER_NAME_CHARACTERS = 128
HEADER_VALUE_CHARACTERS = 4096
# An excerpt of what a server sent, in an error's sentence.
SHOWN_CHARACTERS = 160
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LINE_BREAKERS = re.compile(r"[\r\n\0\f\v]")
_TARGET_OK = re.compile(r"[!-~]*")
_FRAMING = ("content-length", "transfer-encoding", "connection")
# A server may put blanks between a name and its colon; clients take them away (RFC 9112, 5.1).
_BLANK_NAME = re.compile(rb"(?m)^([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]+:")
_HEAD_END = re.compile(rb"\n\r?\n")
_PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))
_BYTES_SHOWN = re.compile(r"bytearray\(b(.*)\)", re.DOTALL)


@frozen
class Target:
    """Holds the parts of a checked URL that a request needs."""

    scheme: str
    host: str
    port: int
    path: str  # with the query, as sent

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"

    @property
    def authority(self) -> str:
        """Return the host as the Host header has it: with the port, unless it is the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == {"http": 80, "https": 443}[self.scheme] else f"{host}:{self.port}"


def parse_url(text: str) -> Target:
    """Check an http or https URL. Raises CallFailed("bad-arguments") if it is another, or none."""
    if len(text) > URL_CHARACTERS:
        raise bad(f"host.http: url must be at most {URL_CHARACTERS} characters")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise bad("host.http: url is no URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise bad("host.http: url must begin with http:// or https:// and name a host")
    if parts.username is not None:
        raise bad("host.http: url must hold no user and password; use headers.authorization")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not _TARGET_OK.fullmatch(path):
        raise bad("host.http: url has blanks or characters that must be percent-encoded")
    host = host_argument("host.http", parts.hostname)
    return Target(parts.scheme, host, port or (443 if parts.scheme == "https" else 80), path)


def follow(base: Target, location: bytes) -> Target:
    """Return the target of a redirect, with blanks and bytes beyond ASCII percent-encoded as browsers do it.

    Raises CallFailed("protocol") if `location` is no http or https URL.
    """
    try:
        encoded = quote_from_bytes(location.strip(), safe=_PRINTABLE)
        return parse_url(urljoin(base.url, encoded).partition("#")[0])
    except (CallFailed, ValueError):
        shown = location[:200].decode("utf-8", "replace")
        raise CallFailed("protocol", f"{base.url} redirects to what is no URL: {shown}") from None


def check_headers(headers: dict[str, object]) -> dict[str, str]:
    """Return a request's headers with their names in lower case.

    Raises CallFailed("bad-arguments") if one could end its line, is too long, or frames the message.
    """
    checked = {}
    for name, value in headers.items():
        if (
            not isinstance(value, str)
            or not _TOKEN.fullmatch(name)
            or len(name) > HEADER_NAME_CHARACTERS
            or _LINE_BREAKERS.search(value)
            or len(value) > HEADER_VALUE_CHARACTERS
        ):
            raise bad(
                f"host.http: header {name!r} must be one line of text, at most {HEADER_VALUE_CHARACTERS} characters"
            )
        if name.lower() in _FRAMING:
            raise bad(f"host.http: header {name!r} is set by the call itself")
        checked[name.lower()] = value.strip(" \t")
    return checked


@frozen
class Head:
    """Holds status line and headers of an answer.

    Header names are in lower case, values of one name joined by commas.
    """

    version: str
    status: int
    reason: str
    headers: dict[str, str]
    location: bytes | None = None  # as it was sent: its bytes may be no UTF-8


class Exchange:
    """Describes one request and its answer on a connection of their own.

    `receive` returns empty bytes at the connection's end.

    Call `request` once, then `head` until it returns a final status, then `body` once.
    """

    def __init__(self, receive: Callable[[], bytes]) -> None:
        self._receive = receive
        self._connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES)
        self._sent: list[h11.Request | h11.Data | h11.EndOfMessage] = []
        self._head_bytes: bytearray | None = bytearray()  # received of the head that is being read; None behind it
        self._ended = False

    @property
    def unread(self) -> int:
        """Return the number of received bytes that no head and no piece of a body has used up."""
        return len(self._connection.trailing_data[0])

    def request(self, method: str, target: Target, headers: dict[str, str], body: bytes | None) -> bytes:
        """Return the bytes of the request. Raises CallFailed("bad-arguments") if h11 refuses to write it."""
        whole = {"host": target.authority, "user-agent": "equus", "accept": "*/*", "accept-encoding": "identity"}
        whole |= headers | {"connection": "close"}
        if body is not None:
            whole["content-length"] = str(len(body))
        lines = [(name.encode(), value.encode("utf-8", "surrogateescape")) for name, value in whole.items()]
        try:
            self._sent.append(h11.Request(method=method, target=target.path, headers=lines))
            self._sent += [h11.Data(data=body)] if body else []
            self._sent.append(h11.EndOfMessage())
            return b"".join(self._connection.send(event) or b"" for event in self._sent)
        except h11.LocalProtocolError as fault:
            raise bad(f"host.http: {fault}") from None

    def head(self) -> Head:
        """Return the next head: an interim one (status below 200), or the answer's.

        Raises CallFailed: "too-large" beyond HEAD_BYTES, "protocol" if it is no HTTP/1.x.
        """
        try:
            event = self._head_event()
        except h11.RemoteProtocolError as fault:
            if fault.error_status_hint == 431:
                raise CallFailed("too-large", f"the head of the answer is longer than {HEAD_BYTES} bytes") from None
            if self._ended:
                raise CallFailed("protocol", "the connection ended before a whole HTTP answer") from None
            raise CallFailed("protocol", f"the answer is not HTTP: {_sentence(fault)}") from None
        if not isinstance(event, h11.InformationalResponse | h11.Response):
            raise CallFailed("protocol", "the server left HTTP before it answered")
        rest = self._connection.trailing_data[0]
        self._head_bytes = bytearray(rest) if isinstance(event, h11.InformationalResponse) else None
        return _checked(event)

    def _head_event(self) -> object:
        """Return the next head as h11 has it; one that h11 refuses is read again without blanks behind header names."""
        try:
            return self._next_event()
        except h11.RemoteProtocolError:
            received = bytes(self._head_bytes or b"")
            end = _HEAD_END.search(received)
            mended = _BLANK_NAME.sub(rb"\1:", received[: end.end()]) if end else received
            if end is None or len(mended) == end.end():
                raise
        self._connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES)
        for event in self._sent:
            self._connection.send(event)
        self._connection.receive_data(mended + received[end.end() :])
        return self._next_event()

    def body(self) -> Iterator[bytes]:
        """Yield the pieces of the body. Raises CallFailed("protocol") if its framing is broken, or it ends early."""
        try:
            while isinstance(event := self._next_event(), h11.Data):
                yield bytes(event.data)
        except h11.RemoteProtocolError as fault:
            raise CallFailed("protocol", f"the body of the answer is broken: {_sentence(fault)}") from None

    def _next_event(self) -> object:
        while (event := self._connection.next_event()) is h11.NEED_DATA:
            piece = self._receive()
            self._ended = not piece
            if self._head_bytes is not None:
                self._head_bytes += piece
            self._connection.receive_data(piece)
        return event


def _checked(event: h11.InformationalResponse | h11.Response) -> Head:
    """Hold a head that h11 took to our own limits. Raises CallFailed("protocol") if it exceeds one."""
    version, status = event.http_version.decode(), event.status_code
    if version not in ("1.0", "1.1") or not 100 <= status <= 599:
        raise CallFailed("protocol", f"the answer is not HTTP/1.1: version {version}, status {status}")
    if len(event.headers) > MOST_ANSWER_HEADERS:
        raise CallFailed(
            "protocol", f"the answer has {len(event.headers)} headers, and {MOST_ANSWER_HEADERS} are taken"
        )
    headers: dict[str, str] = {}
    location = None
    for name, value in event.headers:
        location = value if name == b"location" and location is None else location
        key, text = name.decode(), value.decode("utf-8", "replace")
        if len(key) > HEADER_NAME_CHARACTERS:
            raise CallFailed("protocol", f"the answer has a bad header line: {key[:60]!r}")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return Head(version, status, event.reason.decode("utf-8", "replace"), headers, location)


def _sentence(fault: h11.RemoteProtocolError) -> str:
    return _BYTES_SHOWN.sub(r"\1", str(fault))[:SHOWN_CHARACTERS]
