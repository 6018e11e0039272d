"""The commands of `helen pipeline`: options in, a report or a sentence out. Exit status 0 fine, 1 failed, 2 usage."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import click

from helen.pipeline import doctor as doctoring
from helen.pipeline import recent as recents
from helen.pipeline import upkeep
from helen.pipeline.availability import choose
from helen.pipeline.backtest import backtest, compared, read_overrides, summary, written
from helen.pipeline.days import MICROS, local_days, parse_day
from helen.pipeline.driver import TRIGGER, Driver, Settings, tidy
from helen.pipeline.errors import LakeBusy
from helen.pipeline.offsets import MAX_SEGMENTS
from helen.pipeline.options import Where, command, printed, say
from helen.pipeline.reparse import USUAL, load_parser, reparse
from helen.pipeline.report_commands import report
from helen.pipeline.shown import Report, render
from helen.pipeline.views import register

MOST_ROWS = 10_000  # of an answer to SQL: more is for a file, not for a terminal


@click.group(context_settings={"help_option_names": ["--help"], "max_content_width": 100})
def main() -> None:
    """History on Spark: every result in a lake, and what the lake answers."""


main.add_command(report)


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
    with where.spark(shown=False) as spark:  # each batch says how it went
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


@main.command()
@click.option(
    "--minutes", type=click.FloatRange(0.1, 1440), default=60.0, show_default=True, help="So many, until now."
)
@command
def recent(where: Where, minutes: float) -> None:
    """Take in what is new, and show the last minutes: sums of five minutes, and how each check spent the time."""
    if not where.states:
        raise click.UsageError("give --state DIR: whose history?")
    with where.spark() as spark:
        try:
            Driver(spark, where.lake, where.states, Settings(once=True, upkeep=False)).run()
        except LakeBusy:
            say("somebody else takes results in already; this is what is there")
        series, last = choose(where.lake), recents.span(datetime.now(UTC), minutes)
        shown = [recents.rollup(spark, where.lake, last, series), recents.spent(spark, where.lake, last, series)]
    for each in shown:
        click.echo(f"{each.title}:\n\n{render(each, 'text')}")


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
        events = backtest(spark, where.lake, begin, end, overrides)
        note = compared(events, written(where.lake, spark, begin, end))
    return summary(events, begin, end, [note])


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
        rows = frame.limit(MOST_ROWS + 1).toArrow().to_pylist()
    notes = [f"Only the first {MOST_ROWS} rows."] if len(rows) > MOST_ROWS else []
    return Report("SQL", frame.columns, rows[:MOST_ROWS], notes)


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
