"""Reads downtimes and silences, and computes their scope and times: once, or each day or week, in a time zone. Pure.

A downtime is planned time; a silence is only quiet. Both hold back new alerts, and any number of them may overlap.

A recurring window covers all moments with a local time between `begin` and `end`, on both nights of the year when
clocks change as well: where an hour is missing the window is shorter (or empty), where one comes twice it is longer.
Zones are names of the IANA database; an offset would be wrong half of the year. Times are unix seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta
from fnmatch import translate
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from attrs import field, frozen

from helen.states.matchers import ALERTNAME, MAX_MATCHERS, Matcher, as_labels, read_matcher
from helen.states.model import Key

MAX_KEYS = 1_000  # exact checks of one window

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MAX_PATTERNS = 1_000  # of one scope: a list of hosts, not of the fleet
MAX_COMMENT = 2_000  # characters
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])|(24):00")
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_MISSING_HOUR = 0.5  # seconds: to this the moment is found at which clocks go forward

Span = tuple[float, float]


class WindowRefused(ValueError):
    """Says that a downtime or silence can't be used; the text says what to write instead."""


@frozen
class Scope:
    """Holds the checks of a window: name patterns of agents and checks; patterns of labels and matchers must all fit.

    `keys` are covered besides, whatever the patterns say; patterns of agents that are empty fit no other check.
    """

    agents: tuple[str, ...] = ("*",)
    checks: tuple[str, ...] = ("*",)
    labels: tuple[tuple[str, str], ...] = ()
    matchers: tuple[Matcher, ...] = ()
    keys: frozenset[Key] = frozenset()

    def covers(self, agent: str, check_id: str, labels: Mapping[str, str]) -> bool:
        """Return True if this check of an agent with these labels is in the scope."""
        return (agent, check_id) in self.keys or (
            _pattern(self.agents).match(agent) is not None
            and _pattern(self.checks).match(check_id) is not None
            and all(key in labels and _pattern((glob,)).match(labels[key]) is not None for key, glob in self.labels)
            and (not self.matchers or self._matches(agent, check_id, labels))
        )

    def _matches(self, agent: str, check_id: str, labels: Mapping[str, str]) -> bool:
        of_alert = {**as_labels(labels), "alertname": ALERTNAME, "agent": agent, "check": check_id}
        return all(matcher.matches(of_alert) for matcher in self.matchers)


@lru_cache(maxsize=1024)  # a few patterns per window; each is asked for every check of the fleet
def _pattern(globs: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, globs)) or "(?!)")


@frozen
class Recurrence:
    """Describes local times on some days of the week, 0 being Monday.

    An end that isn't later than `begin` is on the next day.

    An end of 24:00 is 00:00 of the next day, and one that equals `begin` is 24 hours later.
    """

    begin: time
    end: time
    zone: ZoneInfo
    days: tuple[int, ...] = tuple(range(7))


@frozen
class Window:
    """Describes a downtime or silence. Between `begin` and `until` it is on all the time, or as its recurrence says."""

    id: str
    kind: str  # downtime or silence
    scope: Scope
    begin: float
    until: float | None = None
    recurrence: Recurrence | None = None
    author: str = ""
    comment: str = ""
    created: float = field(default=0.0)

    @property
    def sentence(self) -> str:
        """Return the sentence with which the window appears as a reason to hold an alert back."""
        by = f" by {self.author}" if self.author else ""
        return f"{self.kind} {self.id}{by}" + (f": {self.comment}" if self.comment else "")

    def to_json(self) -> dict[str, Any]:
        """Return the document that `read_window` reads.

        Its keys: id, kind, agents, checks, labels, matchers and keys (if any), begin, until, recurrence (None, or days,
        begin, end and zone), author, comment, created.
        """
        recurrence = self.recurrence
        matchers = [matcher.to_json() for matcher in self.scope.matchers]
        keys = [list(key) for key in sorted(self.scope.keys)]
        return {
            "id": self.id,
            "kind": self.kind,
            "agents": list(self.scope.agents),
            "checks": list(self.scope.checks),
            "labels": dict(self.scope.labels),
            **({"matchers": matchers} if matchers else {}),
            **({"keys": keys} if keys else {}),
            "begin": self.begin,
            "until": self.until,
            "recurrence": None
            if recurrence is None
            else {
                "days": [WEEKDAYS[day] for day in recurrence.days],
                "begin": f"{recurrence.begin:%H:%M}",
                "end": f"{recurrence.end:%H:%M}",
                "zone": recurrence.zone.key,
            },
            "author": self.author,
            "comment": self.comment,
            "created": self.created,
        }


# ------------------------------------------------------------------------------------------------ when


def spans(window: Window, after: float) -> Iterator[Span]:
    """Give the times at which a window is on, in order, after `after`, unix seconds. May be endless.

    The first of them may have begun before.
    """
    until = float("inf") if window.until is None else window.until
    for begin, end in _unbounded(window, max(after, window.begin)):
        begin, end = max(begin, window.begin), min(end, until)
        if begin >= until:
            return
        if end > after and end > begin:
            yield begin, end


def on_at(window: Window, at: float) -> float | None:
    """Return when a window ends, if it is on at `at`, else None; unix seconds."""
    begin, end = next(spans(window, at), (float("inf"), 0.0))
    return end if begin <= at else None


def next_edge(window: Window, at: float) -> float | None:
    """Return when a window begins or ends next, after `at`, unix seconds; None: never again."""
    for begin, end in spans(window, at):
        return begin if begin > at else end
    return None


def _unbounded(window: Window, start: float) -> Iterator[Span]:
    """Give the spans of the recurrence; two that touch on a night when clocks change are one."""
    recurrence = window.recurrence
    if recurrence is None:
        yield window.begin, float("inf")
        return
    held: Span | None = None
    for begin, end in _daily(recurrence, start):
        if held is not None and begin <= held[1]:
            held = held[0], max(end, held[1])
            continue
        if held is not None:
            yield held
        held = begin, end


def _daily(recurrence: Recurrence, start: float) -> Iterator[Span]:
    zone = recurrence.zone
    touching = recurrence.end == recurrence.begin  # up to six days may be one span
    day = datetime.fromtimestamp(start, zone).date() - timedelta(days=8 if touching else 2)  # it may have begun before
    overnight = recurrence.end <= recurrence.begin
    while day.year < 9998:
        if day.weekday() in recurrence.days:
            begin = _moment(day, recurrence.begin, zone, last=False)
            end = _moment(day + timedelta(days=overnight), recurrence.end, zone, last=True)
            if end > begin:
                yield begin, end
        day += timedelta(days=1)


def _moment(day: date, at: time, zone: ZoneInfo, last: bool) -> float:
    """Return a local time as unix time: the first or the last of two, or the jump itself if clocks leave it out."""
    first, second = (datetime.combine(day, at, zone).replace(fold=fold).timestamp() for fold in (0, 1))
    if first <= second:
        return second if last else first
    low, high = second, first  # left out: the clock jumps somewhere between
    before = datetime.fromtimestamp(low, zone).utcoffset()
    while high - low > _MISSING_HOUR:
        middle = (low + high) / 2
        low, high = (middle, high) if datetime.fromtimestamp(middle, zone).utcoffset() == before else (low, middle)
    return round(high)


# ------------------------------------------------------------------------------------------------ reading


def planned_window(kind: str, document: Mapping[str, Any], at: float) -> Window | None:
    """Return the window of a `downtime` or `silence` change that was received at `at`, unix seconds.

    None for one that cancels, and for one that can't be read: another version may have written it.
    """
    if document.get("action") == "cancel":
        return None
    fields = {name: value for name, value in document.items() if name not in ("action", "agent")}
    try:
        return read_window({"kind": kind, **fields}, at)
    except WindowRefused:
        return None


def read_window(document: Mapping[str, Any], now: float) -> Window:
    """Read a window from JSON, as `to_json` writes it. Without `begin` it begins at `now`, unix seconds.

    Raises WindowRefused with a sentence if a field is unknown, missing or can't be used.
    """
    unknown = document.keys() - {
        "id", "kind", "agents", "checks", "labels", "begin", "until", "recurrence", "author", "comment", "created",
        "matchers", "keys",
    }  # fmt: skip
    if unknown:
        raise WindowRefused(f"{', '.join(sorted(unknown))}: no field of a downtime or silence")
    kind, id_ = document.get("kind"), document.get("id")
    if kind not in ("downtime", "silence"):
        raise WindowRefused("`kind` is downtime or silence")
    if not isinstance(id_, str) or _ID.fullmatch(id_) is None:
        raise WindowRefused("`id` has 1 to 64 letters, digits, dots, dashes or underscores")
    recurrence = document.get("recurrence")
    begin, until = _number(document, "begin"), _number(document, "until")
    begin = now if begin is None else begin
    if until is None and recurrence is None:
        raise WindowRefused("`until` is missing: when does it end? Only a recurring one may go on for ever")
    if until is not None and until <= begin:
        raise WindowRefused("`until` is not later than `begin`")
    return Window(
        id_, kind, read_scope(document), begin, until, None if recurrence is None else read_recurrence(recurrence),
        _text(document, "author", 200), _text(document, "comment", MAX_COMMENT), _number(document, "created") or now,
    )  # fmt: skip


def read_scope(document: Mapping[str, Any]) -> Scope:
    """Read `agents`, `checks`, `labels`, `matchers`, `keys`. Raises WindowRefused if one of them can't be used."""
    labels = document.get("labels") or {}
    if not isinstance(labels, dict) or not all(isinstance(glob, str) for glob in labels.values()):
        raise WindowRefused('`labels` is an object of patterns: {"role": "web*"}')
    keys = _keys(document.get("keys") or [])
    if keys and not any(document.get(name) for name in ("agents", "checks", "labels", "matchers")):
        return Scope((), (), keys=keys)
    agents, checks = _patterns(document, "agents"), _patterns(document, "checks")
    return Scope(agents, checks, tuple(sorted(labels.items())), _matchers(document.get("matchers") or []), keys)


def _keys(listed: Any) -> frozenset[Key]:
    """Read exact checks, each as [AGENT, CHECK]: patterns of agents and checks cover each with each."""
    if not isinstance(listed, list) or len(listed) > MAX_KEYS:
        raise WindowRefused(f"`keys` is a list of at most {MAX_KEYS} checks, each as [AGENT, CHECK]")
    for each in listed:
        if not isinstance(each, list) or len(each) != 2 or not all(isinstance(name, str) and name for name in each):
            raise WindowRefused("`keys`: each is [AGENT, CHECK]")
    return frozenset((agent, check) for agent, check in listed)


def _matchers(listed: Any) -> tuple[Matcher, ...]:
    """Read matchers. None is about the severity: that changes while a window is open, and a window holds every one."""
    if not isinstance(listed, list) or len(listed) > MAX_MATCHERS:
        raise WindowRefused(f"`matchers` is a list of at most {MAX_MATCHERS}")
    try:
        found = tuple(read_matcher(each) for each in listed)
    except ValueError as error:
        raise WindowRefused(str(error)) from error
    if any(matcher.name == "severity" for matcher in found):
        raise WindowRefused("a silence holds whatever the severity is: leave the matcher for `severity` out")
    return found


def read_recurrence(document: Any) -> Recurrence:
    """Read `{"days": ["mon", "fri"], "begin": "22:00", "end": "06:00", "zone": "Europe/Berlin"}`.

    Without days it is each day. Raises WindowRefused if something can't be used.
    """
    if not isinstance(document, dict) or document.keys() - {"days", "begin", "end", "zone"}:
        raise WindowRefused("`recurrence` is an object of days, begin, end and zone")
    begin, end = _clock(document, "begin"), _clock(document, "end")
    days = document.get("days")
    if days is None:
        days = list(WEEKDAYS)
    if not isinstance(days, list) or not days or not all(_day(day) in WEEKDAYS for day in days):
        raise WindowRefused(f"`days` is a list of {', '.join(WEEKDAYS)}")
    chosen = tuple(sorted({WEEKDAYS.index(_day(day)) for day in days}))
    if begin == end and len(chosen) == len(WEEKDAYS):
        raise WindowRefused("a recurrence that covers the whole day, each day, is always on: leave the recurrence out")
    return Recurrence(begin, end, _zone(document.get("zone")), chosen)


def _day(given: Any) -> str:
    return given.strip().lower() if isinstance(given, str) else ""


def _zone(name: Any) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (TypeError, ValueError, OSError, LookupError) as error:  # a path out of the database, a folder, no such key
        raise WindowRefused(f"`zone` is {name!r}: write a name such as Europe/Berlin, or UTC") from error


def _clock(document: Mapping[str, Any], key: str) -> time:
    given = document.get(key)
    match = _TIME.fullmatch(given.strip()) if isinstance(given, str) else None
    if match is None or (match[3] and key == "begin"):
        raise WindowRefused(f"`{key}` of a recurrence is a local time such as 22:00")
    return time() if match[3] else time(int(match[1]), int(match[2]))


def _patterns(document: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = document.get(key, ["*"])
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, list | tuple) or not 0 < len(value) <= MAX_PATTERNS:
        raise WindowRefused(f"`{key}` is a list of 1 to {MAX_PATTERNS} names or patterns")
    if not all(isinstance(glob, str) and 0 < len(glob) <= 255 for glob in value):
        raise WindowRefused(f"`{key}`: each is a text of 1 to 255 characters")
    return tuple(value)


def _number(document: Mapping[str, Any], key: str) -> float | None:
    value = document.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 253_370_764_800:
        raise WindowRefused(f"`{key}` is a time in unix seconds, before the year 9999")
    return float(value)


def _text(document: Mapping[str, Any], key: str, most: int) -> str:
    value = document.get(key, "")
    if not isinstance(value, str) or len(value) > most:
        raise WindowRefused(f"`{key}` is a text of at most {most} characters")
    return value
