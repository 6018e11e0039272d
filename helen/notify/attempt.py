"""Define one attempt to deliver a message: its input and two outcomes. A channel's file needs no more of Helen.

Each answer of a remote is made fit for a log and a terminal here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from helen.notify.messages import Message
from helen.notify.secrets import OpenedSecrets

MAX_ANSWER = 500  # characters of a remote's answer that are kept
MAX_READ = 65_536  # bytes of an answer that are read at all

Made = TypeVar("Made")


class SendFailed(Exception):
    """Says that the attempt failed. `retry_after`: seconds until the next one, if the remote has named a time.

    `status` is that of an answer over HTTP, None where there was none.
    """

    def __init__(self, text: str, retry_after: float | None = None, status: int | None = None) -> None:
        super().__init__(text)
        self.text, self.retry_after, self.status = text, retry_after, status


@frozen
class Accepted:
    """Says that the remote took the message. `text`: its answer, with secrets masked."""

    text: str


@frozen
class Attempt:
    """Describes one attempt to deliver `message`, for at most `timeout` seconds.

    `external_url` is where links in the message lead, "" for no links. Values looked up through `secrets` are masked
    in the outcome.
    """

    reactor: Any
    message: Message
    external_url: str
    timeout: float
    secrets: OpenedSecrets

    def in_thread(self, make: Callable[[], Made]) -> Deferred[Made]:
        """Return the value of `make()`, which may block: it looks up secrets in files, or reads certificates."""
        made: Deferred[Made] = deferToThread(make)
        return made


def tidy(text: str) -> str:
    """Return the text as one printable line of at most MAX_ANSWER characters."""
    shown = "".join(c if c.isprintable() else " " for c in text)
    shown = " ".join(shown.split())
    return shown if len(shown) <= MAX_ANSWER else shown[: MAX_ANSWER - 1] + "\N{HORIZONTAL ELLIPSIS}"
