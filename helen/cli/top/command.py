"""Implement `helen top`. Textual, which draws it, is an extra, and is imported only when the command runs."""

from __future__ import annotations

import importlib
import importlib.util

import click

from groundwork.duration_option import DurationOption
from helen.cli.base.client import Client, Failed
from helen.cli.base.options import for_a_helen
from helen.cli.top.feed import Feed
from helen.web.rows.filters import read_filter
from helen.web.rows.row import SORTS


@click.command()
@click.option(
    "--filter",
    "filter_text",
    metavar="TEXT",
    default="",
    help="Only rows that fit, as / filters: state:crit agent:web-*.",
)
@click.option("--sort", type=click.Choice(SORTS), default=SORTS[0], show_default=True, help="Order of the rows.")
@click.option(
    "--interval", type=DurationOption(0.5, 3600), default="2s", show_default=True,
    help="Time between two requests, while no event announces a change.",
)  # fmt: skip
@for_a_helen
def top(client: Client, filter_text: str, sort: str, interval: float) -> None:
    """Show all checks live in the terminal; ? lists the keys."""
    try:
        read_filter(filter_text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--filter") from error
    if importlib.util.find_spec("textual") is None:
        raise Failed("`helen top` needs Textual: pip install 'helen-equus[top]'")
    client.get("/api/v1/status")  # a failure at the start is printed here, on a screen that stays
    importlib.import_module("helen.cli.top.app").Top(client, Feed(client, interval), filter_text, sort).run()
