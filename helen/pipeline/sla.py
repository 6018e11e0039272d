"""The SLA report: how far each check is from its target over a period, and how fast its error budget burns.

A budget is what may be bad in the period: (1 - target) of the time that counts. A burn rate of 1 uses it up in just the
period, 10 in a tenth of it. Rates over a long and a short window that both are high are what is worth waking somebody
for (the windows and factors are those of Google's SRE Workbook, table 5-8): long enough to matter, and still going on.
What is bad, and what counts, is spent.py's matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from attrs import frozen
from pyspark.sql import SparkSession

from helen.pipeline.availability import parts, planned
from helen.pipeline.days import MICROS, Day
from helen.pipeline.facts import Plan
from helen.pipeline.lake import Lake
from helen.pipeline.schema import ddl
from helen.pipeline.shown import Report, Row, bars
from helen.pipeline.spent import Spent, check_sums, percent_of, spend

MINUTE = 60 * MICROS
WINDOWS = {"5m": 5, "30m": 30, "1h": 60, "6h": 360, "3d": 4320}  # minutes
# What is to be done, by a long and a short window that both burn faster than this: 2 % of a month's budget in an hour,
# 5 % in six, 10 % in three days.
ALERTS = (("page", "1h", "5m", 14.4), ("page", "6h", "30m", 6.0), ("ticket", "3d", "6h", 1.0))
_ROW = pa.schema(
    [("series", pa.int32()), ("good", pa.int64()), ("counted", pa.int64()), ("bad", pa.int64()),
     ("outages", pa.int64()), ("worst_day", pa.date32()), ("worst_percent", pa.float64()),
     *((name, pa.float64()) for name in WINDOWS)]
)  # fmt: skip


@frozen
class Task:
    """Runs in Spark's workers: numbers of a plan's parts -> one row of figures for each check."""

    plan: Plan
    days: Sequence[Day]
    windows: Mapping[str, Day]
    profile: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pylist(list(self._part(part)), schema=_ROW)

    def _part(self, part: int) -> Iterator[dict[str, Any]]:
        for series, facts in self.plan.facts(part):
            spent = spend(facts, [*self.days, *self.windows.values()], self.profile)
            check_sums(spent)
            yield {"series": series, **self._figures(spent)}

    def _figures(self, spent: Sequence[Spent]) -> dict[str, Any]:
        days, windows = spent[: len(self.days)], spent[len(self.days) :]
        known = [each for each in days if each.percent is not None]
        worst = min(known, key=lambda each: (each.percent, each.day.date), default=None)
        shares = {name: _bad_share(each, self.profile) for name, each in zip(self.windows, windows, strict=True)}
        accounts = [each.counted(self.profile) for each in days]
        return {
            "good": sum(good for good, _ in accounts), "counted": sum(counted for _, counted in accounts),
            "bad": sum(each.bad for each in days), "outages": sum(each.outages for each in days),
            "worst_day": None if worst is None else worst.day.date,
            "worst_percent": None if worst is None else worst.percent, **shares,
        }  # fmt: skip


def _bad_share(spent: Spent, profile: str) -> float | None:
    good, counted = spent.counted(profile)
    return (counted - good) / counted if counted else None


def sla(
    spark: SparkSession, lake: Lake, days: Sequence[Day], series: Mapping[int, tuple[str, str]], profile: str,
    target: float,
) -> Report:  # fmt: skip
    """One row for each check, those that miss their target by most first."""
    end = days[-1].end
    windows = {name: Day(days[-1].date, end - minutes * MINUTE, end) for name, minutes in WINDOWS.items()}
    whole = Day(days[-1].date, min(days[0].begin, *(each.begin for each in windows.values())), end)
    if not series:
        found = []
    else:
        plan = planned(spark, lake, [whole], series)
        found = parts(spark, plan).mapInArrow(Task(plan, days, windows, profile), ddl(_ROW)).toArrow().to_pylist()
    rows = [{"check": "/".join(series[row["series"]]), **judged(row, target)} for row in found]
    rows.sort(key=lambda row: (row["left_s"] is None, row["left_s"], row["check"]))
    missed = sum(row["met"] is False for row in rows)
    notes = [f"{missed} of {len(rows)} miss {target:g} %."]
    burns = [f"burn_{name}" for name in WINDOWS]
    columns = ["check", "percent", "met", "budget_s", "spent_s", "left_s", *burns, "alert", "outages", "mttr_s",
               "mtbf_s", "worst_day", "worst_percent"]  # fmt: skip
    title = f"SLA of {target:g} % ({profile}), {days[0].date} to {days[-1].date}"
    return Report(title, columns, rows, notes, _bar)


def judged(row: Mapping[str, Any], target: float) -> dict[str, Any]:
    """A row of figures beside its target, in per cent."""
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
        "worst_day": row["worst_day"], "worst_percent": row["worst_percent"],
    }  # fmt: skip


def _rate(bad: float | None, share: float) -> float | None:
    """A target of 100 % has no budget to burn."""
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
