"""Downtimes and silences: which checks, and when, once or each day or week, in a time zone of its own. Pure.

A downtime is planned time; a silence is only quiet. Both hold back new alerts, and any number of them may overlap.

A recurring window covers the moments whose local time lies between `begin` and `end`, from the first of them to the
last, on both nights of the year when clocks change: where an hour is missing the window is shorter (or empty), where
one comes twice it is longer. Zones are names of the IANA database; an offset would be wrong half of the year.
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

from helen.matchers import ALERTNAME, MAX_MATCHERS, Matcher, as_labels, read_matcher

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MAX_PATTERNS = 1_000  # of one scope: a list of hosts, not of the fleet
MAX_COMMENT = 2_000  # characters
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_MISSING_HOUR = 0.5  # seconds: to this the moment is found at which clocks go forward

Span = tuple[float, float]


class WindowRefused(ValueError):
    """It can't be used; the text says what to write instead."""


@frozen
class Scope:
    """Which checks: name patterns of agents and checks, labels whose patterns must all fit, and matchers likewise."""

    agents: tuple[str, ...] = ("*",)
    checks: tuple[str, ...] = ("*",)
    labels: tuple[tuple[str, str], ...] = ()
    matchers: tuple[Matcher, ...] = ()

    def covers(self, agent: str, check_id: str, labels: Mapping[str, str]) -> bool:
        return (
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
    """`days`: 0 is Monday, on which it begins; `begin` and `end` local, an end that isn't later is on the next day."""

    begin: time
    end: time
    zone: ZoneInfo
    days: tuple[int, ...] = tuple(range(7))


@frozen
class Window:
    """`begin` and `until` bound it; between them it is on all the time, or as its recurrence says."""

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
        """What is said of it where it holds something back."""
        by = f" by {self.author}" if self.author else ""
        return f"{self.kind} {self.id}{by}" + (f": {self.comment}" if self.comment else "")

    def to_json(self) -> dict[str, Any]:
        recurrence = self.recurrence
        matchers = [matcher.to_json() for matcher in self.scope.matchers]
        return {
            "id": self.id,
            "kind": self.kind,
            "agents": list(self.scope.agents),
            "checks": list(self.scope.checks),
            "labels": dict(self.scope.labels),
            **({"matchers": matchers} if matchers else {}),
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
    """When it is on, from `after` on, in order; one that has begun already is the first. May be endless."""
    until = float("inf") if window.until is None else window.until
    for begin, end in _unbounded(window, max(after, window.begin)):
        begin, end = max(begin, window.begin), min(end, until)
        if begin >= until:
            return
        if end > after and end > begin:
            yield begin, end


def on_at(window: Window, at: float) -> float | None:
    """When it ends, if it is on at this moment."""
    begin, end = next(spans(window, at), (float("inf"), 0.0))
    return end if begin <= at else None


def next_edge(window: Window, at: float) -> float | None:
    """When it goes on or off next, after `at`; None: never again."""
    for begin, end in spans(window, at):
        return begin if begin > at else end
    return None


def _unbounded(window: Window, start: float) -> Iterator[Span]:
    """The spans of the recurrence; two that touch on a night when clocks change are one."""
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
    day = datetime.fromtimestamp(start, zone).date() - timedelta(days=2)  # one may have begun the day before
    overnight = recurrence.end <= recurrence.begin
    while day.year < 9998:
        if day.weekday() in recurrence.days:
            begin = _moment(day, recurrence.begin, zone, last=False)
            end = _moment(day + timedelta(days=overnight), recurrence.end, zone, last=True)
            if end > begin:
                yield begin, end
        day += timedelta(days=1)


def _moment(day: date, at: time, zone: ZoneInfo, last: bool) -> float:
    """A local time as unix time: the first or the last of two, and the jump itself where clocks leave it out."""
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


def read_window(document: Mapping[str, Any], now: float) -> Window:
    """From JSON, as `to_json` writes it; `begin` left out is now. Raises WindowRefused."""
    unknown = document.keys() - {
        "id", "kind", "agents", "checks", "labels", "begin", "until", "recurrence", "author", "comment", "created",
        "matchers",
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
    labels = document.get("labels") or {}
    if not isinstance(labels, dict) or not all(isinstance(glob, str) for glob in labels.values()):
        raise WindowRefused('`labels` is an object of patterns: {"role": "web*"}')
    agents, checks = _patterns(document, "agents"), _patterns(document, "checks")
    return Scope(agents, checks, tuple(sorted(labels.items())), _matchers(document.get("matchers") or []))


def _matchers(listed: Any) -> tuple[Matcher, ...]:
    """As Alertmanager has them. What a check's severity is changes while a window is open, so none is about it."""
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
    """`{"days": ["mon", "fri"], "begin": "22:00", "end": "06:00", "zone": "Europe/Berlin"}`; without days: each day."""
    if not isinstance(document, dict) or document.keys() - {"days", "begin", "end", "zone"}:
        raise WindowRefused("`recurrence` is an object of days, begin, end and zone")
    begin, end = _clock(document, "begin"), _clock(document, "end")
    if begin == end:
        raise WindowRefused("a recurrence whose end is its begin covers the whole day: leave the recurrence out")
    days = document.get("days")
    if days is None:
        days = list(WEEKDAYS)
    if not isinstance(days, list) or not days or not all(day in WEEKDAYS for day in days):
        raise WindowRefused(f"`days` is a list of {', '.join(WEEKDAYS)}")
    return Recurrence(begin, end, _zone(document.get("zone")), tuple(sorted({WEEKDAYS.index(day) for day in days})))


def _zone(name: Any) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (TypeError, ValueError, OSError, LookupError) as error:  # a path out of the database, a folder, no such key
        raise WindowRefused(f"`zone` is {name!r}: write a name such as Europe/Berlin, or UTC") from error


def _clock(document: Mapping[str, Any], key: str) -> time:
    match = _TIME.fullmatch(document.get(key) or "") if isinstance(document.get(key), str) else None
    if match is None:
        raise WindowRefused(f"`{key}` of a recurrence is a local time such as 22:00")
    return time(int(match[1]), int(match[2]))


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
