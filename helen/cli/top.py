"""`helen top`: the live board. What draws it is an extra, which is imported when somebody wants to see it."""

from __future__ import annotations

import importlib
import importlib.util

import click

from helen.cli.client import Client, Failed
from helen.cli.options import for_a_helen
from helen.top.board import SORTS, read_filter
from helen.top.feed import Feed


@click.command()
@click.option("--filter", "filter_text", default="", help="Only rows that fit, as / filters: state:crit agent:web-*")
@click.option("--sort", type=click.Choice(SORTS), default=SORTS[0], show_default=True, help="The order of rows.")
@click.option(
    "--interval", type=click.FloatRange(0.5, 3600), default=2.0, show_default=True,
    help="Seconds between two looks, where nothing tells of a change.",
)  # fmt: skip
@for_a_helen
def top(client: Client, filter_text: str, sort: str, interval: float) -> None:
    """Watch all checks live in the terminal; ? lists the keys."""
    try:
        read_filter(filter_text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--filter") from error
    if importlib.util.find_spec("textual") is None:
        raise Failed("the live board needs Textual: pip install 'helen-equus[top]'")
    client.get("/api/v1/status")  # whatever is wrong from the start is said here, on a screen that stays
    importlib.import_module("helen.top.app").Top(client, Feed(client, interval), filter_text, sort).run()
