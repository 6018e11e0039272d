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

import pyarrow as pa
from attrs import frozen
from pyspark.sql import SparkSession

from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.local_days import MICROS, Day
from helen.pipeline.lake.schema import ddl
from helen.pipeline.reports.availability import parts, plan_for
from helen.pipeline.reports.availability_inputs import Plan
from helen.pipeline.reports.availability_math import (
    CheckInputs,
    DayAccount,
    accounts_of,
    check_sums,
    first_known,
    percent_of,
    without_result,
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


@frozen
class Task:
    """Turns numbers of a plan's parts into one row of figures for each check, in Spark's workers."""

    plan: Plan
    days: Sequence[Day]
    windows: Mapping[str, Day]
    profile: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pylist(list(self._part(part)), schema=_ROW)

    def _part(self, part: int) -> Iterator[dict[str, Any]]:
        for series, inputs in self.plan.inputs(part):
            accounts = accounts_of(inputs, [*self.days, *self.windows.values()], self.profile)
            check_sums(accounts)
            yield {"series": series, **self._figures(accounts, inputs)}

    def _figures(self, accounts: Sequence[DayAccount], inputs: CheckInputs) -> dict[str, Any]:
        """Return the figures of a check: its time counts from its first result on, until it was retired."""
        since = first_known(inputs)
        counted = [self._counted(each, inputs, since) for each in accounts]
        days, windows = counted[: len(self.days)], counted[len(self.days) :]
        known = [(percent_of(*each), day.date) for each, day in zip(days, self.days, strict=True) if each[1] > 0]
        worst = min(known, default=(None, None))
        shares = {name: _bad_share(*each) for name, each in zip(self.windows, windows, strict=True)}
        return {
            "good": sum(good for good, _ in days), "counted": sum(each for _, each in days),
            "bad": sum(each.bad for each in accounts[: len(self.days)]),
            "outages": sum(each.outages for each in accounts[: len(self.days)]),
            "worst_day": worst[1], "worst_percent": worst[0],
            "since": since if since is not None and since > self.days[0].begin else None, **shares,
        }  # fmt: skip

    def _counted(self, account: DayAccount, inputs: CheckInputs, since: int | None) -> tuple[int, int]:
        """Return the good time of a day, and the time that counts, microseconds."""
        good, counted = account.counted(self.profile)
        return good, counted - (without_result(account, inputs, since) if self.profile == "strict" else 0)


def _bad_share(good: int, counted: int) -> float | None:
    return (counted - good) / counted if counted else None


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
        found = parts(spark, plan).mapInArrow(Task(plan, days, windows, profile), ddl(_ROW)).toArrow().to_pylist()
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
