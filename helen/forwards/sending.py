"""Makes one attempt to send one body, over HTTP or over a plain connection. Nothing is repeated here."""

from __future__ import annotations

from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint
from twisted.python.failure import Failure

from helen.files.toml_table import Secret, Table
from helen.forwards.formats.otlp import left_out
from helen.forwards.formats.values import Body, Signal
from helen.forwards.runtime import Runtime
from helen.forwards.stream import StreamSender, address_of, converse
from helen.notify.attempt import SendFailed, tidy
from helen.notify.http_post import Request, ask, is_url
from helen.notify.http_receiver import HttpReceiver
from helen.notify.secrets import OpenedSecrets, SecretMissing

MOST_SAID = 4_096  # characters of an answer that are made fit for a line, of which most is spaces
WANTED = '"tcp://HOST[:2003]"'


@frozen
class Taken:
    """Says that the receiver has taken a body. `left_out`: how much of it the receiver says it has not, and why."""

    left_out: int = 0
    why: str = ""


class Way(Protocol):
    """Describes how bodies get to a receiver."""

    async def send(self, runtime: Runtime, signal: Signal, body: Body, timeout: float) -> Taken:
        """Send a body once. Raises SendFailed, whose sentence has no secret in it; `timeout` is in seconds."""

    def show(self) -> dict[str, Any]:
        """Return the settings, with every secret masked."""


@frozen
class OverHttp:
    """Posts to a URL. Secrets are looked up for each body, so that a file may be replaced at any time."""

    receiver: HttpReceiver

    @classmethod
    def read(cls, table: Table) -> OverHttp:
        """Take the settings of HttpReceiver."""
        return cls(HttpReceiver.read(table))

    async def send(self, runtime: Runtime, signal: Signal, body: Body, timeout: float) -> Taken:
        """Post a body. Raises SendFailed."""
        secrets = OpenedSecrets()
        try:
            request = await runtime.in_thread(self._request, secrets, signal, body)
            answer = await ask(runtime.reactor, request, timeout, runtime.in_thread)
        except SecretMissing as error:
            raise SendFailed(str(error)) from error
        except SendFailed as error:
            raise SendFailed(_tidy(secrets, error.text), error.retry_after, error.status) from None
        if not signal.path or not answer.content:
            return Taken()
        count, why = await runtime.in_thread(left_out, answer.content)  # 64 KiB of odd bytes take their time
        return Taken(min(count, body.count), _tidy(secrets, why))

    def _request(self, secrets: OpenedSecrets, signal: Signal, body: Body) -> Request:
        """Return the request of a body; what a receiver may quote of URL and headers is masked from then on.

        Raises SecretMissing, and SendFailed for a URL that no path can be added to. Blocks: files.
        """
        url = secrets.text(self.receiver.url)
        if signal.path and not takes_path(url):
            raise SendFailed("the URL that the secret holds has a query, which no path can be added to")
        request = self.receiver.request_of(secrets, body.content, signal.headers, signal.path)
        parts = urlsplit(url if is_url(url) else "")
        hidden = url if isinstance(self.receiver.url, Secret) else f"{parts.path}?{parts.query}"
        for text in (hidden, unquote(hidden)):
            secrets.mask_parts(text)
        named = [name for name in request.headers if name in self.receiver.headers or name == "Authorization"]
        for name in named:
            words = request.headers[name].split()
            secrets.used += [request.headers[name], *(words[1:] or words)]  # `Token` and `Bearer` are no secrets
        return request

    def show(self) -> dict[str, Any]:
        """Return the settings, with every secret masked."""
        return self.receiver.show()


def takes_path(url: str) -> bool:
    """Return True if a path can be added to a URL: it has no query, nor a fragment."""
    return "?" not in url and "#" not in url


def _tidy(secrets: OpenedSecrets, text: str) -> str:
    return tidy(secrets.mask(text)[:MOST_SAID])


@frozen
class OverTcp:
    """Writes to a connection of its own for each body, and waits until the receiver has read it and closed, too."""

    host: str
    port: int

    @classmethod
    def read(cls, table: Table) -> OverTcp:
        """Take `url`."""
        url = table.text("url", f"write {WANTED}")
        found = address_of(url)
        if url and found is None:
            table.fault("url", f"write {WANTED}")
        return cls(*(found or ("", 0)))

    async def send(self, runtime: Runtime, signal: Signal, body: Body, timeout: float) -> Taken:
        """Write a body. Raises SendFailed."""
        endpoint = HostnameEndpoint(runtime.reactor, self.host.encode(), self.port, timeout=timeout)
        sender = StreamSender(body.content)
        done = Deferred.fromCoroutine(converse(endpoint, sender))
        late = SendFailed(f"not read to its end within {timeout:g} s")
        done.addTimeout(timeout, runtime.reactor, onTimeoutCancel=lambda _, __: Failure(late))
        try:
            await done
        except SendFailed:
            raise
        except Exception as error:
            said = tidy(str(error)) or type(error).__name__
            raise SendFailed(f"no connection to {self.host} port {self.port}: {said}") from error
        finally:
            sender.abort()
        return Taken()

    def show(self) -> dict[str, Any]:
        """Return `url`."""
        return {"url": f"tcp://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"}
