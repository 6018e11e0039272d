"""Implement `helen forwards`: what is sent to other systems, how far each of them is, and the file that says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from groundwork.durations import words_of
from groundwork.terminal import echo
from helen.cli.assign import read_file
from helen.cli.base.client import Client
from helen.cli.base.options import for_a_helen, output, plain, print_json, table

HEADINGS = ["FORWARD", "TYPE", "WHERE", "LAG", "BEHIND", "SENT", "REFUSED", "FAILED TRIES", "LOST SEGMENTS"]


@click.command()
@click.option("--file", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Replace all by this file.")
@click.option("--dry-run", is_flag=True, help="With --file: only check it.")
@output
@for_a_helen
def forwards(client: Client, file: Path | None, dry_run: bool, as_json: bool) -> None:
    """List the systems that results are sent to: where, how far behind, what was sent, and what was refused.

    They stand in STATE/forwards.toml; --file replaces it. Exit status 1: the file has a fault, or one is in trouble.
    """
    if file is not None:
        done = client.put("/api/v1/forwards/file", {"text": read_file(file), "dry_run": dry_run})
        print_json(done) if as_json else echo("fine" if dry_run else "the file is in force")
        return
    found = client.get("/api/v1/forwards")
    if as_json:
        print_json(found)
    else:
        _show(found)
    if found["fault"] or found["troubles"]:
        raise SystemExit(1)


def _show(found: dict[str, Any]) -> None:
    table(HEADINGS, [_row(each) for each in found["forwards"]])
    if not found["forwards"]:
        echo("Nothing is sent to other systems. `helen forwards --file FILE` says what shall be.")
    for each in found["forwards"]:
        if each["error"]:
            echo(f"{plain(each['name'])}: {plain(each['error'])}", err=True)
    for line in notes(found):
        echo(line, err=True)


def _row(each: dict[str, Any]) -> list[Any]:
    lag = words_of(round(each["lag"])) if each["lag"] else "none"
    settings = each["settings"]
    counts = (each[name] for name in ("behind", "sent", "refused", "failed", "lost"))
    return [each["name"], settings["type"], settings["url"], lag, *counts]


def notes(found: dict[str, Any] | None) -> list[str]:
    """Return a line for each thing that needs an operator, for `helen forwards` and `helen status`."""
    if found is None:
        return []
    lines = [f"forwards.toml is not used: {plain(found['fault'])}"] if found["fault"] else []
    return lines + [f"forward {plain(each)}" for each in found["troubles"]]
