"""Makes calls to a broker over one link, and takes its notifications.

It knows no method. A call ends with a result, with the broker's RpcError, or with NoAnswer if its time is over or the
connection was renewed; then it is unknown if the broker obeyed the call.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger

from zerotask import errors
from zerotask.errors import NoAnswer, RpcError
from zerotask.wire import jsonrpc, methods
from zerotask.wire.links import Link

ANSWER_WAIT = 10.0  # seconds; four beats, so a broker that needs longer is in trouble
BATCH_CALLS = 64  # calls in one batch: a transaction of the broker's store
BATCH_BYTES = 256 * 1024  # of one batch, so that small calls do not wait behind large ones
MOST_CALLS = 10_000  # on their way at once


def _ignore(*values: Any) -> None:
    """Do nothing, in place of a callback."""


@define
class _OpenCall:
    """Holds a call that waits for its answer."""

    result: Deferred[Any]
    timer: Any


class Rpc:
    """Calls the broker at the other end of a link.

    `on_renewed()` is called on each new connection, `on_notification(method, params)` for each notification.
    """

    _log = Logger()

    def __init__(
        self,
        link: Link,
        reactor: Any,
        on_renewed: Callable[[], None] = _ignore,
        on_notification: Callable[[str, Any], None] = _ignore,
    ) -> None:
        self._on_renewed, self._on_notification = on_renewed, on_notification
        self._link, self._reactor = link, reactor
        self._numbers = itertools.count(1)
        self._open: dict[int, _OpenCall] = {}
        self._was_connected = False
        self._outbox: list[bytes] = []
        self._outbox_size = self._outbox_parts = 0
        self._flushing: Any = None

    def start(self) -> None:
        """Connect. Raises SocketError if the link can't be opened."""
        self._link.open(self._received, self._renewed)

    def close(self) -> None:
        """Send what is left, end open calls with NoAnswer, and close the link."""
        if self._outbox:
            self._flush()
        self._fail_all("closed")
        self._link.close()

    @property
    def trouble(self) -> str:
        """Say why there is no connection; empty while there is one."""
        return self._link.trouble

    def give_up(self, why: str) -> None:
        """End open calls with NoAnswer."""
        self._fail_all(why)

    def call(self, method: str, params: Any, timeout: float | None = ANSWER_WAIT, alone: bool = False) -> Deferred[Any]:
        """Call a method; the Deferred fires with its result, or fails with RpcError or NoAnswer.

        `timeout`: seconds; None waits as long as the connection lasts. Calls of one turn of the reactor go out as one
        batch, and their answers come together; `alone` is for calls that take long.
        """
        if len(self._open) >= MOST_CALLS:
            return fail(RpcError(errors.OVERLOADED, f"more than {MOST_CALLS} calls are on their way"))
        number = next(self._numbers)
        text = jsonrpc.request(methods.PREFIX + method, params, number)
        if len(text) > jsonrpc.MAX_TEXT:
            message = (
                f"a call of {len(text)} bytes, more than {jsonrpc.MAX_TEXT}; store the data elsewhere, send where it is"
            )
            return fail(RpcError(errors.INVALID_PARAMS, message))
        if jsonrpc.has_too_many_parts(text):
            message = f"a call of more than {jsonrpc.MAX_PARTS} arrays and objects; send them as one text, or fewer"
            return fail(RpcError(errors.INVALID_PARAMS, message))
        if not (self._link.send(text) if alone else self._post(text)):
            return fail(NoAnswer(f"{method} could not be sent"))
        timer = None if timeout is None else self._reactor.callLater(timeout, self._late, number, method)
        self._open[number] = _OpenCall(Deferred(), timer)
        return self._open[number].result

    def notify(self, method: str, params: Any) -> None:
        """Send a notification; there is no answer."""
        self._post(jsonrpc.notification(methods.PREFIX + method, params))

    def _post(self, text: bytes) -> bool:
        """Put a text into the batch, which is sent at the end of this turn or when it is full."""
        parts = jsonrpc.parts_at_most(text)
        if self._outbox and self._outbox_parts + parts >= jsonrpc.MAX_PARTS:
            self._flush()
        if not self._outbox:
            self._flushing = self._reactor.callLater(0, self._flush)
        self._outbox.append(text)
        self._outbox_size += len(text)
        self._outbox_parts += parts
        return (len(self._outbox) < BATCH_CALLS and self._outbox_size < BATCH_BYTES) or self._flush()

    def _flush(self) -> bool:
        texts, self._outbox, self._outbox_size, self._outbox_parts = self._outbox, [], 0, 0
        if self._flushing.active():
            self._flushing.cancel()
        return not texts or self._link.send(jsonrpc.bundle(texts))

    def _late(self, number: int, method: str) -> None:
        self._open.pop(number).result.errback(NoAnswer(f"no answer to {method} in time"))

    def _renewed(self) -> None:
        """End calls of the former connection, which nothing will answer any more."""
        if self._was_connected:
            self._fail_all("the connection was renewed")
        self._was_connected = True
        self._on_renewed()

    def _fail_all(self, why: str) -> None:
        for number in list(self._open):
            self._take(number).errback(NoAnswer(why))

    def _take(self, number: int) -> Deferred[Any]:
        call = self._open.pop(number)
        if call.timer is not None:
            call.timer.cancel()
        return call.result

    def _received(self, text: bytes) -> None:
        try:
            messages = jsonrpc.read(text)
        except RpcError as error:
            self._log.error("The broker sent what cannot be read: {error}", error=error)
            return
        for message in messages:
            if isinstance(message, jsonrpc.Call):
                self._on_notification(message.method, message.params)
            elif isinstance(message, jsonrpc.Response):
                self._answered(message)

    def _answered(self, response: jsonrpc.Response) -> None:
        if response.id not in self._open:
            if response.id is None and response.error is not None:
                self._log.error("The broker refused a text: {error}", error=response.error)
            return
        result = self._take(response.id)
        if response.error is None:
            result.callback(response.result)
        else:
            result.errback(response.error)
