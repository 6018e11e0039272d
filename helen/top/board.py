"""What `helen top` shows: a row for each check on each agent, joined from results and judged states. Pure.

It is fed with what the HTTP API says, and answers with rows in order, as far as they fit a filter. It neither asks nor
draws: helen/top/feed.py does the one, helen/top/view.py the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from attrs import field, frozen

from helen.durations import seconds

Key = tuple[str, str]  # agent, check

LETTERS = {"ok": "OK", "warning": "WA", "critical": "CR", "unknown": "UN"}
ORDER = {"critical": 0, "unknown": 1, "warning": 2, "ok": 3}  # the worst first, as on a board in a control room
LINK, LINK_SHOWN = "equus:link", "(link)"  # the agent's being there is judged as a check of that name
WORDS_OF = {
    "agent-away": "the agent is away", "stale": "nothing was heard of it for too long",
    "pending": "it has not reported yet",
}  # fmt: skip
SORTS = ("problems", "agent", "check", "since", "heard")


@frozen
class Row:
    """One check on one agent. `marks`: A acknowledged, D downtime, S silence, P parent broken, F flapping."""

    agent: str
    check: str
    status: str
    since: float
    heard: float | None = None
    summary: str = ""
    reason: str | None = None
    soft: str = ""  # `1/3` while it is not confirmed
    marks: str = ""
    labels: Mapping[str, str] = field(factory=dict)
    result: Mapping[str, Any] = field(factory=dict)
    state: Mapping[str, Any] = field(factory=dict)

    @property
    def key(self) -> Key:
        return self.agent, self.check

    @property
    def shown_check(self) -> str:
        return LINK_SHOWN if self.check == LINK else self.check


@frozen
class Update:
    """What was heard at once. A whole one takes the place of all before; else results are those that are new."""

    status: Mapping[str, Any]
    results: tuple[Mapping[str, Any], ...]
    states: tuple[Mapping[str, Any], ...]
    labels: Mapping[str, Mapping[str, str]] | None = None  # by agent; None: as before
    whole: bool = False


class Board:
    """All rows. `take` costs what has changed."""

    def __init__(self) -> None:
        self.rows: dict[Key, Row] = {}
        self.status: Mapping[str, Any] = {}
        self._results: dict[Key, Mapping[str, Any]] = {}
        self._states: dict[Key, Mapping[str, Any]] = {}
        self._labels: Mapping[str, Mapping[str, str]] = {}

    def take(self, update: Update) -> None:
        self.status = update.status
        new = {_key(result): result for result in update.results}
        states = {_key(state): state for state in update.states}
        before = self._states
        if update.whole:
            self._results, self.rows, touched = new, {}, new.keys() | states.keys()
        else:
            self._results |= new
            touched = new.keys() | {key for key in states.keys() | before.keys() if states.get(key) != before.get(key)}
        if update.labels is not None and update.labels != self._labels:
            self._labels = update.labels
            touched = touched | self.rows.keys()
        self._states = states
        for key in touched:
            self._join(key)

    def _join(self, key: Key) -> None:
        result, state = self._results.get(key), self._states.get(key)
        if result is None and state is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = row_of(key, result or {}, state or {}, self._labels.get(key[0], {}))

    def counts(self) -> dict[str, int]:
        """Of each status."""
        counted = dict.fromkeys(LETTERS, 0)
        for row in self.rows.values():
            counted[row.status] += 1
        return counted

    def view(self, fits: Callable[[Row, float], bool], sort: str, now: float) -> list[Row]:
        """The rows that fit, in this order; the name is the last word in any of them."""
        return sorted((row for row in self.rows.values() if fits(row, now)), key=_SORT_KEYS[sort])


def _key(document: Mapping[str, Any]) -> Key:
    return document["agent"], document["check_id"]


def row_of(key: Key, result: Mapping[str, Any], state: Mapping[str, Any], labels: Mapping[str, str]) -> Row:
    """One of them may be missing: a check that is well has no state here, an agent that is away no result."""
    status = state.get("status") or result.get("status") or "unknown"
    reason = state.get("reason") or result.get("reason")
    summary = result.get("summary") or ""
    words = WORDS_OF.get(reason or "")
    if words is not None:
        summary = f"{words}; it said: {summary}" if summary else words
    elif result.get("kept"):
        summary = "kept from before Helen's start"
    soft = f"{state['attempt']}/{state['attempts']}" if state.get("kind") == "soft" else ""
    since = state.get("since") or result.get("since") or 0.0
    return Row(
        *key, status, since, result.get("received"), summary, reason, soft, marks_of(state), labels, result, state
    )


def marks_of(state: Mapping[str, Any]) -> str:
    letters = {"downtime": "D", "silence": "S", "dependency": "P"}
    held = {letters.get(hold["kind"], "") for hold in state.get("held_by") or ()}
    said = ["A" if state.get("acknowledged") else "", *sorted(held), "F" if state.get("flapping") else ""]
    return "".join(said)


_SORT_KEYS: dict[str, Callable[[Row], Any]] = {
    "problems": lambda row: (ORDER[row.status], row.marks[:1] in tuple("ADSP"), -row.since, row.agent, row.check),
    "agent": lambda row: (row.agent, row.check),
    "check": lambda row: (row.check, row.agent),
    "since": lambda row: (-row.since, row.agent, row.check),
    "heard": lambda row: (row.heard or 0.0, row.agent, row.check),
}

# ---------------------------------------------------------------------------------------------------- filters

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
    """Words that must all hold; docs/commands.rst lists them. Raises ValueError with a sentence."""
    tests = [_test(word) for word in text.split()]
    return lambda row, now: all(test(row, now) for test in tests)


def _test(word: str) -> Fits:
    name, colon, value = word.partition(":")
    if colon and name in _NAMED:
        return _NAMED[name](value)
    key, is_label, pattern = word.partition("=")
    if is_label and key:
        return lambda row, now: key in row.labels and fnmatchcase(row.labels[key], pattern)
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
        lasting = seconds(value)
    except ValueError as error:
        raise ValueError(f"since:{value}: {error}") from error
    return lambda row, now: now - row.since <= lasting


_NAMED: dict[str, Callable[[str], Fits]] = {
    "state": _by_state,
    "is": _by_flag,
    "since": _since,
    "agent": lambda value: lambda row, now: fnmatchcase(row.agent, value),
    "check": lambda value: lambda row, now: fnmatchcase(row.shown_check, value),
}
