"""Posts JSON to a URL: one request, no redirect followed, a bounded answer, a deadline for all of it together."""

from __future__ import annotations

from typing import Any

from attrs import frozen
from OpenSSL import SSL
from twisted.internet import ssl
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.error import ConnectError, ConnectionClosed, DNSLookupError
from twisted.internet.protocol import Protocol
from twisted.internet.threads import deferToThread
from twisted.python.failure import Failure
from twisted.web.client import (
    Agent,
    BrowserLikePolicyForHTTPS,
    PotentialDataLoss,
    RequestGenerationFailed,
    RequestNotSent,
    RequestTransmissionFailed,
    ResponseDone,
    ResponseFailed,
    ResponseNeverReceived,
)
from twisted.web.http_headers import Headers
from twisted.web.iweb import IBodyProducer
from zope.interface import implementer

from helen.notify.attempt import MOST_READ, SendFailed
from helen.notify.config import is_url

LONGEST_RETRY = 3_600.0  # seconds: a Retry-After beyond it is taken for this
USER_AGENT = "helen-equus"
BROKEN_OFF = ResponseNeverReceived, ResponseFailed, RequestTransmissionFailed, RequestGenerationFailed


@frozen
class Request:
    """`ca`: a PEM file of whom to trust instead of the system's authorities."""

    url: str
    headers: dict[str, str]
    body: bytes
    ca: str | None = None


async def post(reactor: Any, request: Request, timeout: float) -> str:
    """The answer's status and words; raises SendFailed for anything but 2xx."""
    if not is_url(request.url):
        raise SendFailed("the URL that the secret holds is none: http://HOST[:PORT]/PATH or https://...")
    policy = await deferToThread(_policy, request.ca)
    asked = Deferred.fromCoroutine(_ask(Agent(reactor, policy, connectTimeout=timeout), request))
    late = SendFailed(f"no whole answer within {timeout:g} s")
    asked.addTimeout(timeout, reactor, onTimeoutCancel=lambda _, __: Failure(late))
    try:
        return await asked
    except SendFailed:
        raise
    except Exception as error:
        raise SendFailed(_sentence(error)) from error


async def _ask(agent: Agent, request: Request) -> str:
    fixed = {"User-Agent": USER_AGENT, "Content-Type": "application/json", "Accept": "*/*"}
    headers = Headers({name: [value] for name, value in (fixed | request.headers).items()})
    body = _Body(request.body)
    response = await agent.request(b"POST", request.url.encode("ascii"), headers, body)
    reader = _Reader()
    response.deliverBody(reader)
    raw = await reader.done
    words = raw.decode("utf-8", "replace").strip()
    phrase = response.phrase.decode("latin-1").strip()
    said = f"{response.code} {phrase}".strip() + (f": {words}" if words else "")
    if 200 <= response.code < 300:
        return said
    if 300 <= response.code < 400:
        where = (response.headers.getRawHeaders("location") or ["nowhere"])[0]
        raise SendFailed(f"{said}; it redirects to {where}, which is not followed: write the final URL")
    raise SendFailed(said, _retry_after(response.headers))


def _retry_after(headers: Headers) -> float | None:
    """Seconds; a date is what nobody sends."""
    text = (headers.getRawHeaders("retry-after") or [""])[0].strip()
    return min(float(text), LONGEST_RETRY) if text.isascii() and text.isdigit() else None


@implementer(IBodyProducer)
class _Body:
    """All of it at once: it is a megabyte at most, and the transport's buffer takes it."""

    def __init__(self, content: bytes) -> None:
        self.length = len(content)
        self._content = content

    def startProducing(self, consumer: Any) -> Deferred[None]:
        consumer.write(self._content)
        return succeed(None)

    def pauseProducing(self) -> None:
        """There is nothing to pause."""

    def resumeProducing(self) -> None:
        """And nothing to resume."""

    def stopProducing(self) -> None:
        """Nor to stop."""


class _Reader(Protocol):  # type: ignore[misc]
    """Reads as much as we keep; of what is longer the rest is not waited for."""

    def __init__(self) -> None:
        self.done: Deferred[bytes] = Deferred(lambda _: self._cut())
        self._got = bytearray()

    def dataReceived(self, data: bytes) -> None:
        self._got += data[: MOST_READ - len(self._got)]
        if len(self._got) >= MOST_READ:
            self._end()
            self._cut()

    def connectionLost(self, reason: Failure) -> None:
        if reason.check(ResponseDone, PotentialDataLoss):
            self._end()
        elif not self.done.called:
            self.done.errback(reason)

    def _end(self) -> None:
        if not self.done.called:
            self.done.callback(bytes(self._got))

    def _cut(self) -> None:
        if self.transport is not None:
            abort = getattr(self.transport, "abortConnection", None) or self.transport.loseConnection
            abort()


def _policy(ca: str | None) -> BrowserLikePolicyForHTTPS:
    if ca is None:
        return BrowserLikePolicyForHTTPS()
    try:
        with open(ca, "rb") as file:
            return BrowserLikePolicyForHTTPS(ssl.Certificate.loadPEM(file.read(MOST_READ)))
    except (OSError, SSL.Error, ValueError) as error:
        raise SendFailed(f"the authority {ca} can't be read: {error}") from error


def _sentence(error: Exception) -> str:
    """What kept us from an answer."""
    if isinstance(error, DNSLookupError):
        return f"the name can't be looked up: {error}"
    if isinstance(error, ConnectError):
        return f"no connection: {error.args[0] if error.args else error}"
    reasons = getattr(error, "reasons", None)
    if isinstance(error, BROKEN_OFF) and reasons:
        told = "; ".join(_reason(each) for each in reasons)
        return f"the answer broke off: {told}"
    if isinstance(error, RequestNotSent | ConnectionClosed | CancelledError):
        return f"the connection ended: {error or type(error).__name__}"
    return f"{type(error).__name__}: {error}"


def _reason(failure: Any) -> str:
    value = failure.value
    if isinstance(value, SSL.Error):
        details = value.args[0] if value.args and isinstance(value.args[0], list) else []
        return "TLS: " + ("; ".join(each[-1] for each in details if each) or "the handshake failed")
    return str(value) or type(value).__name__
