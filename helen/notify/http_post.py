"""Posts JSON to a URL: one request, no redirect followed, a bounded answer, one deadline for all of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from attrs import frozen
from OpenSSL import SSL, crypto
from twisted.internet import ssl
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.error import ConnectError, ConnectionClosed, DNSLookupError
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import (  # type: ignore[attr-defined]  # two are not in its __all__
    Agent,
    BrowserLikePolicyForHTTPS,
    HTTPConnectionPool,
    PotentialDataLoss,
    RequestGenerationFailed,
    RequestNotSent,
    RequestTransmissionFailed,
    ResponseDone,
    ResponseFailed,
    ResponseNeverReceived,
    _HTTP11ClientFactory,
)
from twisted.web.http_headers import Headers
from twisted.web.iweb import IBodyProducer
from zope.interface import implementer

from helen.notify.attempt import MAX_READ, Attempt, SendFailed
from helen.notify.secrets import show_url

LONGEST_RETRY = 3_600.0  # seconds: a Retry-After beyond it is taken for this
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]
USER_AGENT = "helen-equus"
BROKEN_OFF = ResponseNeverReceived, ResponseFailed, RequestTransmissionFailed, RequestGenerationFailed


@frozen
class Request:
    """Describes a POST to be made. `ca`: path of a PEM file with the authorities to trust instead of the system's."""

    url: str
    headers: dict[str, str]
    body: bytes
    ca: str | None = None


def is_url(url: str) -> bool:
    """Return True if `post` can post to this URL: http or https, with a host, without user and password."""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        return sound and parts.username is None and url.isascii() and " " not in url
    except ValueError:
        return False


@frozen
class Answer:
    """Describes an answer with a status of 2xx: the status and phrase, and at most MAX_READ bytes of its body."""

    status: str
    content: bytes

    def __str__(self) -> str:
        text = self.content.decode("utf-8", "replace").strip()
        return self.status + (f": {text}" if text else "")


async def post(attempt: Attempt, request: Request) -> str:
    """Return the answer's status and text. Raises SendFailed if it is no 2xx, or not there within the timeout."""
    return str(await ask(attempt.reactor, request, attempt.timeout, attempt.in_thread))


async def ask(reactor: Any, request: Request, timeout: float, in_thread: InThread) -> Answer:
    """Return the answer to a request. Raises SendFailed if it is no 2xx, or not there within `timeout` seconds."""
    if not is_url(request.url):
        raise SendFailed("the URL that the secret holds is none: http://HOST[:PORT]/PATH or https://...")
    policy = await in_thread(partial(_policy, request.ca))
    pool = _QuietPool(reactor, persistent=False)  # type: ignore[no-untyped-call]
    agent = Agent(reactor, policy, connectTimeout=timeout, pool=pool)
    asked = Deferred.fromCoroutine(_ask(agent, request))
    late = SendFailed(f"no whole answer within {timeout:g} s")
    asked.addTimeout(timeout, reactor, onTimeoutCancel=lambda _, __: Failure(late))
    try:
        return await asked
    except SendFailed:
        raise
    except Exception as error:
        raise SendFailed(_sentence(error)) from error


async def _ask(agent: Any, request: Request) -> Answer:
    fixed = {"User-Agent": USER_AGENT, "Content-Type": "application/json", "Accept": "*/*"}
    headers = Headers({name: [value] for name, value in (fixed | request.headers).items()})
    body = _Body(request.body)
    response = await agent.request(b"POST", request.url.encode("ascii"), headers, body)
    reader = _Reader()
    response.deliverBody(reader)
    answer = Answer(f"{response.code} {response.phrase.decode('latin-1').strip()}".strip(), await reader.done)
    if 200 <= response.code < 300:
        return answer
    if 300 <= response.code < 400:
        where = (response.headers.getRawHeaders("location") or ["nowhere"])[0]
        raise SendFailed(
            f"{answer.status}; it redirects to {_place(where)}, which is not followed: write the final URL"
        )
    raise SendFailed(str(answer), _retry_after(response.headers), response.code)


def _place(where: str) -> str:
    """Return a Location as people may see it: path and query of a receiver's URL are often its secret."""
    try:
        return show_url(where) if is_url(where) else "nowhere" if where == "nowhere" else "another path"
    except ValueError:
        return "another path"


def _retry_after(headers: Headers) -> float | None:
    """Return seconds, or None for a date: receivers of webhooks send none."""
    text = (headers.getRawHeaders("retry-after") or [""])[0].strip()
    return min(float(text), LONGEST_RETRY) if text.isascii() and text.isdigit() else None


class _QuietFactory(_HTTP11ClientFactory):
    """Makes a connection without two lines in the log for each: the outbox tells what came of a message."""

    noisy = False


class _QuietPool(HTTPConnectionPool):
    _factory = _QuietFactory


@implementer(IBodyProducer)
class _Body:
    """Writes the body at once: it is a megabyte at most, and the transport's buffer takes it."""

    def __init__(self, content: bytes) -> None:
        self.length = len(content)
        self._content = content

    def startProducing(self, consumer: Any) -> Deferred[None]:
        """Write all of it."""
        consumer.write(self._content)
        return succeed(None)

    def pauseProducing(self) -> None:
        """Do nothing: all is written."""

    def resumeProducing(self) -> None:
        """Do nothing: all is written."""

    def stopProducing(self) -> None:
        """Do nothing: all is written."""


class _Reader(Protocol):
    """Reads at most MAX_READ bytes of an answer, and doesn't wait for the rest. `done` fires with them."""

    def __init__(self) -> None:
        self.done: Deferred[bytes] = Deferred(lambda _: self._cut())
        self._got = bytearray()

    def dataReceived(self, data: bytes) -> None:
        """Keep the bytes; close the connection once there are enough."""
        self._got += data[: MAX_READ - len(self._got)]
        if len(self._got) >= MAX_READ:
            self._end()
            self._cut()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Fire `done`: with the answer, or with the reason for which there is no whole one."""
        if reason.check(ResponseDone, PotentialDataLoss):
            self._end()
        elif not self.done.called:
            self.done.errback(reason)

    def _end(self) -> None:
        if not self.done.called:
            self.done.callback(bytes(self._got))

    def _cut(self) -> None:
        transport: Any = self.transport
        if transport is not None:
            abort = getattr(transport, "abortConnection", None) or transport.loseConnection
            abort()


def _policy(ca: str | None) -> BrowserLikePolicyForHTTPS:
    if ca is None:
        return BrowserLikePolicyForHTTPS()
    try:
        with open(ca, "rb") as file:
            return BrowserLikePolicyForHTTPS(ssl.Certificate.loadPEM(file.read(MAX_READ)))
    except (OSError, SSL.Error, crypto.Error, ValueError) as error:
        raise SendFailed(f"the authority {ca} can't be read: {error}") from error


def _sentence(error: Exception) -> str:
    """Return the reason for which there is no answer, as a sentence."""
    if isinstance(error, DNSLookupError):
        return f"the name can't be looked up: {error}"
    if isinstance(error, ConnectError):
        return f"no connection: {error.args[0] if any(error.args) else error}"
    reasons = getattr(error, "reasons", None)
    if isinstance(error, BROKEN_OFF) and reasons:
        causes = "; ".join(_reason(each) for each in reasons)
        return f"the answer broke off: {causes}"
    if isinstance(error, RequestNotSent | ConnectionClosed | CancelledError):
        return f"the connection ended: {str(error) or type(error).__name__}"  # an exception is true, whatever its text
    return f"{type(error).__name__}: {error}"


def _reason(failure: Any) -> str:
    value = failure.value
    if isinstance(value, SSL.Error):
        details = value.args[0] if value.args and isinstance(value.args[0], list) else []
        return "TLS: " + ("; ".join(each[-1] for each in details if each) or "the handshake failed")
    return str(value) or type(value).__name__
