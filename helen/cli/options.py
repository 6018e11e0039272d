"""What every `helen` command takes: which Helen, and how to print."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from helen.cli.client import Client

# Not looked at by click: whose folder it is says the Client, with what to do about it.
STATE_FOLDER = click.Path(path_type=Path, readable=False)


def which_helen(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --state, --url and --token."""
    state = click.option("--state", type=STATE_FOLDER, envvar="HELEN_STATE", help="Helen's state directory.")
    url = click.option("--url", envvar="HELEN_URL", help="Her HTTP API instead, e.g. http://127.0.0.1:4167.")
    token = click.option("--token", envvar="HELEN_TOKEN", help="The token for --url; it lies in STATE/web.token.")
    return state(url(token(command)))


def for_a_helen(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --state, --url and --token; the command gets a Client as its first argument."""

    @which_helen
    @functools.wraps(command)
    def wrapped(*args: Any, state: Path | None, url: str | None, token: str | None, **kwargs: Any) -> Any:
        return command(Client(state, url, token), *args, **kwargs)

    return wrapped


def chosen_helen(ctx: click.Context, which: dict[str, Any]) -> Client:
    """For a subcommand of a group that takes --state, --url and --token as well: the nearer one counts.

    The environment must not win over an option that stands before the subcommand.
    """
    near = {name for name in which if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    return Client(**{name: which[name] if name in near else above for name, above in ctx.obj.items()})


def output(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --output text|json as `as_json`."""

    @click.option("--output", type=click.Choice(["text", "json"]), default="text", help="For people, or for programs.")
    @functools.wraps(command)
    def wrapped(*args: Any, output: str, **kwargs: Any) -> Any:
        return command(*args, as_json=output == "json", **kwargs)

    return wrapped


def print_json(document: Any) -> None:
    click.echo(json.dumps(document, ensure_ascii=False, indent=2))


def styled(text: str, **style: Any) -> str:
    """In colour, unless NO_COLOR is set (no-color.org); click takes it away by itself where there is no terminal."""
    return text if os.environ.get("NO_COLOR") else click.style(text, **style)


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
