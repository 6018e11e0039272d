"""Holds the values of a submission, which is a passive result before it is accepted, and the errors that refuse it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen


class NotReported(Exception):
    """Says that a submission is not accepted; the text says what to do about it."""


class NoSubmission(NotReported):
    """Says that a submission can't be a result."""


class NotDeclared(NotReported):
    """Says that passive.toml declares no such check."""


class NotAllowed(NotReported):
    """Says that an agent runs a check of this name, and that passive.toml does not let others report for it."""


class NotTaken(NotReported):
    """Says that a passive result is not on disk; it may be sent again."""


class TooOften(NotReported):
    """Says that a host reports more than it may; `wait` seconds from now it may again."""

    def __init__(self, text: str, wait: float) -> None:
        super().__init__(text)
        self.wait = wait


@frozen
class Submission:
    """Holds one passive result before it is accepted. `document` is as in docs/protocol.rst, section 4; `within`: the
    next one comes in so many seconds.
    """

    host: str
    check: str
    document: Mapping[str, Any]
    via: str
    id: str | None = None
    within: float | None = None
    why: str = ""
