"""Adds, lists and removes schedules: cron lines by which a broker submits tasks."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import click

from groundwork.terminal import echo
from zerotask import show
from zerotask.commands.broker_calls import operate
from zerotask.commands.task_options import params_option, task_options


@click.group()
def schedule() -> None:
    """Add, list and remove schedules, for operators. A schedule is a cron line that submits tasks."""


@schedule.command("add")
@click.argument("name")
@click.argument("line")
@click.argument("method")
@params_option
@click.option("--zone", metavar="ZONE", default="UTC", show_default=True, help="IANA time zone of the line.")
@click.option("--catch-up", is_flag=True, help="Run the latest run that fell due while no broker was running.")
@task_options
@click.pass_obj
def schedule_add(chosen: dict[str, Any], /, name: str, catch_up: bool, **given: Any) -> None:
    """Submit METHOD at the times of a cron LINE. It is "minute hour day month weekday"."""
    params = {"name": name, "catch_up": catch_up} | {key: value for key, value in given.items() if value is not None}
    operate(chosen, "schedule_add", params, lambda done: echo(f"{name} is scheduled"))


@schedule.command("list")
@click.pass_obj
def schedule_list(chosen: dict[str, Any]) -> None:
    """List the schedules, with their next and missed runs.

    AHEAD is a time up to which a schedule was run while the broker's clock was ahead: those times are not run again.
    """
    columns = ["name", "line", "zone", "next", "method", "catch_up", "missed", "ahead"]

    def tell(found: list[dict[str, Any]]) -> None:
        rows = found if chosen["json"] else [_with_times(row) for row in found]
        show.table(rows, columns, chosen["json"])

    operate(chosen, "schedules", {}, tell)


def _with_times(row: dict[str, Any]) -> dict[str, Any]:
    """Return a schedule with its times written in its own zone."""
    zone = ZoneInfo(row["zone"])

    def written(time: float | None) -> str | None:
        return None if time is None else f"{datetime.fromtimestamp(time, zone):%Y-%m-%d %H:%M %Z}"

    return row | {
        "next": written(row.get("next")),
        "ahead": written(row.get("ahead")),
        "missed": [written(time) for time in row["missed"]],
    }


@schedule.command("remove")
@click.argument("name")
@click.pass_obj
def schedule_remove(chosen: dict[str, Any], name: str) -> None:
    """Remove a schedule; tasks that it has submitted stay."""
    operate(chosen, "schedule_remove", {"name": name}, lambda done: echo(f"{name} is removed"))
