"""HTTP/1.1 as bytes: build a request, read an answer's head, decode a chunked body. Pure: no sockets, no redirects."""

import re
from collections.abc import Callable, Iterator
from urllib.parse import urljoin, urlsplit

from attrs import frozen

from equus.capabilities.address import host_argument
from equus.capabilities.calls import CallFailed, bad

# What Apache and nginx take as one head, four times over: cookies of large sites are the reason.
HEAD_BYTES = 32_768
URL_CHARACTERS = 8192
# A chunk's size line with extensions; real ones have some ten bytes.
CHUNK_LINE_BYTES = 1024
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5]\d\d)(?: ([^\r\n]*))?")
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_TARGET_OK = re.compile(r"[!-~]*")


@frozen
class Target:
    """Where a URL leads."""

    scheme: str
    host: str
    port: int
    path: str  # with the query, as sent

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == {"http": 80, "https": 443}[self.scheme] else f"{host}:{self.port}"


def parse_url(text: str) -> Target:
    """A checked http or https URL."""
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


def follow(base: Target, location: str) -> Target:
    """The target of a redirect."""
    try:
        return parse_url(urljoin(base.url, location.strip()).partition("#")[0])
    except (CallFailed, ValueError):
        raise CallFailed("protocol", f"{base.url} redirects to what is no URL: {location[:200]}") from None


def check_headers(headers: dict[str, object]) -> dict[str, str]:
    """Names in lower case; nothing that could end the line, and none of those that frame the message."""
    checked = {}
    for name, value in headers.items():
        if (
            not isinstance(value, str)
            or not _TOKEN.fullmatch(name)
            or re.search(r"[\r\n\0]", value)
            or len(value) > 4096
        ):
            raise bad(f"host.http: header {name!r} must be one line of text, at most 4096 characters")
        if name.lower() in ("content-length", "transfer-encoding", "connection"):
            raise bad(f"host.http: header {name!r} is set by the call itself")
        checked[name.lower()] = value
    return checked


def request(method: str, target: Target, headers: dict[str, str], body: bytes | None) -> bytes:
    """The bytes of a request on a connection of its own."""
    whole = {"host": target.authority, "user-agent": "equus", "accept": "*/*", "accept-encoding": "identity"} | headers
    whole["connection"] = "close"
    if body is not None:
        whole["content-length"] = str(len(body))
    lines = [f"{method} {target.path} HTTP/1.1", *(f"{name}: {value}" for name, value in whole.items()), "", ""]
    return "\r\n".join(lines).encode("utf-8") + (body or b"")


@frozen
class Head:
    """Status line and headers of an answer."""

    version: str
    status: int
    reason: str
    headers: dict[str, str]


def parse_head(data: bytes) -> Head:
    """Read a head without its last empty line; CallFailed("protocol") for anything that is none."""
    first, *rest = re.split(rb"\r?\n", data)
    status = _STATUS.fullmatch(first)
    if not status:
        raise CallFailed("protocol", f"the answer is not HTTP: {first[:60].decode('utf-8', 'replace')!r}")
    headers: dict[str, str] = {}
    for line in rest:
        name, colon, value = line.decode("utf-8", "replace").partition(":")
        if not colon or not _TOKEN.fullmatch(name):
            raise CallFailed("protocol", f"the answer has a bad header line: {name[:60]!r}")
        key, value = name.lower(), value.strip()
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    return Head(f"1.{status[1].decode()}", int(status[2]), (status[3] or b"").decode("utf-8", "replace"), headers)


class Source:
    """Bytes of a connection with what was read ahead; `receive` answers empty bytes at the end."""

    def __init__(self, receive: Callable[[], bytes]) -> None:
        self._receive = receive
        self._ahead = b""
        self._at = 0  # what lies before is used up; cutting it off for each tiny chunk would copy the rest each time

    def head(self) -> bytes:
        """Everything before the first empty line."""
        while True:
            end = _HEAD_END.search(self._ahead, self._at)
            if end:
                data, self._at = self._ahead[self._at : end.start()], end.end()
                return data
            if len(self._ahead) - self._at > HEAD_BYTES:
                raise CallFailed("too-large", f"the head of the answer is longer than {HEAD_BYTES} bytes")
            if not self._more():
                raise CallFailed("protocol", "the connection ended before a whole HTTP answer")

    def _more(self) -> bool:
        piece = self._receive()
        self._ahead, self._at = self._ahead[self._at :] + piece, 0
        return bool(piece)

    def _line(self) -> bytes:
        while (end := self._ahead.find(b"\n", self._at)) < 0:
            if len(self._ahead) - self._at > CHUNK_LINE_BYTES or not self._more():
                raise CallFailed("protocol", "the chunked body of the answer is broken")
        line, self._at = self._ahead[self._at : end], end + 1
        return line.rstrip(b"\r")

    def some(self, most: int | None) -> Iterator[bytes]:
        """Pieces, `most` bytes in all, or until the end (None); an early end is a fault where a length was promised."""
        left = most
        while left is None or left > 0:
            if self._at == len(self._ahead) and not self._more():
                if left is not None:
                    raise CallFailed("protocol", f"the answer ended {left} bytes early")
                return
            piece = self._ahead[self._at : len(self._ahead) if left is None else self._at + left]
            self._at += len(piece)
            left = None if left is None else left - len(piece)
            yield piece

    def chunks(self) -> Iterator[bytes]:
        """The pieces of a chunked body; its trailers are not read."""
        while True:
            size = self._line().partition(b";")[0].strip()
            if not re.fullmatch(rb"[0-9A-Fa-f]{1,15}", size):
                raise CallFailed("protocol", "the chunked body of the answer is broken")
            if int(size, 16) == 0:
                return
            yield from self.some(int(size, 16))
            if self._line():
                raise CallFailed("protocol", "the chunked body of the answer is broken")

    def body(self, head: Head) -> Iterator[bytes]:
        """The body by the rules of its head."""
        if head.headers.get("transfer-encoding", "").lower().endswith("chunked"):
            return self.chunks()
        length = head.headers.get("content-length")
        if length is None:
            return self.some(None)
        if not re.fullmatch(r"[0-9]{1,18}", length):
            raise CallFailed("protocol", f"the answer has a content-length of {length[:40]!r}")
        return self.some(int(length))
