"""Tests downtimes and silences at their limits: the last value that is taken, the first that isn't; defaults; edges."""

from __future__ import annotations

from datetime import datetime, time
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from helen.states.downtimes import Recurrence, Scope, Window, WindowRefused, next_edge, on_at, read_window, spans

UTC = ZoneInfo("UTC")
GOOD: dict[str, Any] = {"id": "w", "kind": "silence", "begin": 10, "until": 20}
NIGHTLY = {"begin": "22:00", "end": "06:00", "zone": "UTC"}


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


# field, the last value that is taken, the first that is refused, words of the sentence
LIMITS = [
    ("id", "x" * 64, "x" * 65, "`id` has 1 to 64"),
    ("id", "x", "", "`id` has 1 to 64"),
    ("author", "a" * 200, "a" * 201, "`author` is a text of at most 200"),
    ("author", "", 7, "`author` is a text of at most 200"),
    ("comment", "a" * 2_000, "a" * 2_001, "`comment` is a text of at most 2000"),
    ("agents", ["a"] * 1_000, ["a"] * 1_001, "`agents` is a list of 1 to 1000"),
    ("checks", ["a"], [], "`checks` is a list of 1 to 1000"),
    ("agents", ["a" * 255], ["a" * 256], "`agents`: each is a text of 1 to 255"),
    ("checks", ["b", "a"], ["b", ""], "`checks`: each is a text of 1 to 255"),
    ("begin", 0, -1, "`begin` is a time"),
    ("begin", 0.5, float("inf"), "`begin` is a time"),
    ("until", 253_370_764_799, 253_370_764_800, "`until` is a time"),
    ("until", 11, 10, "`until` is not later than `begin`"),
    ("created", 0.5, "yesterday", "`created` is a time"),
    ("labels", {"a": "b"}, ["a"], "`labels` is an object"),
    ("labels", {}, {"a": None}, "`labels` is an object"),
    ("matchers", [{"name": "a", "value": "b"}] * 50, [{"name": "a", "value": "b"}] * 51, "`matchers` is a list"),
    ("recurrence", NIGHTLY, {**NIGHTLY, "until": 5}, "`recurrence` is an object"),
]


@pytest.mark.parametrize(("key", "taken", "refused", "said"), LIMITS)
def test_limits(key: str, taken: Any, refused: Any, said: str) -> None:
    """A field that is taken is in the window as it was written; one beyond its limit is refused."""
    document = read_window({**GOOD, key: taken}, 15.0).to_json()
    if key not in ("matchers", "recurrence"):
        assert document[key] == taken
    with pytest.raises(WindowRefused, match=said):
        read_window({**GOOD, key: refused}, 15.0)


def test_what_is_left_out() -> None:
    """A window without these fields begins and was made now, covers everything, and says nothing."""
    window = read_window({"id": "w", "kind": "downtime", "until": 99}, 15.0)
    assert window == Window("w", "downtime", Scope(("*",), ("*",), (), ()), 15.0, 99.0, None, "", "", 15.0)
    assert read_window({**GOOD, "created": 3}, 15.0).created == 3.0
    assert read_window({**GOOD, "agents": "web-1", "labels": None}, 15.0).scope == Scope(agents=("web-1",))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({}, "silence w"),
        ({"author": "eva"}, "silence w by eva"),
        ({"comment": "move"}, "silence w: move"),
        ({"author": "eva", "comment": "move"}, "silence w by eva: move"),
    ],
)
def test_its_sentence(words: dict[str, str], said: str) -> None:
    """A window has the sentence with which it stands as a reason."""
    assert read_window({**GOOD, **words}, 0.0).sentence == said


def test_once() -> None:
    """A single window is one span, to the second, whether it is asked before, within or after."""
    window = read_window(GOOD, 0.0)
    assert [list(spans(window, after)) for after in (0.0, 10.0, 19.9, 20.0, 21.0)] == [
        [(10.0, 20.0)], [(10.0, 20.0)], [(10.0, 20.0)], [], [],
    ]  # fmt: skip
    assert [on_at(window, moment) for moment in (9.9, 10.0, 19.9, 20.0)] == [None, 20.0, 20.0, None]
    assert [next_edge(window, moment) for moment in (9.9, 10.0, 19.9, 20.0)] == [10.0, 20.0, 20.0, None]


def test_a_recurrence_without_an_end() -> None:
    """The window is on from evening to morning for ever, and not before `begin`."""
    window = read_window({"id": "w", "kind": "downtime", "begin": at("2026-05-05T12:00"), "recurrence": NIGHTLY}, 0.0)
    nights = [
        (at("2026-05-05T22:00"), at("2026-05-06T06:00")),
        (at("2026-05-06T22:00"), at("2026-05-07T06:00")),
    ]
    assert list(islice(spans(window, 0.0), 2)) == nights
    assert list(islice(spans(window, at("2026-05-06T05:59")), 2)) == nights
    assert list(islice(spans(window, at("2026-05-06T06:00")), 1)) == nights[1:]
    assert next_edge(window, at("2026-05-06T06:00")) == nights[1][0]
    assert next_edge(window, at("2026-05-06T22:00")) == nights[1][1]
    assert window.until is None


def test_an_end_at_the_begin_of_a_night() -> None:
    """A night that would begin when the window ends is none."""
    bounds = {"begin": at("2026-05-05T12:00"), "until": at("2026-05-06T22:00")}
    window = read_window({"id": "w", "kind": "downtime", "recurrence": NIGHTLY, **bounds}, 0.0)
    assert list(spans(window, 0.0)) == [(at("2026-05-05T22:00"), at("2026-05-06T06:00"))]


@pytest.mark.parametrize(
    ("word", "begin", "end"),
    [("00:00", time(0, 0), time(1, 30)), ("19:59", time(19, 59), time(1, 30)), ("23:07", time(23, 7), time(1, 30))],
)
def test_its_clock(word: str, begin: time, end: time) -> None:
    """A recurrence takes hours and minutes, and without days it is on each day."""
    window = read_window({**GOOD, "recurrence": {"begin": word, "end": "01:30", "zone": "UTC"}}, 0.0)
    assert window.recurrence == Recurrence(begin, end, UTC, (0, 1, 2, 3, 4, 5, 6))


@pytest.mark.parametrize("word", ["24:00", "20:60", "7:00", "22.00", "22:00:00", ""])
def test_no_clock(word: str) -> None:
    """Each is refused as a begin, with a sentence that shows how a time is written."""
    with pytest.raises(WindowRefused, match="`begin` of a recurrence is a local time such as 22:00"):
        read_window({**GOOD, "recurrence": {**NIGHTLY, "begin": word}}, 0.0)


@pytest.mark.parametrize(
    ("labels", "covered"),
    [
        ({"role": "web", "site": "x"}, True),
        ({"role": "web", "site": "y"}, False),
        ({"role": "db", "site": "x"}, False),
        ({"site": "x"}, False),
    ],
)
def test_all_labels_have_to_fit(labels: dict[str, str], covered: bool) -> None:
    """All labels have to fit beside the names; with another agent or check nothing is covered whatever
    the labels are.
    """
    scope = Scope(("web-*",), ("disk",), (("role", "web"), ("site", "x")))
    assert scope.covers("web-1", "disk", labels) is covered
    assert scope.covers("db-1", "disk", labels) is False
    assert scope.covers("web-1", "load", labels) is False


def test_matchers_narrow_a_scope() -> None:
    """Matchers see the check's names and labels as Alertmanager does; one about the severity is refused."""
    window = read_window({**GOOD, "agents": ["web-*"], "matchers": [{"name": "check", "value": "disk"}]}, 0.0)
    assert window.scope.covers("web-1", "disk", {}) is True
    assert window.scope.covers("web-1", "load", {}) is False
    assert window.scope.covers("db-1", "disk", {}) is False
    assert [each["name"] for each in window.to_json()["matchers"]] == ["check"]
    with pytest.raises(WindowRefused, match="leave the matcher for `severity` out"):
        read_window({**GOOD, "matchers": [{"name": "severity", "value": "page"}]}, 0.0)


def test_where_clocks_have_no_such_night() -> None:
    """Lord Howe goes on by half an hour: a time that is left out is the moment of the jump, to the second."""
    zone = ZoneInfo("Australia/Lord_Howe")
    recurrence = {"begin": "02:15", "end": "03:00", "zone": "Australia/Lord_Howe"}
    window = read_window({"id": "w", "kind": "downtime", "begin": 0, "recurrence": recurrence}, 0.0)
    jump = datetime(2026, 10, 4, 2, 30, tzinfo=zone).timestamp()
    assert datetime.fromtimestamp(jump - 1, zone).time() == time(1, 59, 59)
    end = datetime(2026, 10, 4, 3, 0, tzinfo=zone).timestamp()
    assert next(spans(window, jump - 3600)) == (jump, end)
