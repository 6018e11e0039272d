"""Makes one attempt to send one body, over HTTP or over a plain connection. Nothing is repeated here."""

from __future__ import annotations

from typing import Any, Protocol

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint
from twisted.python.failure import Failure

from helen.files.toml_table import Table
from helen.forwards.formats.otlp import left_out
from helen.forwards.formats.values import Body, Signal
from helen.forwards.runtime import Runtime
from helen.forwards.stream import StreamSender, address_of, converse
from helen.notify.attempt import SendFailed, tidy
from helen.notify.http_post import ask
from helen.notify.http_receiver import HttpReceiver
from helen.notify.secrets import OpenedSecrets, SecretMissing

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
            request = await runtime.in_thread(
                self.receiver.request_of, secrets, body.content, signal.headers, signal.path
            )  # fmt: skip
            answer = await ask(runtime.reactor, request, timeout, runtime.in_thread)
        except SecretMissing as error:
            raise SendFailed(str(error)) from error
        except SendFailed as error:
            raise SendFailed(tidy(secrets.mask(error.text)), error.retry_after, error.status) from None
        count, why = left_out(answer.content) if signal.path else (0, "")
        return Taken(min(count, body.count), tidy(secrets.mask(why)))

    def show(self) -> dict[str, Any]:
        """Return the settings, with every secret masked."""
        return self.receiver.show()


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
