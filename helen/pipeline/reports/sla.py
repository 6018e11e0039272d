"""Makes the SLA report: how far each check is from its target over a period, and how fast its error budget burns.

A budget is the time that may be bad in the period: (1 - target) of the time that counts. A burn rate of 1 uses it up in
just the period, 10 in a tenth of it. A page is worth its noise if the rates over a long and a short window are both
high: the fault is long enough to matter, and still going on (windows and factors are those of Google's SRE Workbook,
table 5-8). availability_math.py decides which time is bad, and which counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from attrs import frozen
from pyspark.sql import SparkSession

from helen.pipeline.engine import run_parts
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.local_days import MICROS, Day
from helen.pipeline.lake.schema import ddl
from helen.pipeline.reports.availability import LITTLE_ROWS, plan_for
from helen.pipeline.reports.availability_inputs import Plan
from helen.pipeline.reports.availability_math import (
    BAD,
    NEVER,
    Accounts,
    accounts_of,
    first_known,
    percent_of,
    percents,
)
from helen.pipeline.reports.report_formats import AVAILABILITY, Report, Row, bars
from helen.pipeline.reports.transitions import CONFIRMED

MINUTE = 60 * MICROS
WINDOWS = {"5m": 5, "30m": 30, "1h": 60, "6h": 360, "3d": 4320}  # minutes
# The alert, by a long and a short window that both burn faster than this: 2 % of a month's budget in an hour,
# 5 % in six, 10 % in three days.
ALERTS = (("page", "1h", "5m", 14.4), ("page", "6h", "30m", 6.0), ("ticket", "3d", "6h", 1.0))
_ROW = pa.schema(
    [("series", pa.int32()), ("good", pa.int64()), ("counted", pa.int64()), ("bad", pa.int64()),
     ("outages", pa.int64()), ("worst_day", pa.date32()), ("worst_percent", pa.float64()),
     ("since", pa.int64()), *((name, pa.float64()) for name in WINDOWS)]
)  # fmt: skip

Array = Any  # of numpy


@frozen
class Task:
    """Turns numbers of a plan's parts into one row of figures for each check, in Spark's workers."""

    plan: Plan
    days: Sequence[Day]
    windows: Mapping[str, Day]
    profile: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        every = [*self.days, *self.windows.values()]
        for batch in batches:
            for part in batch.column(0).to_pylist():
                for series, checks in self.plan.inputs(part, len(every)):
                    yield self._figures(series, accounts_of(checks, every, self.profile))

    def _figures(self, series: Array, made: Accounts) -> pa.RecordBatch:
        """Return the figures of each check: its time counts from its first result on, until it was retired."""
        shape, days = (len(series), len(made.days)), len(self.days)
        since = first_known(made.checks)
        good, counted = made.counted()
        if self.profile == "strict":
            counted = counted - made.without_result(since)
        good, counted = good.reshape(shape), counted.reshape(shape)
        bad, outages = (each.reshape(shape)[:, :days].sum(axis=1) for each in (made.totals[BAD], made.outages))
        columns = {
            "series": pa.array(series), "good": good[:, :days].sum(axis=1), "counted": counted[:, :days].sum(axis=1),
            "bad": bad, "outages": outages, **self._worst(good[:, :days], counted[:, :days]),
            "since": pa.array(since, mask=(since <= self.days[0].begin) | (since == NEVER)),
        }  # fmt: skip
        for at, name in enumerate(self.windows, days):
            with np.errstate(divide="ignore", invalid="ignore"):
                share = (counted[:, at] - good[:, at]) / counted[:, at]
            columns[name] = pa.array(share, mask=counted[:, at] == 0)
        return pa.RecordBatch.from_pydict(columns, schema=_ROW)

    def _worst(self, good: Array, counted: Array) -> dict[str, pa.Array]:
        """Return the day with the lowest per cent, the first of several, and its per cent."""
        shares = np.nan_to_num(percents(good.ravel(), counted.ravel()), nan=np.inf).reshape(good.shape)
        worst = shares.argmin(axis=1)
        percent = shares[np.arange(len(worst)), worst]
        dates = pa.array([day.date for day in self.days]).take(pa.array(worst, mask=percent == np.inf))
        return {"worst_day": dates, "worst_percent": pa.array(percent, mask=percent == np.inf)}


def sla(
    spark: SparkSession, lake: Lake, days: Sequence[Day], series: Mapping[int, tuple[str, str]], profile: str,
    target: float, counted: str = CONFIRMED,
) -> Report:  # fmt: skip
    """Return one row for each check, first those that miss their target by most."""
    end = days[-1].end
    windows = {name: Day(days[-1].date, end - minutes * MINUTE, end) for name, minutes in WINDOWS.items()}
    whole = Day(days[-1].date, min(days[0].begin, *(each.begin for each in windows.values())), end)
    if not series:
        found = []
    else:
        plan = plan_for(spark, lake, [whole], series, counted)
        task = Task(plan, days, windows, profile)
        work = plan.work(len(days) + len(windows))
        found = run_parts(spark, task, len(plan.parts), work, LITTLE_ROWS, ddl(_ROW))
    rows = [{"check": "/".join(series[row["series"]]), **judged(row, target)} for row in found]
    rows.sort(key=lambda row: (row["left_s"] is None, row["left_s"], row["check"]))
    missed = sum(row["met"] is False for row in rows)
    notes = [f"{missed} of {len(rows)} miss {target:g} %."]
    late = sum(row["since"] is not None for row in rows)
    if late:
        notes.append(f"{late} had their first result within the period: their time counts since then.")
    burns = [f"burn_{name}" for name in WINDOWS]
    columns = ["check", "percent", "met", "budget_s", "spent_s", "left_s", *burns, "alert", "outages", "mttr_s",
               "mtbf_s", "worst_day", "worst_percent", "since"]  # fmt: skip
    title = f"SLA of {target:g} % ({profile}), {days[0].date} to {days[-1].date}"
    return Report(title, columns, rows, notes, _bar, dict.fromkeys(("percent", "worst_percent"), AVAILABILITY))


def judged(row: Mapping[str, Any], target: float) -> dict[str, Any]:
    """Return a row of figures compared with its target, in per cent: {"percent", "met", "budget_s", ...}."""
    share = 1 - target / 100
    percent = percent_of(row["good"], row["counted"])
    budget, spent = row["counted"] * share / MICROS, (row["counted"] - row["good"]) / MICROS
    burns = {name: _rate(row[name], share) for name in WINDOWS}
    outages = row["outages"]
    return {
        "percent": percent, "met": None if percent is None else percent >= target,
        "budget_s": round(budget, 1), "spent_s": round(spent, 1),
        "left_s": None if percent is None else round(budget - spent, 1),
        **{f"burn_{name}": rate for name, rate in burns.items()}, "alert": _alert(burns),
        "outages": outages, "mttr_s": round(row["bad"] / MICROS / outages, 1) if outages else None,
        "mtbf_s": round(row["good"] / MICROS / outages, 1) if outages else None,
        "worst_day": row["worst_day"], "worst_percent": row["worst_percent"], "since": _moment(row.get("since")),
    }  # fmt: skip


def _moment(at: int | None) -> str | None:
    """Return microseconds as a time in UTC."""
    return None if at is None else f"{datetime.fromtimestamp(at // MICROS, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _rate(bad: float | None, share: float) -> float | None:
    """Return the burn rate; None for a target of 100 %, which has no budget to burn."""
    return None if bad is None or share <= 0 else round(bad / share, 2)


def _alert(burns: Mapping[str, float | None]) -> str | None:
    for word, long, short, factor in ALERTS:
        rates = burns[long], burns[short]
        if all(rate is not None and rate > factor for rate in rates):
            return word
    return None


def _bar(row: Row) -> str:
    spent = min(row["spent_s"], row["budget_s"])
    left, over = row["budget_s"] - spent, row["spent_s"] - spent
    return bars([("left", left, "#2f855a"), ("spent", spent, "#d69e2e"), ("over", over, "#c53030")])
