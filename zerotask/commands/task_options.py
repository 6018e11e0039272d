"""Reads the options of a task, which `zerotask submit` and `zerotask schedule add` have in common."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click

from groundwork.duration_option import DurationOption


def _json(context: click.Context, parameter: click.Parameter, value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError as error:
        raise click.BadParameter(f"not JSON: {error}") from error


def task_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a task to a command."""
    for option in (
        click.option("--result-ttl", type=DurationOption(), help="Keep the result so long; default: 24h."),
        click.option("--max-attempts", type=int, help="Attempts before it has failed; default: 3."),
        click.option("--time-limit", type=DurationOption(), help="Longest time of one attempt; default: 1h."),
        click.option("--delay", type=DurationOption(), help="Time before it may run; default: 0s."),
        click.option("--priority", type=click.IntRange(0, 9), help="9 goes first; default: 4."),
    ):
        command = option(command)
    return command


params_option = click.option(
    "--params",
    metavar="JSON",
    default="[]",
    callback=_json,
    help="Array or object of the function's parameters; default: [].",
)
