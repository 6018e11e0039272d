"""Defines the commands of `helen pipeline` that prove a lake, and mend what `doctor` names."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import click

from groundwork.counts import count
from groundwork.terminal import echo
from helen.pipeline.ingest.batch import Sink
from helen.pipeline.ingest.claims import claim
from helen.pipeline.ingest.histories import open_history
from helen.pipeline.ingest.losses import accept_loss
from helen.pipeline.ingest.quarantine import readmit
from helen.pipeline.ingest.series_names import SeriesNames
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.local_days import local_days, parse_day
from helen.pipeline.lake.lost_files import take_out
from helen.pipeline.reports.command_options import Command, CommonOptions, command, say
from helen.pipeline.reports.report_formats import FORMATS, Report, render
from helen.pipeline.rollup.rebuild import rebuild
from helen.pipeline.verify import mending, table_of, verify_days, verify_segments

MOST_SHOWN = 20  # sentences about segments: the count says how many there are
Repair = Callable[[Lake, Sink], list[str]]


def as_writer(function: Command) -> Command:
    """Give a command the lake, locked, and a Sink of the histories; print the lines that it returns."""

    @command
    @functools.wraps(function)
    def wrapped(common: CommonOptions, **rest: Any) -> None:
        """Lock the lake until the command is done."""
        if not common.states:
            raise click.UsageError("give --state DIR, the state folder of the Helen to read from")
        common.lake.lock()
        try:
            found = [open_history(folder) for folder in common.states]
            for history in found:
                claim(history, common.lake.folder)
            names = SeriesNames(common.lake)
            sink = Sink(common.lake, names, names.number(found))
            lines = function(common.lake, sink, **rest)
            sink.commit()
        finally:
            common.lake.unlock()
        for line in lines or ["Nothing to do."]:
            echo(line)

    return wrapped


@click.command("readmit")
@as_writer
def readmit_command(lake: Lake, sink: Sink) -> list[str]:
    """Take in segments from quarantine that can be read now, or that were replaced by sound copies."""
    return readmit(lake, sink)


@click.command("accept-loss")
@click.option("--file", "files", multiple=True, help="A file of the lake that can't be read: it counts no more.")
@as_writer
def accept_loss_command(lake: Lake, sink: Sink, files: tuple[str, ...]) -> list[str]:
    """Go on behind segments that are missing and can't be restored. They stay in the table `segments`, as lost.

    With --file it goes on without these files of the lake instead.
    """
    return take_out(lake, files) if files else accept_loss(lake, sink)


@click.command("verify")
@click.option("--from", "first", default=None, help="UTC day: 2026-11-27, today or yesterday; default: the oldest.")
@click.option("--to", "last", default=None, help="The last day; default: the newest.")
@click.option("--output", type=click.Choice(FORMATS), default="text", show_default=True)
@command
def verify_command(common: CommonOptions, first: str | None, last: str | None, output: str) -> None:
    """Prove that the lake has each result once, and that the sums are those of the results. Status 1 if not."""
    today = datetime.now(UTC).date()
    span = (parse_day(first, today) if first else date.min, parse_day(last, today) if last else date.max)
    faults = verify_segments(common.lake)
    for fault in faults[:MOST_SHOWN]:
        say(fault)
    days = list(verify_days(common.lake, *span))
    rows = table_of(days)
    wrong = sum(row["wrong"] is not None for row in rows)
    found = f"{count(len(faults), 'segment is', 'segments are')} and {count(wrong, 'day is', 'days are')} wrong."
    note = found if faults or wrong else "Everything is there once."
    notes = [note] if faults else [note, *(f"To make them anew: `{each}`" for each in mending(days)[:MOST_SHOWN])]
    columns = ["day", "results", *common.lake.levels, "wrong"]
    echo(render(Report("Results that count, by day", columns, rows, notes), output), nl=False)
    sys.exit(1 if faults or wrong else 0)


@click.command("rebuild")
@click.argument("table")
@click.option("--from", "first", required=True, help="UTC day: 2026-11-27, today or yesterday.")
@click.option("--to", "last", default=None, help="The last day; default: the first one.")
@command
def rebuild_command(common: CommonOptions, table: str, first: str, last: str | None) -> None:
    """Make whole UTC days of a rollup anew, from the table that it comes from."""
    today = datetime.now(UTC).date()
    begin = parse_day(first, today)
    days = [day.date for day in local_days(begin, parse_day(last, today) if last else begin, "UTC")]
    common.lake.lock()
    with common.spark() as spark:
        rebuild(spark, common.lake, table, days, say)


COMMANDS = (readmit_command, accept_loss_command, verify_command, rebuild_command)
