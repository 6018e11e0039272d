"""What every `helen` command takes: which Helen, and how to print."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from helen.cli.client import Client


def for_a_helen(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --state, --url and --token; the command gets a Client as its first argument."""

    @click.option("--state", type=click.Path(path_type=Path), envvar="HELEN_STATE", help="Helen's state directory.")
    @click.option("--url", envvar="HELEN_URL", help="Her HTTP API instead, e.g. http://127.0.0.1:4167.")
    @click.option("--token", envvar="HELEN_TOKEN", help="The token for --url; it lies in STATE/web.token.")
    @functools.wraps(command)
    def wrapped(*args: Any, state: Path | None, url: str | None, token: str | None, **kwargs: Any) -> Any:
        return command(Client(state, url, token), *args, **kwargs)

    return wrapped


def output(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --output text|json as `as_json`."""

    @click.option("--output", type=click.Choice(["text", "json"]), default="text", help="For people, or for programs.")
    @functools.wraps(command)
    def wrapped(*args: Any, output: str, **kwargs: Any) -> Any:
        return command(*args, as_json=output == "json", **kwargs)

    return wrapped


def print_json(document: Any) -> None:
    click.echo(json.dumps(document, ensure_ascii=False, indent=2))


def plain(text: Any) -> str:
    """Text of an agent's or a check's, safe to print: whatever could move the cursor is shown as an escape."""
    shown = str(text)
    return shown if shown.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in shown)


def table(headings: list[str], rows: list[list[Any]]) -> None:
    """Columns for people."""
    cells = [[plain("" if cell is None else cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in [headings, *cells]) for at in range(len(headings))]
    for row in [headings, *cells]:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
