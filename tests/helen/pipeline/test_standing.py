"""Tests that the state at the end of a week replaces all changes before it. Reports are the same and read a bounded
number."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from attrs import astuple

from helen.pipeline import standing
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import held
from helen.pipeline.lake.local_days import local_days
from helen.pipeline.lake.schema import CHANGES
from helen.pipeline.reports import availability_inputs
from helen.pipeline.reports.availability import choose
from helen.pipeline.reports.availability_inputs import plan
from helen.pipeline.reports.transitions import COUNTED
from helen.pipeline.standing import bring_up, changes_for, end_of
from helen.pipeline.upkeep import compact

FIRST = date(2026, 9, 1)  # a Tuesday
BEGIN = datetime(2026, 9, 1, tzinfo=UTC).timestamp()
DAY, HOUR, DAYS = 86_400.0, 3600.0, 40
WORDS = ("ok", "warning", "critical", "unknown")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def changes_of(helen: Any, rng: random.Random, agents: range, day: int) -> Iterator[Any]:
    """Yield a day of changes: confirmed and soft transitions, downtimes of all kinds, rules, starts and stops of
    Helen."""
    at = BEGIN + day * DAY
    for agent in agents:
        for check in range(2):
            if (agent + check) % 4 == 3 and day > 3:
                continue  # has changed in the first days alone
            for _ in range(rng.randrange(3)):
                at += rng.random() * 400
                was, now = ({"status": rng.choice(WORDS), "attempt": rng.choice((0, 0, 1))} for _ in range(2))
                now |= {"attempt": 1} if agent == 5 else {}  # never confirmed
                yield helen.change("transition", at, f"web{agent}/c{check}", at=at - rng.random(), was=was, now=now)
        if rng.random() < 0.1:
            yield helen.change("rule", at, None, agent=f"web{agent}", labels={"role": rng.choice(("web", "db"))})
    if rng.random() < 0.5:
        made = f"d{rng.randrange(6)}"
        recurrence = rng.choice((None, None, {"kind": "daily", "at": "22:00", "minutes": 60, "zone": "Europe/Berlin"}))
        until = None if recurrence else at + rng.choice((HOUR, 12 * DAY))
        document = {"id": made, "agents": [f"web{rng.choice(agents)}"], "begin": at, "until": until, "author": "ops"}
        document |= {"recurrence": recurrence} if recurrence else {}
        yield helen.change("downtime", at + 1, None, **document)
    elif rng.random() < 0.3:
        yield helen.change("downtime", at + 1, None, id=f"d{rng.randrange(6)}", action="cancel")
    kind = rng.choice(("", "", "", "helen_stop", "helen_start"))
    if kind or day == 0:
        yield helen.change(kind or "helen_start", at + 2, None)


def written(histories: Any, seed: int, days: range) -> None:
    rng = random.Random(seed)
    for day in days:
        for number, helen in enumerate(histories):
            agents = range(number * 4, number * 4 + 4)
            records = list(changes_of(helen, rng, agents, day))
            records += [helen.result(f"web{agent}/c0", BEGIN + day * DAY + 1000 + agent) for agent in agents]
            helen.segment(*records)


def today(days: int) -> date:
    return FIRST + timedelta(days=days)


def same_reports(lake: Lake, monkeypatch: pytest.MonkeyPatch, days: Any) -> None:
    """Check that the inputs of each check on each of these days are equal with weeks and without."""
    series = choose(lake)
    assert len(series) >= 8
    for counted in COUNTED:
        for number in days:
            chosen = local_days(today(number), today(number), "America/New_York" if number % 2 else "UTC")
            with_weeks = inputs(lake, chosen, series, counted)
            with monkeypatch.context() as patched:
                patched.setattr(availability_inputs, "changes_for", whole)
                assert inputs(lake, chosen, series, counted) == with_weeks


def whole(lake: Lake, begin: int, until: date) -> Any:
    return held(lake, CHANGES.name, lake.files(CHANGES.name, (date.min, until)))


def inputs(lake: Lake, days: Any, series: Any, counted: str) -> dict[str, Any]:
    made = plan(lake, days, series, 1, counted)
    ((numbers, checks),) = made.inputs(0, len(days))
    assert len(made.parts) == 1
    columns = {name: getattr(checks, name) for name in ("moments", "runs", "downtimes", "absences")}
    found = {name: [column.tolist() for column in astuple(each)] for name, each in columns.items()}
    return {"series": numbers.tolist(), "reasons": checks.reasons, **found}


@pytest.mark.parametrize(("seed", "rows_per_part"), [(0, 500_000), (1, 60), (2, 60)])
def test_reports_are_the_same(
    lake: Lake, histories: Any, take_in: Any, monkeypatch: pytest.MonkeyPatch, seed: int, rows_per_part: int
) -> None:
    """Reports with weekly states are the same, whatever happened before: soft states, downtimes, killed Helens."""
    monkeypatch.setattr(standing, "ROWS_PER_PART", rows_per_part)
    written(histories, seed, range(DAYS))
    take_in(lake, *(each.state for each in histories))
    lake.lock()
    assert bring_up(None, lake, today(DAYS)) == 5  # type: ignore[arg-type]
    assert bring_up(None, lake, today(DAYS)) == 0  # type: ignore[arg-type]
    lake.unlock()
    weeks = [date(2026, 9, 6) + number * standing.WEEK for number in range(5)]
    assert sorted({row["day"] for row in lake.rows("standing")}) == weeks
    same_reports(lake, monkeypatch, (2, 6, 13, 20, 33, 39))


def test_what_is_read_does_not_grow(lake: Lake, histories: Any, take_in: Any) -> None:
    """A report on a day reads about as many rows of changes, however long the history is."""
    rows = []
    for weeks in (2, 4, 6):
        written(histories, weeks, range((weeks - 2) * 7, weeks * 7))
        take_in(lake, *(each.state for each in histories))
        lake.lock()
        compact(None, lake, datetime.combine(today(weeks * 7 + 2), datetime.min.time(), UTC))  # type: ignore[arg-type]
        lake.unlock()
        day = today(weeks * 7 - 1)
        files = changes_for(lake, end_of(day), day)
        rows.append((sum(file.rows for file in files), sum(file.rows for file in lake.files("changes"))))
    assert rows[2][1] > 2.5 * rows[0][1]
    assert max(read for read, _ in rows) < 2 * min(read for read, _ in rows)
    assert rows[2][0] < rows[2][1] / 4


def test_changes_that_come_late_make_a_week_anew(
    lake: Lake, histories: Any, take_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes that come weeks late make their weeks anew, and reports are right before and after."""
    one, other = histories
    written([one], 1, range(17))
    take_in(lake, one.state, other.state)
    lake.lock()
    assert bring_up(None, lake, today(30)) == 4  # type: ignore[arg-type]
    lake.unlock()
    late = [*changes_of(other, random.Random(8), range(4, 8), 9), *changes_of(other, random.Random(9), range(4, 8), 15)]
    other.segment(*late, other.result("web4/c0", BEGIN + 9 * DAY))
    take_in(lake, one.state, other.state)
    same_reports(lake, monkeypatch, (8, 13, 20))
    used = changes_for(lake, end_of(today(14)), today(20))
    assert {"standing" in file.path for file in used if "2026-09-06" in file.path} == {True}  # the week before them
    lake.lock()
    fresh = [file for file in lake.files("changes") if file.fresh]
    newest = max(file.version for file in fresh)
    came_late = {file.path for file in fresh if file.day in (today(9), today(15)) and file.version == newest}
    assert len(came_late) == 2
    assert {file.path for file in standing.unseen(lake, fresh)} == came_late
    assert bring_up(None, lake, today(30)) == 3  # type: ignore[arg-type]
    assert bring_up(None, lake, today(30)) == 0  # type: ignore[arg-type]
    compact(None, lake, all_days=True)  # type: ignore[arg-type]
    lake.unlock()
    same_reports(lake, monkeypatch, (8, 13, 20))


def test_a_week_that_cannot_be_read_is_made_from_all_changes(lake: Lake, history: Any, take_in: Any) -> None:
    """A weekly state that cannot be read is not needed: the next one is made from all changes."""
    written([history], 1, range(16))
    take_in(lake, history.state)
    lake.lock()
    assert bring_up(None, lake, date(2026, 9, 9)) == 1  # type: ignore[arg-type]
    (file,) = lake.files("standing")
    path = lake.path("standing") / file.path
    path.write_bytes(path.read_bytes()[:50])
    assert bring_up(None, lake, date(2026, 9, 16)) == 1  # type: ignore[arg-type]
    lake.unlock()
    made = held(lake, "standing", [file for file in lake.files("standing") if file.day == date(2026, 9, 13)])
    assert sum(file.rows for file in made) > 8
