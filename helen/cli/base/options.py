"""Add the options that every `helen` command has, and print tables and text."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from groundwork.safe_text import safe_line
from groundwork.terminal import echo, echo_json
from helen.cli.base.client import Client

# Click doesn't test the folder: the Client does, and says what to do about a folder of another user.
STATE_FOLDER = click.Path(path_type=Path, readable=False)


def which_helen(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --state, --url and --token to a command."""
    state = click.option(
        "--state", type=STATE_FOLDER, metavar="DIR", envvar="HELEN_STATE",
        help="Helen's state directory, on this machine; default: HELEN_STATE.",
    )  # fmt: skip
    url = click.option(
        "--url", metavar="URL", envvar="HELEN_URL",
        help="Instead of --state: Helen's HTTP API, such as http://127.0.0.1:4167; default: HELEN_URL.",
    )  # fmt: skip
    token = click.option(
        "--token", metavar="TOKEN", envvar="HELEN_TOKEN",
        help="With --url: a token, such as that in STATE/web.token; default: HELEN_TOKEN.",
    )  # fmt: skip
    return state(url(token(command)))


def for_a_helen(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --state, --url and --token; the command gets a Client as its first argument."""

    @which_helen
    @functools.wraps(command)
    def wrapped(*args: Any, state: Path | None, url: str | None, token: str | None, **kwargs: Any) -> Any:
        return command(Client(state, url, token), *args, **kwargs)

    return wrapped


def chosen_helen(ctx: click.Context, which: dict[str, Any]) -> Client:
    """Return the Client for a subcommand of a group that has --state, --url and --token as well.

    An option of the subcommand counts more than one of the group. The environment must not win over an option of the
    group.
    """
    near = {name for name in which if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    return Client(**{name: which[name] if name in near else above for name, above in ctx.obj.items()})


def output(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --output text|json to a command, which gets it as `as_json`."""

    @click.option("--output", type=click.Choice(["text", "json"]), default="text", help="json: for programs.")
    @functools.wraps(command)
    def wrapped(*args: Any, output: str, **kwargs: Any) -> Any:
        return command(*args, as_json=output == "json", **kwargs)

    return wrapped


def print_json(document: Any) -> None:
    echo_json(document, indent=2)


def plain(text: Any) -> str:
    """Return text of agents and checks as one line that is safe to print."""
    return safe_line(text)


def table(headings: list[str], rows: list[list[Any]]) -> None:
    """Print rows in columns, under headings."""
    cells = [[plain("" if cell is None else cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in [headings, *cells]) for at in range(len(headings))]
    for row in [headings, *cells]:
        echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
