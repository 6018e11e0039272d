"""Implement `helen route test`, which shows the channels of an alert with given labels, rule by rule."""

from __future__ import annotations

from typing import Any

import click

from groundwork.durations import words_of
from groundwork.terminal import echo
from helen.cli.base.client import Client
from helen.cli.base.options import for_a_helen, output, plain, print_json
from helen.cli.notify import read_file

TIMES = {"after": "wait", "then every": "interval", "again after": "repeat"}


@click.group()
def route() -> None:
    """Show which channels an alert would go to."""


@route.command("test")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="agent=web-1, severity=critical ...")
@click.option("--file", "path", type=click.Path(exists=True, dir_okay=False), help="Take the rules of this file.")
@output
@for_a_helen
def test(client: Client, labels: tuple[str, ...], path: str | None, as_json: bool) -> None:
    """Show each rule with its decision, and the channels at the end.

    Exit status 1: no channel would get the alert.
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
    """Print the rules that were evaluated, then the channels with their grouping and times."""
    for each in found["visited"]:
        mark = "matches" if each["matched"] else "no"
        channels = f" -> {', '.join(each['channels'])}" if each["channels"] else ""
        echo(f"{'  ' * each['depth']}{plain(each['rule'])}: {mark}, {plain(each['why'])}{plain(channels)}")
    echo()
    for each in found["to"]:
        by = ", ".join(f"{name}={value}" for name, value in each["group"].items()) or "all together"
        times = ", ".join(f"{word} {words_of(each[key])}" for word, key in TIMES.items())
        echo(f"{plain(each['channel'])}: rule {plain(each['rule'])}, grouped by {plain(by)}; {times}")
    if not found["to"]:
        echo("no channel gets it")
