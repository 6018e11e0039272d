"""Defines the commands of `helen pipeline`. Exit status 0: done; 1: failed, with a sentence; 2: wrong usage."""

from __future__ import annotations

import signal
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import click

from groundwork.duration_option import DurationOption
from groundwork.terminal import echo, echo_json
from helen.pipeline import doctor as doctoring
from helen.pipeline import repair_commands, upkeep
from helen.pipeline.driver import TRIGGER, Driver, Settings, tidy
from helen.pipeline.ingest.offsets import MAX_SEGMENTS
from helen.pipeline.ingest.reparse import USUAL, load_parser, reparse
from helen.pipeline.lake.errors import LakeBusy
from helen.pipeline.lake.local_days import MICROS, local_days, parse_day
from helen.pipeline.reports import data_commands
from helen.pipeline.reports import recent as recents
from helen.pipeline.reports.availability import choose
from helen.pipeline.reports.backtest import backtest, read_overrides
from helen.pipeline.reports.backtest_summary import comparison, recorded_events, summary
from helen.pipeline.reports.command_options import CommonOptions, command, printed, say
from helen.pipeline.reports.report_commands import report
from helen.pipeline.reports.report_formats import Report, render
from helen.pipeline.reports.sql_command import sql_command


@click.group(context_settings={"help_option_names": ["--help"], "max_content_width": 100})
def main() -> None:
    """Keep the history on Spark: every result in a lake, and what the lake answers."""


main.add_command(report)
main.add_command(sql_command)
for each in (*repair_commands.COMMANDS, *data_commands.COMMANDS):
    main.add_command(each)


@main.command()
@click.option("--once", is_flag=True, help="Take in what is there, then end (for cron).")
@click.option(
    "--trigger", type=DurationOption(0.1, 3600), default=TRIGGER, show_default=True, help="Time between batches."
)
@click.option("--max-segments", type=click.IntRange(1), default=MAX_SEGMENTS, show_default=True, help="In one batch.")
@click.option("--keep", multiple=True, metavar="TABLE=DAYS", help="Days that a table keeps, e.g. results=14.")
@command
def run(common: CommonOptions, once: bool, trigger: float, max_segments: int, keep: tuple[str, ...]) -> None:
    """Take results and changes into the lake, compact it, and delete what is old enough."""
    need_state(common)
    settings = Settings(trigger, once, max_segments, keep=kept(keep))
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    with common.spark(shown=False) as spark:  # each batch says how it went
        Driver(spark, common.lake, common.states, settings, say).run(ending)


def need_state(common: CommonOptions) -> None:
    """Raise UsageError unless a history is given."""
    if not common.states:
        raise click.UsageError("give --state DIR, the state folder of the Helen to read from")


def kept(options: tuple[str, ...]) -> dict[str, int | None]:
    """Return the retention with these changes: {TABLE: DAYS}, None for ever. Raises UsageError, PipelineError."""
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
def compact(common: CommonOptions, all_days: bool, keep: tuple[str, ...]) -> None:
    """Compact, delete and sweep now; `run` does it each hour by itself."""
    common.lake.lock()
    with common.spark() as spark:
        if all_days:
            upkeep.compact(spark, common.lake, all_days=True, say=say)
        tidy(spark, common.lake, kept(keep), say)


@main.command()
@click.option(
    "--minutes", type=click.FloatRange(0.1, 1440), default=60.0, show_default=True, help="So many, until now."
)
@command
def recent(common: CommonOptions, minutes: float) -> None:
    """Take in new results, and show the last minutes: sums of five minutes, and the accounts of each check."""
    need_state(common)
    with common.spark() as spark:
        try:
            Driver(spark, common.lake, common.states, Settings(once=True, upkeep=False)).run()
        except LakeBusy:
            say("another process takes results in already; this is what is there")
        series, last = choose(common.lake), recents.span(datetime.now(UTC), minutes)
        shown = [
            recents.rollup(spark, common.lake, last, series),
            recents.time_accounts(spark, common.lake, last, series),
        ]
    for each in shown:
        echo(f"{each.title}:\n\n{render(each, 'text')}")


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
def back_test(common: CommonOptions, rules: Path, count: int) -> Report:
    """Compare the alerts that other rules would have given with those of the recorded ones."""
    overrides = read_overrides(rules)
    end = round(time.time() * MICROS)
    begin = end - count * 86_400 * MICROS
    with common.spark() as spark:
        events = backtest(spark, common.lake, begin, end, overrides)
        note = comparison(events, recorded_events(common.lake, spark, begin, end))
        return summary(events, begin, end, [note])


@main.command("reparse")
@click.option("--from", "first", required=True, help="UTC day: 2026-11-27, today or yesterday.")
@click.option("--to", "last", default=None, help="The last day; default: the first one.")
@click.option("--parser", default=USUAL, show_default=True, help="MODULE:FUNCTION, bytes -> ResultDocument.")
@click.option("--dry-run", is_flag=True, help="Say what would change, and write nothing.")
@printed
@command
def re_parse(common: CommonOptions, first: str, last: str | None, parser: str, dry_run: bool) -> Report:
    """Read the stored blobs once more, with a better parser."""
    today = datetime.now(UTC).date()
    begin = parse_day(first, today)
    days = [day.date for day in local_days(begin, parse_day(last, today) if last else begin, "UTC")]
    load_parser(parser)
    common.lake.lock()
    with common.spark() as spark:
        changed = reparse(spark, common.lake, days, parser, dry_run, say)
    rows = [{"column": name, "changed": count} for name, count in changed.items()]
    return Report("Would change" if dry_run else "Changed", ["column", "changed"], rows)


@main.command()
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@command
def doctor(common: CommonOptions, output: str) -> None:
    """Look at everything that the pipeline needs, without starting Spark. Status 1 if something is wrong."""
    findings = doctoring.examine(common.lake, common.states)
    if output == "json":
        echo_json([finding.to_json() for finding in findings], indent=2)
    else:
        for finding in findings:
            echo(f"{'ok   ' if finding.fine else 'WRONG'}  {finding.what}: {finding.said}")
    sys.exit(0 if all(finding.fine for finding in findings) else 1)
