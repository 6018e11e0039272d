"""Defines `helen pipeline report ...`: a command chooses checks and days, runs a job, and returns its Report."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import click
from attrs import evolve, frozen
from pyspark.sql import SparkSession

from groundwork.counts import count
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.local_days import Day
from helen.pipeline.reports import forecasts, report_jobs
from helen.pipeline.reports.availability import choose, day_rows, store
from helen.pipeline.reports.availability_math import PROFILES
from helen.pipeline.reports.command_options import Command, CommonOptions, command, days_of, printed, say
from helen.pipeline.reports.flapping import flapping
from helen.pipeline.reports.forgotten_results import note_on
from helen.pipeline.reports.report_formats import Report
from helen.pipeline.reports.report_jobs import Names
from helen.pipeline.reports.sla import sla
from helen.pipeline.reports.transitions import CONFIRMED, COUNTED

top = click.option("--top", type=click.IntRange(1), default=50, show_default=True, help="So many rows.")
profile = click.option("--profile", type=click.Choice(PROFILES), default="strict", show_default=True)
counted = click.option(
    "--counted", type=click.Choice(COUNTED), default=CONFIRMED, show_default=True,
    help="From when a change of status counts: since it was confirmed, or since its first result.",
)  # fmt: skip


@frozen
class ReportContext:
    """Holds everything that a report works on."""

    spark: SparkSession
    lake: Lake
    days: Sequence[Day]
    zone: str
    series: Names


@click.group()
def report() -> None:
    """Report on checks from the lake."""


def of_checks(function: Command) -> Command:
    """Start Spark for a command once its checks are found in the lake, and give it a ReportContext."""

    @printed
    @command
    @days_of
    @functools.wraps(function)
    def wrapped(common: CommonOptions, days: Sequence[Day], zone: str, names: tuple[str, ...], **rest: Any) -> Report:
        """Find the checks, start Spark and make the report."""
        series = report_jobs.wanted(choose(common.lake, names), names)
        if rest.get("stored"):
            common.lake.lock()
        with common.spark() as spark:
            made: Report = function(ReportContext(spark, common.lake, days, zone, series), **rest)
        return evolve(made, notes=[*made.notes, *note_on(common.lake, days)])

    return wrapped


@report.command("availability")
@profile
@counted
@click.option("--each-day", is_flag=True, help="One row for each day instead of one for all of them.")
@click.option("--target", type=click.FloatRange(0, 100), help="Per cent: says what misses it, and what budget is left.")
@click.option("--store", "stored", is_flag=True, help="Keep the days in the table availability_daily.")
@of_checks
def report_availability(
    context: ReportContext, profile: str, counted: str, each_day: bool, target: float | None, stored: bool
) -> Report:
    """Divide the days of each check into ok, bad, planned, unknown and no data, to the second."""
    if stored and counted != CONFIRMED:
        raise click.UsageError("--store keeps days of confirmed states: leave --counted out")
    rows = day_rows(context.spark, context.lake, context.days, profile, context.zone, context.series, counted)
    if stored:
        say(f"{count(store(context.lake, rows), 'day is new or has', 'days are new or have')} changed")
    return report_jobs.availability_report(rows, context.series, each_day, target)


@report.command("sla")
@click.option("--target", type=click.FloatRange(0, 100), default=99.9, show_default=True, help="Per cent.")
@profile
@counted
@of_checks
def report_sla(context: ReportContext, target: float, profile: str, counted: str) -> Report:
    """Show how far each check is from its target, the rest of its error budget, and how fast that burns."""
    return sla(context.spark, context.lake, context.days, context.series, profile, target, counted)


@report.command("offenders")
@top
@of_checks
def report_offenders(context: ReportContext, top: int) -> Report:
    """List the checks with the most bad results and changes of status."""
    return report_jobs.offenders(context.spark, context.lake, context.days, context.series, top)


@report.command("flapping")
@top
@of_checks
def report_flapping(context: ReportContext, top: int) -> Report:
    """List the checks that flapped: how often, for how long, and how often their status changed."""
    return flapping(context.spark, context.lake, context.days, context.series, top)


@report.command("cost")
@top
@of_checks
def report_cost(context: ReportContext, top: int) -> Report:
    """Show the cost of each check: runs, CPU seconds, time, peak memory."""
    return report_jobs.cost(context.spark, context.lake, context.days, context.series, top)


@report.command(
    "capacity",
    help="List metrics that will run into their limit soon, by the trend of --from to --to (take 14 days or more).",
)
@click.option("--within", type=click.FloatRange(0, 3650), default=90.0, show_default=True, help="Days.")
@of_checks
def report_capacity(context: ReportContext, within: float) -> Report:
    """Report metrics that run into a limit `within` so many days of 86,400 s; --help has a text of its own."""
    return forecasts.capacity(context.spark, context.lake, context.days, context.series, within)


@report.command("anomalies")
@click.option("--threshold", type=click.FloatRange(1), default=forecasts.THRESHOLD, show_default=True)
@of_checks
def report_anomalies(context: ReportContext, threshold: float) -> Report:
    """List hours that were not as usual at that time of the week."""
    return forecasts.anomalies(context.spark, context.lake, context.days, context.series, threshold, context.zone)
