"""Tests `helen windows`, `helen downtime` and `helen silence`: narrow windows look narrow, and wide ones ask."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from helen.cli import downtimes
from helen.cli.base.client import Failed
from helen.cli.main import main
from helen.states.downtimes import read_window

NOW = 1_800_000_000.0
NIGHT = {"begin": "22:00", "end": "06:00", "days": ["mon", "tue"], "zone": "Europe/Berlin"}


def window(**fields: Any) -> dict[str, Any]:
    until = {} if "recurrence" in fields else {"until": NOW + 60}
    return read_window({"id": "x", "kind": "silence", "begin": NOW - 60, **until, **fields}, NOW).to_json()


def matcher(name: str, value: str, is_regex: bool = False, is_equal: bool = True) -> dict[str, Any]:
    return {"name": name, "value": value, "isRegex": is_regex, "isEqual": is_equal}


SCOPES = [
    ({}, ["*", "*"]),
    ({"agents": ["web-*", "db-1"], "checks": ["cpu"]}, ["web-*,db-1", "cpu"]),
    ({"labels": {"site": "north", "role": "web*"}}, ["role=web* site=north", "*"]),
    ({"matchers": [matcher("agent", "web-.*", True), matcher("check", "cpu")]}, ['agent=~"web-.*"', 'check="cpu"']),
    ({"agents": ["a*"], "matchers": [matcher("role", "db", is_equal=False)]}, ['a* role!="db"', "*"]),
    ({"checks": ["c*"], "matchers": [matcher("check", "c.", True, False)]}, ["*", 'c* check!~"c."']),
    ({"matchers": [matcher("alertname", 'a"b')]}, ['alertname="a\\"b"', "*"]),
]


@pytest.mark.parametrize(("fields", "cells"), SCOPES)
def test_a_scope_is_shown_as_narrow_as_it_is(fields: dict[str, Any], cells: list[str]) -> None:
    """A window's scope is shown with its names, labels, matchers and exact checks (J5)."""
    assert downtimes.scope_cells(window(**fields)) == cells


HOURS = [
    ({}, "all the time"),
    ({"recurrence": NIGHT}, "22:00-06:00 mon,tue Europe/Berlin"),
    ({"recurrence": {"begin": "01:30", "end": "02:30", "zone": "UTC"}}, "01:30-02:30 daily UTC"),
    ({"recurrence": {"begin": "00:00", "end": "24:00", "zone": "UTC", "days": ["sat"]}}, "00:00-24:00 sat UTC"),
]


@pytest.mark.parametrize(("fields", "shown"), HOURS)
def test_hours_days_and_zone(fields: dict[str, Any], shown: str) -> None:
    """A window's hours show days and zone, and its first begin if that is still to come (J5)."""
    assert downtimes.hours(window(**fields), NOW) == shown
    later = window(**fields, **({} if "recurrence" in fields else {"until": NOW + 90}), begin=NOW + 60)
    assert downtimes.hours(later, NOW) == f"{shown}, from {downtimes.moment(NOW + 60)}"


def test_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table shows the scope and hours of a narrow silence (J5)."""
    listed = [window(**SCOPES[3][0], recurrence=NIGHT, begin=0.0) | {"active": True}]
    monkeypatch.setattr("helen.cli.base.client.Client.get", lambda client, path: {"windows": listed})
    shown = CliRunner().invoke(main, ["windows", "--state", "/nowhere"]).output
    assert ' on   agent=~"web-.*"  check="cpu"  22:00-06:00 mon,tue Europe/Berlin  for ever' in shown, shown


WIDE = [
    # checks and agents that it covers, of how many; whether it asks
    ((11, 2), (100, 20), True),
    ((10, 2), (100, 20), False),
    ((3, 3), (9, 3), True),
    ((5, 1), (10, 2), False),
    ((2, 1), (2, 1), False),
    ((0, 0), (50, 5), False),
    ((20_000, 900), (100_000, 9_000), True),
]


@pytest.mark.parametrize(("covers", "fleet", "asks"), WIDE)
@pytest.mark.parametrize("yes", [False, True])
def test_a_wide_window_asks(
    covers: tuple[int, int], fleet: tuple[int, int], asks: bool, yes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window over more than a tenth of all checks and several agents asks, and fails without a terminal or a yes
    (J5)."""
    posted: list[bool] = []

    def post(path: str, body: dict[str, Any]) -> dict[str, Any]:
        posted.append(body["dry_run"])
        counts = {name: {"checks": each[0], "agents": each[1]} for name, each in (("covers", covers), ("fleet", fleet))}
        return {"window": window(), "spans": [], "not_ok": [], "active": True, **counts}

    client: Any = SimpleNamespace(post=post)
    options: dict[str, Any] = {
        "agents": (), "checks": (), "labels": (), "lasting": 60.0, "later": 0.0, "daily": None, "days": None,
        "zone": "UTC", "name": None, "comment": "",
    }  # fmt: skip

    def open_it(is_terminal: bool) -> None:
        monkeypatch.setattr(downtimes.sys, "stdin", SimpleNamespace(isatty=lambda: is_terminal))
        downtimes.open_window(client, "silence", False, None, False, yes, **options)

    if not asks or yes:
        open_it(False)
        assert posted[-1] is False
        return
    with pytest.raises(Failed, match=rf"it would cover {covers[0]} of {fleet[0]} checks.*--yes"):
        open_it(False)
    monkeypatch.setattr(downtimes.click, "confirm", lambda text, err: False)
    with pytest.raises(Failed, match="nothing was changed"):
        open_it(True)
    assert False not in posted
    monkeypatch.setattr(downtimes.click, "confirm", lambda text, err: True)
    open_it(True)
    assert posted[-1] is False
