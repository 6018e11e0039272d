"""Log lines for people on stderr: one line per event, whatever was in it.

Under systemd (JOURNAL_STREAM) each line begins with its priority (`<3>`) instead of the time, which the journal has.
Text from outside is escaped, so that nobody writes lines of his own into our log. Twisted's chatter about factories and
retries is shown only with `debug`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

from twisted.logger import ILogObserver, Logger, LogLevel, formatEvent, globalLogBeginner
from twisted.python.failure import Failure
from zope.interface import implementer

_PRIORITIES = {
    LogLevel.debug: 7,
    LogLevel.info: 6,
    LogLevel.warn: 4,
    LogLevel.error: 3,
    LogLevel.critical: 2,
}
_LEVELS = {
    logging.DEBUG: LogLevel.debug,
    logging.INFO: LogLevel.info,
    logging.WARNING: LogLevel.warn,
    logging.ERROR: LogLevel.error,
    logging.CRITICAL: LogLevel.critical,
}
MAX_LINE = 4_096  # characters of one line: what is longer is no message any more


def begin(stream: TextIO, environment: Mapping[str, str], level: str, hide: Callable[[str], str] = str) -> None:
    """Send all that is logged to a stream, from this level on; `hide` takes out what nobody may read."""
    observer = Lines(stream.write, bool(environment.get("JOURNAL_STREAM")), LogLevel.lookupByName(level), hide)
    globalLogBeginner.beginLoggingTo([observer], redirectStandardIO=False)
    sandbox = logging.getLogger("equus.sandbox")
    sandbox.addHandler(ToTwisted())
    sandbox.setLevel(logging.DEBUG)
    sandbox.propagate = False


class ToTwisted(logging.Handler):
    """What the sandbox logs: it knows the standard library alone, so that command lines need not import Twisted."""

    def emit(self, record: logging.LogRecord) -> None:
        log, text = Logger(namespace=record.name), record.getMessage()
        if record.exc_info is not None and record.exc_info[1] is not None:
            log.failure("{text}", Failure(record.exc_info[1]), text=text)
        else:
            log.emit(_LEVELS[record.levelno], "{text}", text=text)


@implementer(ILogObserver)
class Lines:
    """Writes an event as lines."""

    def __init__(
        self, write: Callable[[str], Any], for_journal: bool, least: Any, hide: Callable[[str], str] = str
    ) -> None:
        self._write = write
        self._for_journal = for_journal
        self._least = least
        self._hide = hide

    def __call__(self, event: dict[str, Any]) -> None:
        level = event.get("log_level", LogLevel.info)
        if level < self._least or (_is_chatter(event) and self._least > LogLevel.debug):
            return
        text = formatEvent(event)
        failure = event.get("log_failure")
        if failure is not None:
            text += "\n" + failure.getTraceback()
        text = self._hide(text)
        prefix = f"<{_PRIORITIES[level]}>" if self._for_journal else f"{_time(event)} {level.name:<8} "
        self._write("".join(f"{prefix}{escape(line)}\n" for line in text.split("\n") if line))


def _is_chatter(event: dict[str, Any]) -> bool:
    """Twisted's own remarks below a warning."""
    ours = str(event.get("log_namespace", "")).startswith("equus")
    return not ours and event.get("log_level", LogLevel.info) < LogLevel.warn


def _time(event: dict[str, Any]) -> str:
    return datetime.fromtimestamp(event.get("log_time", 0.0), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def escape(line: str) -> str:
    """Printable text as it is; everything else as Python would write it in a string."""
    shown = "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode() for c in line[:MAX_LINE])
    return shown + f"... ({len(line)} characters)" * (len(line) > MAX_LINE)
