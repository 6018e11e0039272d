"""Tests a post over HTTP in parts: URLs that can be posted to, how much is read, and failures as sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from OpenSSL import SSL
from telling import WALL, alert
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectError, ConnectionLost, ConnectionRefusedError, DNSLookupError
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.web.client import (  # type: ignore[attr-defined]  # one is not in its __all__
    PotentialDataLoss,
    RequestNotSent,
    ResponseDone,
    ResponseFailed,
    ResponseNeverReceived,
)
from twisted.web.http_headers import Headers

from helen.files.toml_table import Secret
from helen.notify import http_post
from helen.notify.attempt import MAX_ANSWER, MAX_READ, Attempt, SendFailed, tidy
from helen.notify.http_post import Request, _Body, _policy, _Reader, _retry_after, _sentence, is_url
from helen.notify.http_receiver import HttpReceiver
from helen.notify.messages import Message
from helen.notify.secrets import OpenedSecrets

URLS = [
    ("http://h", True), ("https://h:8443/p?q=1", True), ("http://[::1]:80/", True), ("http://h:1", True),
    ("ftp://h/", False), ("http://", False), ("http:///p", False), ("//h/p", False), ("", False),
    ("http://u@h/", False), ("http://u:p@h/", False), ("http://h:99999/", False), ("http://h:x/", False),
    ("http://h/a b", False), ("http://h\u00e4/", False), ("http://[::1", False), ("http://h:0/", True),
]  # fmt: skip


@pytest.mark.parametrize(("url", "can"), URLS)
def test_urls(url: str, can: bool) -> None:
    """A URL is HTTP with a host, in ASCII, and with nobody's name in it."""
    assert is_url(url) is can


@pytest.mark.parametrize(("text", "seconds"), [
    (None, None), ("", None), ("0", 0.0), ("7", 7.0), (" 8 ", 8.0), ("3600", 3_600.0), ("3601", 3_600.0),
    ("1.5", None), ("-1", None), ("\u0663", None), ("Fri, 01 Jan 2100 00:00:00 GMT", None),
])  # fmt: skip
def test_when_to_try_again(text: str | None, seconds: float | None) -> None:
    """Retry-After is read as whole seconds, an hour at most; a date counts as none."""
    assert _retry_after(Headers({} if text is None else {"retry-after": [text]})) == seconds


# ------------------------------------------------------------------------------------------------ an answer


class Response:
    """Is an answer that a remote gave; `body` is what it delivers, and `end` how its connection ends."""

    def __init__(self, code: int, phrase: bytes = b"Fine", body: bytes = b"", **headers: str) -> None:
        self.code, self.phrase, self.body = code, phrase, body
        self.headers = Headers({name.replace("_", "-"): [value] for name, value in headers.items()})

    def deliverBody(self, reader: Any) -> None:
        reader.dataReceived(self.body)
        reader.connectionLost(Failure(ResponseDone()))


class Asked:
    """Stands for an agent: `response` is its answer, None for none; `given` is what was asked."""

    response: Any = Response(200)
    given: tuple[Any, ...] = ()

    def __init__(self, *args: Any, **named: Any) -> None:
        Asked.made = (args, named)  # type: ignore[attr-defined]

    def request(self, *args: Any) -> Deferred[Any]:
        Asked.given = args
        done: Deferred[Any] = Deferred()
        if isinstance(self.response, Exception):
            done.errback(Failure(self.response))
        elif self.response is not None:
            done.callback(self.response)
        return done


@pytest.fixture(autouse=True)
def _asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_post, "Agent", Asked)
    monkeypatch.setattr(Attempt, "in_thread", lambda self, make: _done(make))


def _done(make: Any) -> Deferred[Any]:
    done: Deferred[Any] = Deferred()
    try:
        done.callback(make())
    except Exception:
        done.errback(Failure())
    return done


def attempt(clock: Clock, timeout: float = 5.0) -> Attempt:
    message = Message("id1", "g", "hook", "r", {}, WALL, (alert(),))
    return Attempt(clock, message, "", timeout, OpenedSecrets())


def posted(response: Any, request: Request | None = None, wait: float = 0.0) -> Any:
    """Return the answer as text, the exception, or None as long as there is neither."""
    clock, got = Clock(), list[Any]()
    Asked.response = response
    asked = http_post.post(attempt(clock), request or Request("http://h/p", {"X-Team": "ops"}, b"{}"))
    Deferred.fromCoroutine(asked).addCallbacks(got.append, lambda failure: got.append(failure.value))
    clock.advance(wait)
    return got[0] if got else None


@pytest.mark.parametrize(("response", "said"), [
    (Response(200), "200 Fine"), (Response(299, b"", b" taken \n"), "299: taken"), (Response(204, b"No"), "204 No"),
    (Response(200, b"\xe4", b"\xff"), "200 \u00e4: \ufffd"),
])  # fmt: skip
def test_an_answer_that_is_good(response: Response, said: str) -> None:
    """An answer from 200 to 299 is good, and told with its words."""
    assert posted(response) == said


@pytest.mark.parametrize(("response", "text", "retry_after"), [
    (Response(199), "199 Fine", None), (Response(400, b"Bad", b"why"), "400 Bad: why", None),
    (Response(429, b"Slow", b"", retry_after="7"), "429 Slow", 7.0), (Response(500), "500 Fine", None),
    (Response(300), "300 Fine; it redirects to nowhere, which is not followed: write the final URL", None),
    (Response(399, b"To", b"", location="http://l/"),
     "399 To; it redirects to http://l/, which is not followed: write the final URL", None),
])  # fmt: skip
def test_an_answer_that_is_not(response: Response, text: str, retry_after: float | None) -> None:
    """Other answers are no success; a redirect says where to."""
    error = posted(response)
    assert isinstance(error, SendFailed)
    assert (error.text, error.retry_after, str(error)) == (text, retry_after, text)


def test_what_is_asked() -> None:
    """A request is one POST of the body, with our headers under those of the channel."""
    assert (
        posted(Response(200), Request("http://h/p?q", {"X-Team": "ops", "Accept": "text/plain"}, b"{}")) == "200 Fine"
    )
    method, url, headers, body = Asked.given
    assert (method, url, body.length, body._content) == (b"POST", b"http://h/p?q", 2, b"{}")
    assert dict(headers.getAllRawHeaders()) == {
        b"User-Agent": [b"helen-equus"], b"Content-Type": [b"application/json"], b"Accept": [b"text/plain"],
        b"X-Team": [b"ops"],
    }  # fmt: skip
    args, named = Asked.made  # type: ignore[attr-defined]
    assert (named["connectTimeout"], named["pool"].persistent, len(args)) == (5.0, False, 2)


def test_no_answer_in_time() -> None:
    """An answer has to be whole in its time."""
    assert posted(None, wait=4.5) is None
    assert posted(None, wait=5.0).text == "no whole answer within 5 s"


def test_a_url_that_is_none() -> None:
    """A secret that holds no URL is told without any of it."""
    said = "the URL that the secret holds is none: http://HOST[:PORT]/PATH or https://..."
    assert posted(Response(200), Request("hunter2", {}, b"")).text == said


def test_an_authority_that_cannot_be_read(tmp_path: Path) -> None:
    """An authority that cannot be read is told by its path and the reason."""
    (tmp_path / "ca").write_text("nonsense")
    with pytest.raises(SendFailed, match=r"^the authority .*/ca can't be read: "):
        _policy(str(tmp_path / "ca"))
    with pytest.raises(SendFailed, match=r"^the authority /nowhere can't be read: .*No such file"):
        _policy("/nowhere")
    assert posted(Response(200), Request("http://h", {}, b"", "/nowhere")).text.startswith("the authority /nowhere")
    assert _policy(None)._trustRoot is None, "the system's"


@pytest.mark.parametrize(("error", "text"), [
    (DNSLookupError("no such host"), "the name can't be looked up: DNS lookup failed: no such host."),
    (ConnectError("osError", "word"), "no connection: word"),
    (ConnectError(), "no connection: An error occurred while connecting."),
    (ConnectionRefusedError(string="refused"), "no connection: refused"),
    (ResponseFailed([Failure(ConnectionLost("a")), Failure(ValueError())]),
     "the answer broke off: Connection to the other side was lost in a non-clean fashion: a.; ValueError"),
    (ResponseNeverReceived([]), None),
    (RequestNotSent(), "the connection ended: RequestNotSent"),
    (ConnectionLost("x"), "the connection ended: Connection to the other side was lost in a non-clean fashion: x."),
    (CancelledError(), "the connection ended: CancelledError"),
    (KeyError("x"), "KeyError: 'x'"),
])  # fmt: skip
def test_failures_as_sentences(error: Exception, text: str | None) -> None:
    """A failure of each kind has words of its own."""
    said = _sentence(error)
    assert said == text if text is not None else said.startswith("ResponseNeverReceived: ")
    assert posted(error).text == said


@pytest.mark.parametrize(("error", "text"), [
    (SSL.Error([("lib", "function", "certificate verify failed"), ("", "", "second")]),
     "TLS: certificate verify failed; second"),
    (SSL.Error([()]), "TLS: the handshake failed"), (SSL.Error(), "TLS: the handshake failed"),
    (SSL.Error("words"), "TLS: the handshake failed"), (ValueError("x"), "x"), (ValueError(), "ValueError"),
])  # fmt: skip
def test_reasons(error: Exception, text: str) -> None:
    """The reason of a TLS failure is the last word of each entry of OpenSSL's list."""
    assert http_post._reason(Failure(error)) == text


# ------------------------------------------------------------------------------------------------ bodies


class Transport:
    def __init__(self) -> None:
        self.ended: list[str] = []

    def abortConnection(self) -> None:
        self.ended.append("aborted")


class Plain:
    """Is a transport that can't be aborted."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    def loseConnection(self) -> None:
        self.ended.append("closed")


@pytest.mark.parametrize(("size", "kept", "is_cut"), [
    (MAX_READ - 1, MAX_READ - 1, False), (MAX_READ, MAX_READ, True), (MAX_READ + 1, MAX_READ, True),
])  # fmt: skip
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("kind", [Transport, Plain])
def test_how_much_is_read(size: int, kept: int, is_cut: bool, steps: int, kind: Any) -> None:
    """The reader keeps 64 KiB, in whatever pieces they come, and then ends the connection, even before the answer's
    end.
    """
    reader, got = _Reader(), list[bytes]()
    reader.done.addCallback(got.append)
    reader.transport = transport = kind()
    content = bytes(at % 251 for at in range(size))
    for at in range(steps):
        reader.dataReceived(content[at * size // steps : (at + 1) * size // steps])
    assert bool(got) is is_cut
    assert transport.ended == (["aborted" if kind is Transport else "closed"] if is_cut else [])
    reader.connectionLost(Failure(ResponseDone()))
    assert got == [content[:kept]]


@pytest.mark.parametrize(("reason", "is_whole"), [(ResponseDone(), True), (PotentialDataLoss(), True),
                                                  (ConnectionLost(), False)])  # fmt: skip
def test_how_a_body_ends(reason: Exception, is_whole: bool) -> None:
    """A body ends with its length, or with the connection if it has none; any other end is a failure."""
    reader, got = _Reader(), list[Any]()
    reader.done.addBoth(got.append)
    reader.dataReceived(b"half")
    reader.connectionLost(Failure(reason))
    reader.connectionLost(Failure(ConnectionLost()))
    assert got == [b"half"] if is_whole else got[0].value is reason


def test_a_body_that_nobody_waits_for() -> None:
    """A body that nobody waits for ends its connection, and there may be none."""
    reader = _Reader()
    transport: Any = Transport()
    reader.transport = transport
    reader.done.addErrback(lambda failure: failure.trap(CancelledError))
    reader.done.cancel()
    assert transport.ended == ["aborted"]
    other = _Reader()
    other.done.addErrback(lambda failure: failure.trap(CancelledError))
    other.done.cancel()


def test_a_body_of_ours_is_written_at_once() -> None:
    """A body of ours has a known length, and is written in one step."""
    written: list[bytes] = []

    class Consumer:
        write = written.append

    body, done = _Body(b"content"), list[None]()
    body.startProducing(Consumer()).addCallback(done.append)
    body.pauseProducing()
    body.resumeProducing()
    body.stopProducing()
    assert (body.length, written, done) == (7, [b"content"], [None])


# ------------------------------------------------------------------------------------------------ requests


@pytest.mark.parametrize(("url", "path", "found"), [
    ("http://h/", "", "http://h/"), ("http://h", "/api", "http://h/api"), ("http://h//", "/api", "http://h/api"),
])  # fmt: skip
def test_where_a_request_goes(url: str, path: str, found: str) -> None:
    """A request goes to the URL as it is written, or to the path below it."""
    assert HttpReceiver(url).request(attempt(Clock()), {}, path).url == found


def test_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request has its id for the receiver, the channel's headers and its bearer, and the document as JSON."""
    monkeypatch.setenv("NOTIFY_B", "token")
    receiver = HttpReceiver("http://h", {"X": "y"}, Secret("env", "NOTIFY_B"), "/ca")
    assert receiver.request(attempt(Clock()), {"a": "\u00e4"}) == Request(
        "http://h",
        {"Idempotency-Key": "id1", "X": "y", "Authorization": "Bearer token"},
        '{"a": "\u00e4"}'.encode(),
        "/ca",
    )
    assert HttpReceiver("http://h").request(attempt(Clock()), 1).headers == {"Idempotency-Key": "id1"}


@pytest.mark.parametrize(("text", "line"), [
    ("  two\n lines\t", "two lines"), ("a\x1b[2Jb", "a [2Jb"), ("", ""), ("x" * MAX_ANSWER, "x" * MAX_ANSWER),
    ("x" * (MAX_ANSWER + 1), "x" * (MAX_ANSWER - 1) + "\u2026"),
])  # fmt: skip
def test_an_answer_as_a_line(text: str, line: str) -> None:
    """An answer is shown as one printable line of 500 characters at most."""
    assert tidy(text) == line


def test_a_failure_may_name_no_time() -> None:
    """A failure without a time leaves the wait to our own rule."""
    assert (SendFailed("x").text, SendFailed("x").retry_after, SendFailed("x", 3.0).retry_after) == ("x", None, 3.0)
