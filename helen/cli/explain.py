"""`helen explain AGENT/CHECK`: why this state, why no alert, why not run, what else broke, what changed."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import quote

import click

from helen.cli.client import Client
from helen.cli.judgement import moment, split
from helen.cli.options import for_a_helen, output, plain, print_json

QUESTIONS = {
    "why_state": "Why this state?",
    "why_no_alert": "Who was told, and why nobody else?",
    "why_not_run": "When does it run?",
    "what_else": "What else broke then?",
    "what_changed": "What changed?",
}


def read_moment(text: str) -> float:
    """`2026-11-28 14:00`, with a zone or in this machine's, or unix seconds."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except (ValueError, OverflowError) as error:
        raise click.UsageError(f"--at {text!r} is no time: write 2026-11-28T14:00, or unix seconds") from error


@click.command()
@click.argument("what", metavar="AGENT/CHECK")
@click.option("--at", help="A moment in the past: 2026-11-28T14:00, or unix seconds.")
@output
@for_a_helen
def explain(client: Client, what: str, at: str | None, as_json: bool) -> None:
    """Say why a check is in its state and who was told, from the records that were made when it was decided.

    Exit status 3: nothing is known of it.
    """
    agent, check = split(what)
    when = "" if at is None else f"?at={read_moment(at)}"
    found = client.get(f"/api/v1/explain/{quote(agent, safe='')}/{quote(check, safe='')}{when}")
    print_json(found) if as_json else show(found)


def show(found: dict[str, Any]) -> None:
    state = found["state"]
    now = "nothing is known" if state is None else f"{state['status'].upper()} {state['kind']}"
    click.echo(f"{plain(found['agent'])}/{plain(found['check'])} at {moment(found['at'])}: {now}")
    for key, question in QUESTIONS.items():
        if not found[key]:
            continue
        click.echo(f"\n{question}")
        for line in found[key]:
            click.echo(f"  {moment(line['at']) if line['at'] else '':<24}  {plain(line['text'])}".rstrip())
