"""Tests takeovers at their edges: the third claim within a minute, remembered identities, and times of alarms."""

from __future__ import annotations

import pytest

from scale0.broker import takeovers
from scale0.broker.takeovers import Takeovers

PLACES = ("10.0.0.1", "")


class Now:
    """Stands in for a context that knows the time, and keeps its alarms."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.alarms: list[str] = []
        self.alarm = self.alarms.append

    def known(self) -> Takeovers:
        return Takeovers(self)  # type: ignore[arg-type]


@pytest.mark.parametrize(("gaps", "contested"), [
    ((0.0, 30.0, 29.5), [False, False, True]), ((0.0, 30.0, 30.0), [False, False, False]), ((0.0, 1.0), [False, False]),
    ((0.0, 1.0, 1.0, 1.0), [False, False, True, True]), ((0.0, 59.0, 59.0, 0.5), [False, False, False, True]),
    ((0.0, 30.0, 30.5, 29.0), [False, False, False, True]),
])  # fmt: skip
def test_the_third_claim_within_a_minute(gaps: tuple[float, ...], contested: list[bool]) -> None:
    """A claim counts although it was refused; one that is a minute old does not."""
    now = Now()
    known, found = now.known(), []
    for gap in gaps:
        now.now += gap
        found.append(known.is_contested("web-1"))
    assert found == contested
    assert known.is_contested("web-2") is False, "another identity has claims of its own"


def test_the_identity_that_was_claimed_longest_ago_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new claim makes an old one young; beyond the limit one goes, not more."""
    monkeypatch.setattr(takeovers, "IDENTITIES", 2)
    known = Now().known()
    for identity in ("a", "b", "a", "c"):
        known.is_contested(identity)
    assert list(known._claims) == ["a", "c"]
    assert known.is_contested("a") is True
    assert known.is_contested("b") is False
    assert list(known._claims) == ["a", "b"]
    assert known.is_contested("c") is False


@pytest.mark.parametrize(("later", "alarms"), [(0.0, 1), (3_599.5, 1), (3_600.0, 2), (9_999.0, 2)])
def test_an_alarm_comes_once_an_hour(later: float, alarms: int) -> None:
    """An identity has an alarm once in its own hour; an address that is none is that of a local peer."""
    now = Now()
    known = now.known()
    known.alarm("web-1", "k", PLACES)
    now.now += later
    known.alarm("web-1", "k", PLACES)
    assert len(now.alarms) == alarms
    known.alarm("web-2", "k", PLACES)
    assert len(now.alarms) == alarms + 1
    assert now.alarms[0] == (
        "two living peers use the identity web-1 and its key k: 10.0.0.1 keeps it, ipc is refused; is one a clone of"
        " the other? Give it an identity and a key of its own"
    )


def test_alarms_are_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest alarm goes first, and is told again then."""
    monkeypatch.setattr(takeovers, "IDENTITIES", 2)
    now = Now()
    known = now.known()
    for identity in ("a", "b", "a", "b"):
        known.alarm(identity, "k", PLACES)
    assert (len(now.alarms), list(known._alarmed)) == (2, ["a", "b"])
    known.alarm("c", "k", PLACES)
    assert list(known._alarmed) == ["b", "c"]
    known.alarm("b", "k", PLACES)
    known.alarm("a", "k", PLACES)
    assert [text.split()[6] for text in now.alarms] == ["a", "b", "c", "a"]


def test_the_figures() -> None:
    """A contest is three claims within a minute; ten thousand identities are remembered, and an alarm is repeated after
    an hour.
    """
    assert (takeovers.MOST, takeovers.WINDOW, takeovers.IDENTITIES, takeovers.ALARM_AGAIN) == (3, 60.0, 10_000, 3_600.0)
