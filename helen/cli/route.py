"""`helen route test`: who would be told of an alert with these labels, and what each rule decided."""

from __future__ import annotations

from typing import Any

import click

from helen.cli.client import Client
from helen.cli.notify import read_file
from helen.cli.options import for_a_helen, output, plain, print_json


@click.group()
def route() -> None:
    """Which channels an alert goes to."""


@route.command("test")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="agent=web-1, severity=critical ...")
@click.option("--file", "path", type=click.Path(exists=True, dir_okay=False), help="By this file instead.")
@output
@for_a_helen
def test(client: Client, labels: tuple[str, ...], path: str | None, as_json: bool) -> None:
    """Show each rule that is looked at, what it decided, and the channels in the end.

    Exit status 1: nobody would be told.
    """
    wrong = [label for label in labels if "=" not in label]
    if wrong:
        raise click.UsageError(f"--label {wrong[0]!r}: write KEY=VALUE")
    body: dict[str, Any] = {"labels": dict(label.partition("=")[::2] for label in labels)}
    if path is not None:
        body["text"] = read_file(path)
    found = client.post("/api/v1/notifications/route", body)
    print_json(found) if as_json else show(found)
    if not found["to"]:
        raise SystemExit(1)


def show(found: dict[str, Any]) -> None:
    for each in found["visited"]:
        mark = "matches" if each["matched"] else "no"
        channels = f" -> {', '.join(each['channels'])}" if each["channels"] else ""
        click.echo(f"{'  ' * each['depth']}{plain(each['rule'])}: {mark}, {plain(each['why'])}{plain(channels)}")
    click.echo()
    for each in found["to"]:
        by = ", ".join(f"{name}={value}" for name, value in each["group"].items()) or "all together"
        times = f"after {each['wait']:g} s, then every {each['interval']:g} s, again after {each['repeat']:g} s"
        click.echo(f"{plain(each['channel'])}: rule {plain(each['rule'])}, grouped by {plain(by)}; {times}")
    if not found["to"]:
        click.echo("nobody is told")
