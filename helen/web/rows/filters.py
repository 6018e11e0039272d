"""Reads the filter language of the board and of `helen top`; docs/commands.rst lists its words. Pure.

static/board.js has a twin of it, and one table of cases, tests/helen/web/rows/filters.json, is run in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from groundwork.durations import parse_duration
from groundwork.globs import fits_glob
from helen.web.rows.row import LETTERS, Row

Fits = Callable[[Row, float], bool]
_FLAGS: dict[str, Callable[[Row], bool]] = {
    "soft": lambda row: bool(row.soft),
    "acked": lambda row: "A" in row.marks,
    "held": lambda row: any(mark in row.marks for mark in "DSP"),
    "flapping": lambda row: "F" in row.marks,
    "stale": lambda row: row.reason == "stale",
    "away": lambda row: row.reason == "agent-away",
    "open": lambda row: row.status != "ok" and not row.marks.strip("F"),
}


def read_filter(text: str) -> Fits:
    """Return the test for a filter, all words of which must hold; docs/commands.rst lists them.

    Raises ValueError, with a sentence, if a word can't be read.
    """
    tests = [_test(word) for word in text.split()]
    return lambda row, now: all(test(row, now) for test in tests)


def _test(word: str) -> Fits:
    name, colon, value = word.partition(":")
    if colon and name in _NAMED:
        return _NAMED[name](value)
    key, is_label, pattern = word.partition("=")
    if is_label and key:
        return lambda row, now: key in row.labels and fits_glob(row.labels[key], pattern)
    wanted = word.lower()
    return lambda row, now: wanted in f"{row.agent}/{row.shown_check} {row.summary}".lower()


def _by_state(value: str) -> Fits:
    wanted = {status for word in value.lower().split(",") for status in _statuses(word)}
    return lambda row, now: row.status in wanted


def _statuses(word: str) -> Iterable[str]:
    if word == "problem":
        return [status for status in LETTERS if status != "ok"]
    found = [status for status in LETTERS if word and status.startswith(word)]
    if not found:
        raise ValueError(f"state:{word}: there are ok, warning, critical, unknown (or their beginnings) and problem")
    return found


def _by_flag(value: str) -> Fits:
    flag = _FLAGS.get(value)
    if flag is None:
        raise ValueError(f"is:{value}: there are {', '.join(_FLAGS)}")
    return lambda row, now: flag(row)


def _since(value: str) -> Fits:
    try:
        lasting = parse_duration(value)
    except ValueError as error:
        raise ValueError(f"since:{value}: {error}") from error
    return lambda row, now: now - row.since <= lasting


_NAMED: dict[str, Callable[[str], Fits]] = {
    "state": _by_state,
    "is": _by_flag,
    "since": _since,
    "agent": lambda value: lambda row, now: fits_glob(row.agent, value),
    "check": lambda value: lambda row, now: fits_glob(row.shown_check, value),
}
