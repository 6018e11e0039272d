"""Describe a plan of changes to Helen: ask before it, have Helen rehearse it, print it, and carry it out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click
from attrs import field, frozen

from groundwork.counts import count
from groundwork.terminal import echo, styled
from helen.cli.base.client import Failed
from helen.cli.base.options import plain

CHANGES = 2  # exit status of --dry-run
COLORS = {"+": "green", "-": "red", "~": "yellow", "!": "yellow"}

Perform = Callable[[bool], list[str]]  # takes `dry_run`, returns lines to print


@frozen
class Change:
    """Describe one step of a plan. `sign` is +, - or ~; `lines` show the difference; `perform` does it."""

    sign: str
    what: str
    lines: tuple[str, ...] = ()
    perform: Perform = field(default=lambda dry_run: [], repr=False)


@frozen
class Plan:
    """Hold the steps of an apply. `extra` names things that only Helen has; `notes` are sentences for people."""

    changes: tuple[Change, ...]
    extra: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def confirm(plan: Plan, ways: str) -> None:
    """Ask at the terminal; raises Failed if the answer is no, or if there is no terminal to ask at.

    `ways` is the sentence that says what to do without one: commands that ask have different options.
    """
    if not sys.stdin.isatty():
        raise Failed(f"nothing was changed: there is no terminal to ask at. {ways}")
    if not click.confirm(f"Apply {count(len(plan.changes), 'change')}?"):
        raise Failed("nothing was changed, since you said no")


def rehearse(change: Change) -> list[str]:
    """Have Helen check one step without performing it, and return its warnings; raises Failed if it would refuse."""
    try:
        return change.perform(True)
    except click.ClickException as error:
        raise Failed(f"nothing was changed. {change.what}: {error.message}") from error


def carry_out(change: Change, is_quiet: bool) -> list[str]:
    """Perform one step and print its outcome; raises Failed if Helen refuses it, which leaves earlier steps done."""
    try:
        said = change.perform(False)
    except click.ClickException as error:
        raise Failed(
            f"{change.what}: {error.message}. The steps above it are done; mend it, then apply again"
        ) from error
    for line in (f"{change.what}: done", *said) if not is_quiet else ():
        echo(plain(line))
    return said


def shown(plan: Plan, warnings: list[str]) -> dict[str, Any]:
    """Return the plan for --output json: `{"changes": [{"action", "what", "lines"}], "extra", "notes", "warnings"}`."""
    changes = [{"action": c.sign, "what": c.what, "lines": list(c.lines)} for c in plan.changes]
    return {"changes": changes, "extra": list(plan.extra), "notes": list(plan.notes), "warnings": warnings}


def show(plan: Plan, warnings: list[str]) -> None:
    """Print the plan: each step with its difference, then notes, and the counts of steps."""
    for change in plan.changes:
        echo(styled(plain(f"{change.sign} {change.what}"), fg=COLORS[change.sign], bold=True))
        for line in change.lines:
            color = COLORS.get(line.strip()[:1])
            echo(f"    {plain(line)}" if color is None else f"    {styled(plain(line), fg=color)}")
    for text in (*plan.notes, *warnings):
        echo(plain(text), err=True)
    if plan.extra:
        listed = ", ".join(plan.extra[:10]) + (f" and {len(plan.extra) - 10} more" if len(plan.extra) > 10 else "")
        echo(f"not in the folder, and left alone without --prune: {plain(listed)}", err=True)
    counts = {sign: sum(change.sign == sign for change in plan.changes) for sign in "+~-"}
    if plan.changes:
        echo(f"{counts['+']} to add, {counts['~']} to change, {counts['-']} to remove")
    else:
        echo("no change")
