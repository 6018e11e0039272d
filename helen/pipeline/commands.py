"""The commands of `helen pipeline`: options in, a report or a sentence out. Exit status 0 fine, 1 failed, 2 usage."""

from __future__ import annotations

import functools
import json
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from helen.pipeline import doctor as doctoring
from helen.pipeline import forecasts, reports, upkeep
from helen.pipeline.availability import availability, choose, store
from helen.pipeline.backtest import backtest, read_overrides, summary
from helen.pipeline.days import MICROS, local_days, local_today, parse_day
from helen.pipeline.driver import TRIGGER, Driver, Settings, first_line, tidy
from helen.pipeline.errors import PipelineError
from helen.pipeline.lake import Lake
from helen.pipeline.reparse import USUAL, load_parser, reparse
from helen.pipeline.shown import FORMATS, Report, render
from helen.pipeline.source import MAX_SEGMENTS
from helen.pipeline.spark import start_spark
from helen.pipeline.spent import PROFILES
from helen.pipeline.views import register

Command = Callable[..., Any]


class Where:
    """Which lake, which histories, which Spark: the options that nearly all commands take."""

    def __init__(self, state: tuple[Path, ...], lake: Path | None, master: str, conf: tuple[str, ...]) -> None:
        self.states = state
        if lake is None and len(state) != 1:
            raise click.UsageError("give --lake DIR, or one --state DIR whose history/lake it is")
        self.lake = Lake(lake if lake is not None else state[0] / "history" / "lake")
        self._master = master
        wrong = [each for each in conf if "=" not in each]
        if wrong:
            raise click.UsageError(f"--conf {wrong[0]}: write NAME=VALUE")
        self._conf = dict(each.split("=", 1) for each in conf)

    @contextmanager
    def spark(self) -> Iterator[SparkSession]:
        """Starts it, and says so: it takes some seconds."""
        say("starting Spark")
        with tempfile.TemporaryDirectory(prefix="helen-spark-", ignore_cleanup_errors=True) as scratch:
            spark = start_spark("helen", self._master, self._conf, Path(scratch))
            try:
                yield spark
            finally:
                spark.stop()


def say(line: str) -> None:
    """Progress goes to stderr, so that stdout is the report alone."""
    click.echo(line, err=True)


def command(function: Command) -> Command:
    """Common options, and errors as one sentence with status 1."""

    @click.option(
        "--state",
        type=click.Path(path_type=Path),
        multiple=True,
        envvar="HELEN_STATE",
        help="State folder of a Helen, or her history folder; several for several Helens.",
    )
    @click.option("--lake", type=click.Path(path_type=Path), envvar="HELEN_LAKE", help="Default: STATE/history/lake.")
    @click.option(
        "--master",
        default="local[*]",
        show_default=True,
        envvar="HELEN_SPARK_MASTER",
        help="Where Spark runs, e.g. spark://host:7077.",
    )
    @click.option("--conf", multiple=True, help="A setting of Spark, NAME=VALUE.")
    @functools.wraps(function)
    def wrapped(state: tuple[Path, ...], lake: Path | None, master: str, conf: tuple[str, ...], **rest: Any) -> Any:
        try:
            return function(Where(state, lake, master, conf), **rest)
        except PipelineError as error:
            raise click.ClickException(str(error)) from error
        except PySparkException as error:
            raise click.ClickException(f"Spark: {first_line(error)}") from error

    return wrapped  # fmt: skip


def printed(function: Command) -> Command:
    """Adds --output and --out to a command that returns a Report."""

    @click.option("--output", type=click.Choice(FORMATS), default="text", show_default=True)
    @click.option("--out", type=click.Path(path_type=Path), help="Write to this file instead of stdout.")
    @functools.wraps(function)
    def wrapped(*args: Any, output: str, out: Path | None, **rest: Any) -> None:
        text = render(function(*args, **rest), output)
        if out is None:
            click.echo(text, nl=False)
        else:
            out.write_text(text, encoding="utf-8")

    return wrapped


@click.group(context_settings={"help_option_names": ["--help"], "max_content_width": 100})
def main() -> None:
    """History on Spark: every result in a lake, and what the lake answers."""


@main.command()
@click.option("--once", is_flag=True, help="Take in what is there, then end (for cron).")
@click.option("--trigger", type=click.FloatRange(0.1, 3600), default=TRIGGER, show_default=True, help="Seconds.")
@click.option("--max-segments", type=click.IntRange(1), default=MAX_SEGMENTS, show_default=True, help="In one batch.")
@click.option("--keep", multiple=True, metavar="TABLE=DAYS", help="Days that a table keeps, e.g. results=14.")
@command
def run(where: Where, once: bool, trigger: float, max_segments: int, keep: tuple[str, ...]) -> None:
    """Take results and changes into the lake, compact it, and forget what is old enough."""
    if not where.states:
        raise click.UsageError("give --state DIR: whose history?")
    settings = Settings(trigger, once, max_segments, keep=kept(keep))
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    with where.spark() as spark:
        Driver(spark, where.lake, where.states, settings, say).run(ending)


def kept(options: tuple[str, ...]) -> dict[str, int | None]:
    """The retention with these changes."""
    found = dict(upkeep.KEEP)
    for option in options:
        table, _, days = option.partition("=")
        if table not in found or not (days.isdigit() or days == "forever"):
            raise click.UsageError(f"--keep {option}: write TABLE=DAYS or TABLE=forever; tables: {', '.join(found)}")
        found[table] = None if days == "forever" else int(days)
    upkeep.check_keep(found)
    return found


@main.command()
@click.option("--all", "all_days", is_flag=True, help="Each day with more than one file, today's, too.")
@click.option("--keep", multiple=True, metavar="TABLE=DAYS", help="As of `run`.")
@command
def compact(where: Where, all_days: bool, keep: tuple[str, ...]) -> None:
    """Compact, forget and sweep now; `run` does it each hour by itself."""
    where.lake.lock()
    with where.spark() as spark:
        if all_days:
            upkeep.compact(spark, where.lake, all_days=True, say=say)
        tidy(spark, where.lake, kept(keep), say)


@main.group()
def report() -> None:
    """What the lake answers."""


def days_of(function: Command) -> Command:
    """Adds --from, --to, --zone and names of checks; the command gets the local days."""

    @click.option("--from", "first", default="yesterday", show_default=True, help="2026-11-27, today or yesterday.")
    @click.option("--to", "last", default=None, help="The last day; default: the first one.")
    @click.option("--zone", default="UTC", show_default=True, help="Whose days, e.g. Europe/Berlin.")
    @click.argument("names", nargs=-1, metavar="[AGENT[/CHECK]]...")
    @functools.wraps(function)
    def wrapped(where: Where, first: str, last: str | None, zone: str, names: tuple[str, ...], **rest: Any) -> Any:
        today = local_today(datetime.now(UTC), zone)
        begin = parse_day(first, today)
        days = local_days(begin, parse_day(last, today) if last else begin, zone)
        return function(where, days=days, zone=zone, names=names, **rest)

    return wrapped


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


@main.command("backtest")
@click.option(
    "--rule",
    "rules",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    required=True,
    help='TOML: ["disk*"] and below it attempts = 5, retry = 30 ...',
)
@click.option("--days", "count", type=click.IntRange(1, 365), default=7, show_default=True, help="So many, until now.")
@printed
@command
def back_test(where: Where, rules: Path, count: int) -> Report:
    """What would have been told with other rules, beside what the recorded ones give."""
    overrides = read_overrides(rules)
    end = round(time.time() * MICROS)
    begin = end - count * 86_400 * MICROS
    with where.spark() as spark:
        return summary(backtest(spark, where.lake, begin, end, overrides), begin, end)


@main.command("reparse")
@click.option("--from", "first", required=True, help="UTC day: 2026-11-27, today or yesterday.")
@click.option("--to", "last", default=None, help="The last day; default: the first one.")
@click.option("--parser", default=USUAL, show_default=True, help="MODULE:FUNCTION, bytes -> ResultDocument.")
@click.option("--dry-run", is_flag=True, help="Say what would change, and write nothing.")
@printed
@command
def re_parse(where: Where, first: str, last: str | None, parser: str, dry_run: bool) -> Report:
    """Read the stored blobs once more, with a parser that knows better."""
    today = datetime.now(UTC).date()
    begin = parse_day(first, today)
    days = [day.date for day in local_days(begin, parse_day(last, today) if last else begin, "UTC")]
    load_parser(parser)
    where.lake.lock()
    with where.spark() as spark:
        changed = reparse(spark, where.lake, days, parser, dry_run, say)
    rows = [{"column": name, "changed": count} for name, count in changed.items()]
    return Report("Would change" if dry_run else "Changed", ["column", "changed"], rows)


@main.command()
@click.argument("statement")
@printed
@command
def sql(where: Where, statement: str) -> Report:
    """Ask the lake in SQL. Each table is a view; of m5, h1 and d1 there is one row for each bucket."""
    with where.spark() as spark:
        register(spark, where.lake)
        frame = spark.sql(statement)
        rows = frame.limit(reports.MOST_ROWS + 1).toArrow().to_pylist()
    notes = [f"Only the first {reports.MOST_ROWS} rows."] if len(rows) > reports.MOST_ROWS else []
    return Report("SQL", frame.columns, rows[: reports.MOST_ROWS], notes)


@main.command()
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@command
def doctor(where: Where, output: str) -> None:
    """Look at everything that the pipeline needs, without starting Spark. Status 1 if something is wrong."""
    findings = doctoring.examine(where.lake, where.states)
    if output == "json":
        click.echo(json.dumps([finding.to_json() for finding in findings], indent=2))
    else:
        for finding in findings:
            click.echo(f"{'ok   ' if finding.fine else 'WRONG'}  {finding.what}: {finding.said}")
    sys.exit(0 if all(finding.fine for finding in findings) else 1)
