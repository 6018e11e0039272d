"""Tests downtimes and silences in time: both nights of the year when clocks change, refusals, and round trips."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helen.states.downtimes import WEEKDAYS, Scope, Window, WindowRefused, next_edge, on_at, read_window, spans

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str, zone: ZoneInfo = BERLIN, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone, fold=fold).timestamp()


def nightly(begin: str, end: str, zone: str = "Europe/Berlin", **days: list[str]) -> Window:
    recurrence = {"begin": begin, "end": end, "zone": zone, **days}
    return read_window({"id": "n", "kind": "downtime", "begin": 0.0, "recurrence": recurrence}, 0.0)


def hours(window: Window, after: float, count: int) -> list[tuple[str, str]]:
    """Return the next spans in UTC."""
    found = []
    for begin, end in spans(window, after):
        found.append(tuple(f"{datetime.fromtimestamp(t, ZoneInfo('UTC')):%m-%d %H:%M}" for t in (begin, end)))
        if len(found) == count:
            break
    return found


# In Berlin clocks go from 02:00 to 03:00 on 2026-03-29, and from 03:00 to 02:00 on 2026-10-25.
NIGHTS = {
    "spring, around the missing hour": (
        "01:00", "04:00", "2026-03-28T12:00",
        [("03-29 00:00", "03-29 02:00"), ("03-29 23:00", "03-30 02:00")],
    ),
    "spring, begins in it": (
        "02:30", "04:00", "2026-03-28T12:00",
        [("03-29 01:00", "03-29 02:00"), ("03-30 00:30", "03-30 02:00")],
    ),
    "spring, ends in it": (
        "01:00", "02:30", "2026-03-28T12:00",
        [("03-29 00:00", "03-29 01:00"), ("03-29 23:00", "03-30 00:30")],
    ),
    "spring, within it": (
        "02:15", "02:45", "2026-03-28T12:00",
        [("03-30 00:15", "03-30 00:45"), ("03-31 00:15", "03-31 00:45")],
    ),
    "spring, over midnight": (
        "22:00", "06:00", "2026-03-28T12:00",
        [("03-28 21:00", "03-29 04:00"), ("03-29 20:00", "03-30 04:00")],
    ),
    "autumn, around the double hour": (
        "01:00", "04:00", "2026-10-24T12:00",
        [("10-24 23:00", "10-25 03:00"), ("10-26 00:00", "10-26 03:00")],
    ),
    "autumn, begins in it": (
        "02:30", "04:00", "2026-10-24T12:00",
        [("10-25 00:30", "10-25 03:00"), ("10-26 01:30", "10-26 03:00")],
    ),
    "autumn, ends in it": (
        "01:00", "02:30", "2026-10-24T12:00",
        [("10-24 23:00", "10-25 01:30"), ("10-26 00:00", "10-26 01:30")],
    ),
    "autumn, within it": (
        "02:15", "02:45", "2026-10-24T12:00",
        [("10-25 00:15", "10-25 01:45"), ("10-26 01:15", "10-26 01:45")],
    ),
    "autumn, nearly all day": (
        "02:45", "02:30", "2026-10-23T12:00",
        [("10-23 00:45", "10-24 00:30"), ("10-24 00:45", "10-26 01:30"), ("10-26 01:45", "10-27 01:30")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("night", NIGHTS)
def test_the_nights_when_clocks_change(night: str) -> None:
    """A window covers the moments whose local time is in it, from the first to the last."""
    begin, end, after, expected = NIGHTS[night]
    assert hours(nightly(begin, end), at(after), len(expected)) == expected


ZONES = st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"])


@settings(deadline=None)  # a busy machine is no fault of it
@given(st.integers(0, 2 * 366 * 24 * 4), st.integers(0, 95), st.integers(0, 95), ZONES)
def test_local_time_decides(quarter: int, begin: int, end: int, zone: str) -> None:
    """A moment is covered if its local time is within, except for an hour that comes twice."""
    if begin == end:
        return
    moment = at("2026-01-01T00:00", ZoneInfo("UTC")) + quarter * 900.0
    words = [f"{each // 4:02}:{each % 4 * 15:02}" for each in (begin, end)]
    window = nightly(*words, zone=zone)
    local = datetime.fromtimestamp(moment, ZoneInfo(zone))
    now = local.hour * 4 + local.minute // 15
    within = begin <= now < end if begin < end else now >= begin or now < end
    other = local.replace(fold=1 - local.fold)
    twice = other.utcoffset() != local.utcoffset()
    near = any((local + timedelta(hours=h)).utcoffset() != local.utcoffset() for h in (-26, 26))
    covered = on_at(window, moment) is not None
    assert covered == within or (covered and (twice or near))


def test_weekdays_are_those_on_which_it_begins() -> None:
    """Friday night goes on into Saturday, and comes again in a week."""
    window = nightly("22:00", "06:00", days=["fri"], zone="UTC")
    nights = [("01-02 22:00", "01-03 06:00"), ("01-09 22:00", "01-10 06:00")]
    assert hours(window, at("2026-01-01T00:00", ZoneInfo("UTC")), 2) == nights
    assert on_at(window, at("2026-01-03T05:59", ZoneInfo("UTC"))) == at("2026-01-03T06:00", ZoneInfo("UTC"))
    assert on_at(window, at("2026-01-03T06:00", ZoneInfo("UTC"))) is None


WHOLE_DAYS = {
    # begin, end, days, zone -> the spans after a Wednesday noon (UTC)
    "a weekend": ("00:00", "24:00", ["sat", "sun"], "UTC",
                  [("01-10 00:00", "01-12 00:00"), ("01-17 00:00", "01-19 00:00")]),
    "in a zone": ("00:00", "24:00", ["sun"], "Europe/Berlin", [("01-10 23:00", "01-11 23:00")]),
    "an end that is the begin": ("06:00", "06:00", ["fri"], "UTC", [("01-09 06:00", "01-10 06:00")]),
    "an evening": ("22:00", "24:00", ["thu"], "UTC", [("01-08 22:00", "01-09 00:00"), ("01-15 22:00", "01-16 00:00")]),
    "midnight written twice": ("00:00", "00:00", ["mon", "wed"], "UTC",
                               [("01-07 00:00", "01-08 00:00"), ("01-12 00:00", "01-13 00:00")]),
    "over the end of the week": ("12:00", "12:00", ["sun", "mon"], "UTC", [("01-11 12:00", "01-13 12:00")]),
    "all but one": ("00:00", "24:00", ["mon", "tue", "wed", "thu", "fri", "sat"], "UTC",
                    [("01-05 00:00", "01-11 00:00"), ("01-12 00:00", "01-18 00:00")]),
    "with blanks": (" 00:00", "24:00 ", [" sat", "SUN "], "UTC", [("01-10 00:00", "01-12 00:00")]),
}  # fmt: skip


@pytest.mark.parametrize("case", WHOLE_DAYS)
def test_whole_days(case: str) -> None:
    """The time 24:00 is taken, an end that is the begin is a day later, and spans that touch are one. (F31)"""
    begin, end, days, zone, expected = WHOLE_DAYS[case]
    window = nightly(begin, end, days=days, zone=zone)
    noon = at("2026-01-07T12:00", ZoneInfo("UTC"))
    assert hours(window, noon, len(expected)) == expected
    assert hours(read_window(window.to_json(), 0.0), noon, len(expected)) == expected


@settings(deadline=None)  # a busy machine is no fault of it
@given(st.integers(0, 366 * 24 * 4), st.integers(0, 95), st.sets(st.integers(0, 6), min_size=1, max_size=6), ZONES)
def test_a_day_is_covered_from_its_begin_to_the_next(quarter: int, begin: int, days: set[int], zone: str) -> None:
    """A moment is covered by the day whose begin came last, wherever the day begins. (F31)"""
    moment = at("2026-01-01T00:00", ZoneInfo("UTC")) + quarter * 900.0
    word = f"{begin // 4:02}:{begin % 4 * 15:02}"
    window = nightly(word, word, days=[WEEKDAYS[day] for day in days], zone=zone)
    local = datetime.fromtimestamp(moment, ZoneInfo(zone))
    near = any((local + timedelta(hours=h)).utcoffset() != local.utcoffset() for h in (-26, 26))
    started = local - timedelta(days=local.hour * 4 + local.minute // 15 < begin)
    assert near or (on_at(window, moment) is not None) == (started.weekday() in days)


def test_begin_and_until_bound_a_recurrence() -> None:
    """The first and the last are cut, and then there is nothing more."""
    bounds = {"begin": at("2026-01-01T23:00", ZoneInfo("UTC")), "until": at("2026-01-03T01:00", ZoneInfo("UTC"))}
    recurrence = {"begin": "22:00", "end": "06:00", "zone": "UTC"}
    window = read_window({"id": "n", "kind": "downtime", "recurrence": recurrence, **bounds}, 0.0)
    assert hours(window, 0.0, 9) == [("01-01 23:00", "01-02 06:00"), ("01-02 22:00", "01-03 01:00")]
    assert next_edge(window, at("2026-01-03T01:00", ZoneInfo("UTC"))) is None


def test_edges_of_one_that_happens_once() -> None:
    """A single window is on within its span, and its next edge is its begin, its end, or none."""
    window = read_window({"id": "o", "kind": "silence", "begin": 100, "until": 200}, 0.0)
    assert [(on_at(window, t), next_edge(window, t)) for t in (50.0, 100.0, 199.0, 200.0)] == [
        (None, 100.0), (200.0, 200.0), (200.0, 200.0), (None, None),
    ]  # fmt: skip


SCOPES = [
    (Scope(), "web-1", "disk", {}, True),
    (Scope((), (), keys=frozenset({("web-1", "disk")})), "web-1", "disk", {}, True),
    (Scope((), (), keys=frozenset({("web-1", "disk"), ("web-2", "cpu")})), "web-1", "cpu", {}, False),
    (Scope(("db-*",), keys=frozenset({("web-1", "disk")})), "db-1", "cpu", {}, True),
    (Scope(("db-*",), keys=frozenset({("web-1", "disk")})), "web-1", "cpu", {}, False),
    (Scope(("web-*",)), "web-1", "disk", {}, True),
    (Scope(("db-*", "web-1")), "web-1", "disk", {}, True),
    (Scope(("db-*",)), "web-1", "disk", {}, False),
    (Scope(checks=("disk*",)), "web-1", "disk-root", {}, True),
    (Scope(checks=("disk",)), "web-1", "disk-root", {}, False),
    (Scope(labels=(("role", "web*"),)), "a", "b", {"role": "web-front"}, True),
    (Scope(labels=(("role", "web*"),)), "a", "b", {}, False),
    (Scope(labels=(("role", "web*"), ("site", "x"))), "a", "b", {"role": "web", "site": "y"}, False),
]


@pytest.mark.parametrize(("scope", "agent", "check", "labels", "expected"), SCOPES)
def test_scopes(scope: Scope, agent: str, check: str, labels: dict[str, str], expected: bool) -> None:
    """All three parts have to fit; of a part's patterns one."""
    assert scope.covers(agent, check, labels) is expected


def test_a_window_survives_json() -> None:
    """A window that is written is read again as it was."""
    document = {
        "id": "w-1", "kind": "silence", "agents": ["web-*"], "checks": ["disk"], "labels": {"role": "web"},
        "begin": 10.0, "until": None,
        "recurrence": {"days": ["mon", "fri"], "begin": "22:00", "end": "06:00", "zone": "Europe/Berlin"},
        "author": "eva", "comment": "backup", "created": 5.0,
    }  # fmt: skip
    window = read_window(document, 0.0)
    assert window.to_json() == document
    assert read_window(json.loads(json.dumps(window.to_json())), 99.0) == window


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no end": ({"id": "x", "kind": "silence"}, "`until` is missing"),
    "ends before it begins": ({"id": "x", "kind": "silence", "begin": 5, "until": 5}, "not later"),
    "kind": ({"id": "x", "kind": "holiday", "until": 5}, "downtime or silence"),
    "id": ({"id": "a b", "kind": "silence", "until": 5}, "`id` has 1 to 64"),
    "unknown field": ({"id": "x", "kind": "silence", "until": 5, "hosts": []}, "hosts: no field"),
    "no pattern": ({"id": "x", "kind": "silence", "until": 5, "agents": []}, "`agents` is a list"),
    "patterns": ({"id": "x", "kind": "silence", "until": 5, "checks": [1]}, "`checks`: each is a text"),
    "labels": ({"id": "x", "kind": "silence", "until": 5, "labels": {"a": 1}}, "`labels` is an object"),
    "time": ({"id": "x", "kind": "silence", "until": float("nan")}, "`until` is a time"),
    "true": ({"id": "x", "kind": "silence", "until": True}, "`until` is a time"),
    "comment": ({"id": "x", "kind": "silence", "until": 5, "comment": "x" * 2_001}, "at most 2000"),
}  # fmt: skip
RECURRENCES: dict[str, tuple[Any, str]] = {
    "a zone that isn't": ({"begin": "22:00", "end": "06:00", "zone": "Mars/Base"}, "such as Europe/Berlin"),
    "a zone out of the folder": ({"begin": "22:00", "end": "06:00", "zone": "../etc/passwd"}, "`zone` is"),
    "no zone": ({"begin": "22:00", "end": "06:00"}, "`zone` is None"),
    "whole day": ({"begin": "22:00", "end": "22:00", "zone": "UTC"}, "covers the whole day"),
    "hour 25": ({"begin": "22:00", "end": "25:00", "zone": "UTC"}, "`end` of a recurrence"),
    "later than 24": ({"begin": "22:00", "end": "24:15", "zone": "UTC"}, "`end` of a recurrence"),
    "a begin at 24": ({"begin": "24:00", "end": "06:00", "zone": "UTC"}, "`begin` of a recurrence"),
    "a number": ({"begin": 22, "end": "23:00", "zone": "UTC"}, "`begin` of a recurrence"),
    "days": ({"begin": "22:00", "end": "23:00", "zone": "UTC", "days": ["monday"]}, "`days` is a list of mon"),
    "no days": ({"begin": "22:00", "end": "23:00", "zone": "UTC", "days": []}, "`days` is a list of mon"),
    "text": ("FREQ=DAILY", "`recurrence` is an object"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    """A wrong window is refused with a sentence that says what to write."""
    document, said = REFUSED[case]
    with pytest.raises(WindowRefused, match=said):
        read_window(document, 0.0)


@pytest.mark.parametrize("case", RECURRENCES)
def test_what_is_refused_of_a_recurrence(case: str) -> None:
    """A wrong recurrence is refused with a sentence that says what to write."""
    recurrence, said = RECURRENCES[case]
    with pytest.raises(WindowRefused, match=said):
        read_window({"id": "x", "kind": "silence", "recurrence": recurrence}, 0.0)
