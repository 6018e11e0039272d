"""A result that somebody sends from outside, and why one isn't taken. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen


class NotReported(Exception):
    """It is no result of ours now; the text says what to do about it."""


class NoSubmission(NotReported):
    """What was sent can't be a result."""


class NotDeclared(NotReported):
    """Nobody has said that this may report."""


class NotAllowed(NotReported):
    """An agent runs a check of this name, and nothing from outside may speak for it."""


class NotTaken(NotReported):
    """It is not on disk; it may be sent again."""


class TooOften(NotReported):
    """Somebody reports more than there is any use for; `wait` seconds from now it may again."""

    def __init__(self, text: str, wait: float) -> None:
        super().__init__(text)
        self.wait = wait


@frozen
class Submission:
    """One result. `document` is as in docs/protocol.rst, section 4; `within`: the next one comes in so many seconds."""

    host: str
    check: str
    document: Mapping[str, Any]
    via: str
    id: str | None = None
    within: float | None = None
    why: str = ""
