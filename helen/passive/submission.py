"""Values of a submission, which is a passive result before it is taken, and the errors for which it is not taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen


class NotReported(Exception):
    """A submission is not taken; the text says what to do about it."""


class NoSubmission(NotReported):
    """The submission can't be a result."""


class NotDeclared(NotReported):
    """passive.toml declares no such check."""


class NotAllowed(NotReported):
    """An agent runs a check of this name, and passive.toml does not let others report for it."""


class NotTaken(NotReported):
    """The result is not on disk; it may be sent again."""


class TooOften(NotReported):
    """A host reports more than it may; `wait` seconds from now it may again."""

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
