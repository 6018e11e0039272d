"""Defines the commands of `helen pipeline` that give data of the lake away, or take it out."""

from __future__ import annotations

from datetime import UTC, date, datetime

import click

from groundwork.counts import count
from groundwork.terminal import echo
from helen.pipeline.forget import forget
from helen.pipeline.lake.local_days import parse_day
from helen.pipeline.reports.command_options import CommonOptions, command, printed, say
from helen.pipeline.reports.export import FORMATS, export
from helen.pipeline.reports.report_formats import Report
from helen.pipeline.upkeep import sweep


@click.command("forget")
@click.argument("agent")
@click.option("--dry-run", is_flag=True, help="Say what would go, and take nothing out.")
@click.option("--purge", is_flag=True, help="Delete replaced files now; readers of older versions fail.")
@printed
@command
def forget_command(common: CommonOptions, agent: str, dry_run: bool, purge: bool) -> Report:
    """Take all results, sums, changes and names of an agent out of the lake. It can't be undone."""
    if not dry_run:
        common.lake.lock()
    try:
        with common.spark() as spark:
            found = forget(spark, common.lake, agent, dry_run, say)
        swept = sweep(common.lake, 0) if purge and not dry_run else None
    finally:
        common.lake.unlock()
    rows = [{"table": name, "rows": rows} for name, rows in found.rows.items()]
    notes = ["Nothing was taken out." if dry_run else "No row of it is left in these tables."]
    if found.mentions:
        notes.append(f"It is named in {count(found.mentions, 'change')} about several agents: these stay.")
    named = [f"{count(number, 'row')} of {name}" for name, number in found.runs.items() if number]
    if named:
        notes.append(f"It ran targets: its name stays in the spools of {' and '.join(named)}.")
    if swept is not None:
        notes.append(f"{count(swept, 'replaced file was', 'replaced files were')} deleted.")
    elif not dry_run:
        notes.append("Replaced files are deleted in a day (--purge: now).")
    return Report(f"{'Would go' if dry_run else 'Gone'} of {agent}", ["table", "rows"], rows, notes)


@click.command("export")
@click.argument("agents", nargs=-1, metavar="[AGENT]...")
@click.option("--to", "target", required=True, help="A new folder, or a URL such as s3://bucket/folder.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="parquet", show_default=True)
@click.option("--table", "tables", multiple=True, help="Default: all tables; several are possible.")
@click.option("--from", "first", default=None, help="UTC day: 2026-11-27, today or yesterday; default: the oldest.")
@click.option("--until", "last", default=None, help="The last day; default: the newest.")
@command
def export_command(
    common: CommonOptions, agents: tuple[str, ...], target: str, form: str, tables: tuple[str, ...],
    first: str | None, last: str | None,
) -> None:  # fmt: skip
    """Write tables as Parquet or CSV files, each row that counts once, of all agents or of some."""
    for name in tables:
        if name not in common.lake.tables:
            raise click.UsageError(f"--table {name}: there are {', '.join(common.lake.tables)}")
    today = datetime.now(UTC).date()
    days = (parse_day(first, today) if first else date.min, parse_day(last, today) if last else date.max)
    found = export(common.lake, target, form, tables, days, agents, say)
    echo(f"{count(sum(found.values()), 'row')} of {count(len(found), 'table')} in {target}")


COMMANDS = (forget_command, export_command)
