"""Write log lines for people to stderr: one line per event, with everything unprintable escaped.

Under systemd (JOURNAL_STREAM) each line begins with its priority (`<3>`) instead of the time, which the journal has.
Text from outside is escaped, so that a peer can't write lines of its own into our log. Twisted's chatter about
factories and retries is shown only with `debug`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

from twisted.logger import ILogObserver, Logger, LogLevel, formatEvent, globalLogBeginner
from twisted.python.failure import Failure
from zope.interface import implementer

from groundwork.safe_log import guard_log

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
MAX_LINE = 4_096  # characters of one line: a longer one is data, not a message


def begin(stream: TextIO, environment: Mapping[str, str], level: str, hide: Callable[[str], str] = str) -> None:
    """Send log events of this level and above to a stream. `hide` removes secrets from each text."""
    observer = LineObserver(stream.write, bool(environment.get("JOURNAL_STREAM")), LogLevel.lookupByName(level), hide)
    guard_log()
    globalLogBeginner.beginLoggingTo([observer], redirectStandardIO=False)
    sandbox = logging.getLogger("equus.sandbox")
    sandbox.addHandler(TwistedHandler())
    sandbox.setLevel(logging.DEBUG)
    sandbox.propagate = False


class TwistedHandler(logging.Handler):
    """Pass records of the standard library's logging on to Twisted's logger.

    The sandbox logs through the standard library, so that `equus run` need not import Twisted.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Log the record at its own level; one with an exception as a failure."""
        log, text = Logger(namespace=record.name), record.getMessage()
        if record.exc_info is not None and record.exc_info[1] is not None:
            log.failure("{text}", Failure(record.exc_info[1]), text=text)
        else:
            log.emit(_LEVELS[record.levelno], "{text}", text=text)


@implementer(ILogObserver)
class LineObserver:
    """Write each event of at least level `least` as lines; a traceback is several."""

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
    """Return True for events of Twisted's own below a warning."""
    ours = str(event.get("log_namespace", "")).startswith("equus")
    return not ours and event.get("log_level", LogLevel.info) < LogLevel.warn


def _time(event: dict[str, Any]) -> str:
    return datetime.fromtimestamp(event.get("log_time", 0.0), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def escape(line: str) -> str:
    """Return the line with everything unprintable written as in a Python string, and cut at MAX_LINE."""
    shown = "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode() for c in line[:MAX_LINE])
    return shown + f"... ({len(line)} characters)" * (len(line) > MAX_LINE)
