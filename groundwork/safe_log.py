"""Makes the log safe to show on a terminal: what agents and peers choose reaches it by messages and by tracebacks."""

from __future__ import annotations

from typing import cast
from weakref import WeakSet

from twisted.logger import ILogObserver, LogEvent, LogPublisher, formatEvent, globalLogPublisher

from groundwork.safe_text import safe_text

_FORMAT, _TEXT = "{log_safe}", "log_safe"
_guarded: WeakSet[LogPublisher] = WeakSet()


def guard_log(publisher: LogPublisher = globalLogPublisher) -> None:
    """Make each event safe before other observers get it. Call it before the log begins to be written.

    Observers are called in the order in which they were added, and all of them get the same event.
    """
    if publisher not in _guarded:
        _guarded.add(publisher)
        publisher.addObserver(cast(ILogObserver, make_safe))  # zope.interface has it, which mypy does not read


def make_safe(event: LogEvent) -> None:
    """Put escapes in place of what isn't printable in an event's message and traceback; line ends and tabs stay."""
    text = formatEvent(event)
    safe = safe_text(text)
    if safe != text:
        event["log_format"], event[_TEXT] = _FORMAT, safe
    failure = event.get("log_failure")
    if failure is not None:
        _make_failure_safe(event, failure)


class SafeFailure:
    """Stands for a failure whose traceback has something in it that a terminal would obey."""

    def __init__(self, failure: object, traceback: str) -> None:
        self._failure = failure
        self._traceback = traceback

    def __getattr__(self, name: str) -> object:
        return getattr(self._failure, name)

    def getTraceback(self, *_: object, **__: object) -> str:
        """Return the traceback with escapes."""
        return self._traceback


def _make_failure_safe(event: LogEvent, failure: object) -> None:
    traceback = failure.getTraceback()  # type: ignore[attr-defined]
    safe = safe_text(traceback)
    if safe != traceback:
        event["log_failure"] = SafeFailure(failure, safe)
