"""Turns local calendar days into spans of UTC. Pure. A day has 23, 24 or 25 hours, by the clocks of the zone."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from attrs import frozen

from helen.pipeline.lake.errors import PipelineError

MICROS = 1_000_000
MOST_DAYS = 4000  # ten years in one report


@frozen
class Day:
    """Holds a local day: microseconds since 1970, the end not included."""

    date: date
    begin: int
    end: int


def local_days(first: date, last: date, zone: str) -> list[Day]:
    """Return the days from `first` to `last`, both included. Raises PipelineError for an unknown zone or a bad span."""
    try:
        place = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise PipelineError(f"{zone!r} is no time zone: write a name such as Europe/Berlin or UTC.") from None
    count = (last - first).days + 1
    if not 1 <= count <= MOST_DAYS:
        raise PipelineError(f"From {first} to {last} are {count} days; a report takes 1 to {MOST_DAYS}.")
    midnights = [_midnight(first + timedelta(days=n), place) for n in range(count + 1)]
    return [Day(first + timedelta(days=n), midnights[n], midnights[n + 1]) for n in range(count)]


def micros_of(time: datetime) -> int:
    """Return microseconds since 1970, exactly: a float of seconds is a microsecond off now and then."""
    since = time - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * MICROS + since.microseconds


def date_of(micros: int) -> date:
    """Return the UTC day of a time in microseconds since 1970."""
    return datetime.fromtimestamp(micros // MICROS, UTC).date()


def micros_of_day(day: date) -> int:
    """Return the beginning of a UTC day, microseconds since 1970."""
    return (day - date(1970, 1, 1)).days * 86_400 * MICROS


def parse_day(text: str, today: date) -> date:
    """Return the day that `2026-11-27`, `today` or `yesterday` names. Raises PipelineError for any other text."""
    if text in ("today", "yesterday"):
        return today - timedelta(days=text == "yesterday")
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise PipelineError(f"{text!r} is no day: write 2026-11-27, today or yesterday.") from None


def local_today(now: datetime, zone: str) -> date:
    """Return the date of `now` in a zone. Raises PipelineError for an unknown zone."""
    local_days(date(2000, 1, 1), date(2000, 1, 1), zone)  # the sentence about wrong zones
    return now.astimezone(ZoneInfo(zone)).date()


def _midnight(day: date, zone: ZoneInfo) -> int:
    """Return when a day begins, in microseconds: at the jump if clocks skip midnight, at the first of two."""
    moment = datetime.combine(day, time(), zone).astimezone(UTC)
    return round(moment.timestamp()) * MICROS
