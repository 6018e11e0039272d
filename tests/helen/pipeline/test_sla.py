"""Tests targets, error budgets and burn rates worked out by hand, and the days of a report."""

from __future__ import annotations

from datetime import UTC, date, datetime
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from plain_accounts import CheckInputs, Moment, Run, columns_of

from helen.pipeline.lake.errors import PipelineError
from helen.pipeline.lake.local_days import MICROS, Day, local_days
from helen.pipeline.reports.command_options import until
from helen.pipeline.reports.sla import MINUTE, WINDOWS, Task, judged

H = 60 * MINUTE
DAYS = local_days(date(2026, 6, 1), date(2026, 6, 2), "UTC")


def figures(**changed: Any) -> dict[str, Any]:
    usual = {
        "good": 99 * H,
        "counted": 100 * H,
        "bad": H,
        "outages": 2,
        "worst_day": DAYS[0].date,
        "worst_percent": 98.0,
    }
    return usual | dict.fromkeys(WINDOWS, 0.0) | changed


def test_a_budget_is_what_may_be_bad() -> None:
    """A budget is the time that may be bad: of 100 hours half an hour at 99.5 %, and two hours at 98 %."""
    missed = judged(figures(), 99.5)
    names = ("percent", "met", "budget_s", "spent_s", "left_s", "mttr_s", "mtbf_s")
    assert [missed[name] for name in names] == [99.0, False, 1800.0, 3600.0, -1800.0, 1800.0, 178_200.0]
    met = judged(figures(outages=0), 98.0)
    assert [met[name] for name in names] == [99.0, True, 7200.0, 3600.0, 3600.0, None, None]
    nothing = judged(figures(good=0, counted=0), 99.0)
    assert [nothing[name] for name in names[:5]] == [None, None, 0.0, 0.0, None]


BURNS = {
    "slow": ({"3d": 0.009}, None),
    "a ticket": ({"3d": 0.011, "6h": 0.02}, "ticket"),
    "a ticket no more": ({"3d": 0.011, "6h": 0.0}, None),
    "a page by six hours": ({"6h": 0.07, "30m": 0.1}, "page"),
    "a page by one hour": ({"1h": 0.15, "5m": 0.2}, "page"),
    "an hour that is over": ({"1h": 0.15, "5m": 0.0}, None),
    "unknown": (dict.fromkeys(WINDOWS), None),
}


@pytest.mark.parametrize(("bad", "alert"), BURNS.values(), ids=BURNS)
def test_what_burns_fast_long_and_still(bad: dict[str, Any], alert: str | None) -> None:
    """An alert needs both windows of a row to burn faster than its factor, and a target below 100 %."""
    row = judged(figures(**bad), 99.0)
    assert row["alert"] == alert
    assert all(row[f"burn_{name}"] == (None if share is None else round(share * 100, 2)) for name, share in bad.items())
    assert judged(figures(**bad), 100.0)["alert"] is None


def planned(inputs: CheckInputs) -> SimpleNamespace:
    """Return a plan of two parts, of which the second has series 4."""
    known = [(np.array([4], np.int32), columns_of([inputs]))]
    return SimpleNamespace(inputs=lambda part, days: iter(known if part == 1 else []))


def test_the_task() -> None:
    """The task makes one row of figures of a check: totals, its worst day and the bad share of each window."""
    end = DAYS[1].end
    windows = {name: Day(DAYS[1].date, end - minutes * MINUTE, end) for name, minutes in WINDOWS.items()}
    known = CheckInputs([Moment(0, 0), Moment(end - 30 * MINUTE, 2)])
    plan = planned(known)
    (batch,) = Task(plan, DAYS, windows, "strict")([pa.RecordBatch.from_pydict({"id": [0, 1]})])  # type: ignore[arg-type]
    (row,) = batch.to_pylist()
    assert row == {
        "series": 4, "good": 48 * H - 30 * MINUTE, "counted": 48 * H, "bad": 30 * MINUTE, "outages": 1,
        "worst_day": date(2026, 6, 2), "worst_percent": 97.9167, "5m": 1.0, "30m": 1.0, "1h": 0.5, "6h": 30 / 360,
        "3d": 30 / 4320, "since": None,
    }  # fmt: skip


NOON = DAYS[1].begin + 12 * H
PENDING_SINCE = Moment(DAYS[0].begin + H, 3, "pending", 3, "pending")
STALE_AT_TEN = Moment(DAYS[1].begin + 10 * H, 3, "stale", 3, "pending")
LIVES = {
    # inputs -> good and counted hours of the two days, and since when
    "new at noon": (CheckInputs([Moment(NOON, 0)]), 12, 12, NOON),
    "new at noon, bad for an hour": (CheckInputs([Moment(NOON, 2), Moment(NOON + H, 0, None, 2, None)]), 11, 12, NOON),
    "known for long": (CheckInputs([Moment(5, 0), Moment(NOON, 2, None, 0, None), Moment(NOON + H, 0)]), 47, 48, None),
    "assigned, stale, then new": (CheckInputs([STALE_AT_TEN, Moment(NOON, 0, None, 3, "stale")]), 12, 12, NOON),
    "never a result": (CheckInputs([PENDING_SINCE, STALE_AT_TEN]), 0, 0, None),
    "nothing at all": (CheckInputs(), 0, 0, None),
    "stale later on": (CheckInputs([Moment(NOON, 0), Moment(NOON + H, 3, "stale", 0, None)]), 1, 12, NOON),
    "stale since long ago, until noon": (
        CheckInputs([Moment(5, 3, "stale", 0, None), Moment(NOON, 0, None, 3, "stale")]), 12, 48, None,
    ),
    "retired long ago, again since noon": (
        CheckInputs([Moment(5, 3, "retired", 0, None), Moment(NOON, 0, None, 3, "pending")]), 12, 12, None,
    ),
    "retired at noon": (CheckInputs([Moment(DAYS[0].begin, 0), Moment(NOON, 3, "retired", 0, None)]), 36, 36, None),
    "new in a downtime": (CheckInputs([Moment(NOON, 0)], (), [(NOON - 2 * H, NOON + H)]), 11, 11, NOON),
    "new while Helen was down": (CheckInputs([Moment(NOON, 0)], (), (), [(NOON - 2 * H, NOON - H)]), 12, 12, NOON),
    "results without transitions": (CheckInputs((), [Run(NOON, NOON + 6 * H, 0, 6 * H)]), 12, 12, NOON),
    "a late result from before": (
        CheckInputs([Moment(NOON, 0)], [Run(NOON - 2 * H, NOON - H, 0, H)]), 14, 14, NOON - 2 * H,
    ),
}  # fmt: skip


@pytest.mark.parametrize("life", LIVES)
def test_time_counts_from_the_first_result(life: str) -> None:
    """Time counts from the first result: a new check does not miss its target for earlier days, a silent one does
    (J8)."""
    inputs, good, counted, since = LIVES[life]
    plan = planned(inputs)
    end = DAYS[1].end
    windows = {name: Day(DAYS[1].date, end - minutes * MINUTE, end) for name, minutes in WINDOWS.items()}
    (batch,) = Task(plan, DAYS, windows, "strict")([pa.RecordBatch.from_pydict({"id": [1]})])  # type: ignore[arg-type]
    (row,) = batch.to_pylist()
    assert (row["good"], row["counted"], row["since"]) == (good * H, counted * H, since)
    assert row["3d"] == (None if counted == 0 else pytest.approx((counted - good) / counted, abs=0.4))
    told = judged(row, 99.9)
    assert told["met"] == (None if counted == 0 else good / counted >= 0.999)
    assert (told["since"] is None) == (since is None)


def test_a_report_ends_now() -> None:
    """A report ends now: today is as long as it has lasted, and days that have not begun are refused."""
    noon = datetime(2026, 6, 2, 12, tzinfo=UTC)
    assert until(DAYS, noon) == [DAYS[0], Day(date(2026, 6, 2), DAYS[1].begin, DAYS[1].begin + 12 * 3600 * MICROS)]
    assert until(DAYS, datetime(2026, 6, 2, tzinfo=UTC)) == DAYS[:1]
    with pytest.raises(PipelineError, match="2026-06-01 has not begun: a report is about the past"):
        until(DAYS, datetime(2026, 5, 31, tzinfo=UTC))
