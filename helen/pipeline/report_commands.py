"""`helen pipeline report ...`: each command chooses checks and days, has a job do the work, and returns a Report."""

from __future__ import annotations

from typing import Any

import click

from helen.pipeline import forecasts, reports
from helen.pipeline.availability import availability, choose, store
from helen.pipeline.options import Where, command, days_of, printed, say
from helen.pipeline.shown import Report
from helen.pipeline.sla import sla
from helen.pipeline.spent import PROFILES


@click.group()
def report() -> None:
    """What the lake answers."""


@report.command("availability")
@click.option("--profile", type=click.Choice(PROFILES), default="strict", show_default=True)
@click.option("--each-day", is_flag=True, help="One row for each day instead of one for all of them.")
@click.option("--target", type=click.FloatRange(0, 100), help="Per cent: says what misses it, and what budget is left.")
@click.option("--store", "stored", is_flag=True, help="Keep the days in the table availability_daily.")
@printed
@command
@days_of
def report_availability(
    where: Where, days: Any, zone: str, names: tuple[str, ...], profile: str, each_day: bool, target: float | None,
    stored: bool,
) -> Report:  # fmt: skip
    """How each check spent its days: ok, bad, planned, unknown and no data, to the second."""
    series = reports.wanted(choose(where.lake, names), names)
    if stored:
        where.lake.lock()
    with where.spark() as spark:
        rows = availability(spark, where.lake, days, profile, zone, series)
    if stored:
        say(f"{store(where.lake, rows)} days are new or have changed")
    return reports.availability_report(rows, series, each_day, target)


@report.command("sla")
@click.option("--target", type=click.FloatRange(0, 100), default=99.9, show_default=True, help="Per cent.")
@click.option("--profile", type=click.Choice(PROFILES), default="strict", show_default=True)
@printed
@command
@days_of
def report_sla(where: Where, days: Any, zone: str, names: tuple[str, ...], target: float, profile: str) -> Report:
    """How far each check is from its target, what is left of its error budget, and how fast that burns."""
    series = reports.wanted(choose(where.lake, names), names)
    with where.spark() as spark:
        return sla(spark, where.lake, days, series, profile, target)


@report.command("offenders")
@click.option("--top", type=click.IntRange(1), default=20, show_default=True)
@printed
@command
@days_of
def report_offenders(where: Where, days: Any, zone: str, names: tuple[str, ...], top: int) -> Report:
    """The checks with the most bad results and changes of status."""
    series = reports.wanted(choose(where.lake, names), names)
    with where.spark() as spark:
        return reports.offenders(spark, where.lake, days, series, top)


@report.command("flapping")
@click.option("--top", type=click.IntRange(1), default=50, show_default=True)
@printed
@command
@days_of
def report_flapping(where: Where, days: Any, zone: str, names: tuple[str, ...], top: int) -> Report:
    """The checks that flapped: how often, for how long, and how often their status changed."""
    series = reports.wanted(choose(where.lake, names), names)
    with where.spark() as spark:
        return reports.flapping(spark, where.lake, days, series, top)


@report.command("cost")
@click.option("--top", type=click.IntRange(1), default=50, show_default=True)
@printed
@command
@days_of
def report_cost(where: Where, days: Any, zone: str, names: tuple[str, ...], top: int) -> Report:
    """What each check costs: runs, CPU seconds, time, peak memory."""
    series = reports.wanted(choose(where.lake, names), names)
    with where.spark() as spark:
        return reports.cost(spark, where.lake, days, series, top)


@report.command("capacity")
@click.option("--within", type=click.FloatRange(0, 3650), default=90.0, show_default=True, help="Days.")
@printed
@command
@days_of
def report_capacity(where: Where, days: Any, zone: str, names: tuple[str, ...], within: float) -> Report:
    """Metrics that will run into their limit soon, by the trend of --from to --to (take 14 days or more)."""
    series = reports.wanted(choose(where.lake, names), names)
    with where.spark() as spark:
        return forecasts.capacity(spark, where.lake, days, series, within)


@report.command("anomalies")
@click.option("--threshold", type=click.FloatRange(1), default=forecasts.THRESHOLD, show_default=True)
@printed
@command
@days_of
def report_anomalies(where: Where, days: Any, zone: str, names: tuple[str, ...], threshold: float) -> Report:
    """Hours that were not as usual at that time of the week."""
    series = reports.wanted(choose(where.lake, names), names)
    with where.spark() as spark:
        return forecasts.anomalies(spark, where.lake, days, series, threshold)
