"""`helen pipeline report ...`: each command chooses checks and days, has a job do the work, and returns a Report."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import click
from attrs import frozen
from pyspark.sql import SparkSession

from helen.pipeline import forecasts, reports
from helen.pipeline.availability import availability, choose, store
from helen.pipeline.days import Day
from helen.pipeline.lake import Lake
from helen.pipeline.options import Command, Where, command, days_of, printed, say
from helen.pipeline.reports import Names
from helen.pipeline.shown import Report
from helen.pipeline.sla import sla
from helen.pipeline.spent import PROFILES

top = click.option("--top", type=click.IntRange(1), default=50, show_default=True, help="So many rows.")
profile = click.option("--profile", type=click.Choice(PROFILES), default="strict", show_default=True)


@frozen
class About:
    """What a report is about."""

    spark: SparkSession
    lake: Lake
    days: Sequence[Day]
    zone: str
    series: Names


@click.group()
def report() -> None:
    """What the lake answers."""


def of_checks(function: Command) -> Command:
    """Starts Spark once the checks are known to be there; the command gets all that it is about."""

    @printed
    @command
    @days_of
    @functools.wraps(function)
    def wrapped(where: Where, days: Sequence[Day], zone: str, names: tuple[str, ...], **rest: Any) -> Report:
        series = reports.wanted(choose(where.lake, names), names)
        if rest.get("stored"):
            where.lake.lock()
        with where.spark() as spark:
            made: Report = function(About(spark, where.lake, days, zone, series), **rest)
        return made

    return wrapped


@report.command("availability")
@profile
@click.option("--each-day", is_flag=True, help="One row for each day instead of one for all of them.")
@click.option("--target", type=click.FloatRange(0, 100), help="Per cent: says what misses it, and what budget is left.")
@click.option("--store", "stored", is_flag=True, help="Keep the days in the table availability_daily.")
@of_checks
def report_availability(about: About, profile: str, each_day: bool, target: float | None, stored: bool) -> Report:
    """How each check spent its days: ok, bad, planned, unknown and no data, to the second."""
    rows = availability(about.spark, about.lake, about.days, profile, about.zone, about.series)
    if stored:
        say(f"{store(about.lake, rows)} days are new or have changed")
    return reports.availability_report(rows, about.series, each_day, target)


@report.command("sla")
@click.option("--target", type=click.FloatRange(0, 100), default=99.9, show_default=True, help="Per cent.")
@profile
@of_checks
def report_sla(about: About, target: float, profile: str) -> Report:
    """How far each check is from its target, what is left of its error budget, and how fast that burns."""
    return sla(about.spark, about.lake, about.days, about.series, profile, target)


@report.command("offenders")
@top
@of_checks
def report_offenders(about: About, top: int) -> Report:
    """The checks with the most bad results and changes of status."""
    return reports.offenders(about.spark, about.lake, about.days, about.series, top)


@report.command("flapping")
@top
@of_checks
def report_flapping(about: About, top: int) -> Report:
    """The checks that flapped: how often, for how long, and how often their status changed."""
    return reports.flapping(about.spark, about.lake, about.days, about.series, top)


@report.command("cost")
@top
@of_checks
def report_cost(about: About, top: int) -> Report:
    """What each check costs: runs, CPU seconds, time, peak memory."""
    return reports.cost(about.spark, about.lake, about.days, about.series, top)


@report.command("capacity")
@click.option("--within", type=click.FloatRange(0, 3650), default=90.0, show_default=True, help="Days.")
@of_checks
def report_capacity(about: About, within: float) -> Report:
    """Metrics that will run into their limit soon, by the trend of --from to --to (take 14 days or more)."""
    return forecasts.capacity(about.spark, about.lake, about.days, about.series, within)


@report.command("anomalies")
@click.option("--threshold", type=click.FloatRange(1), default=forecasts.THRESHOLD, show_default=True)
@of_checks
def report_anomalies(about: About, threshold: float) -> Report:
    """Hours that were not as usual at that time of the week."""
    return forecasts.anomalies(about.spark, about.lake, about.days, about.series, threshold)
