"""Implement `helen explain AGENT/CHECK`: why this state, why no alert, why not run, what else broke, what changed."""

from __future__ import annotations

import contextlib
import time
from datetime import datetime, timedelta
from datetime import time as time_of_day
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

import click

from groundwork.durations import words_of
from groundwork.terminal import echo
from helen.cli.base.client import Client
from helen.cli.base.options import for_a_helen, output, plain, print_json
from helen.cli.base.zone_option import ZoneOption
from helen.cli.downtimes import moment, split

CLOCKS_APART = 60.0  # seconds by which this machine's clock may be behind Helen's
QUESTIONS = {
    "why_state": "Why this state?",
    "why_no_alert": "Who was told, and why no one else?",
    "why_not_run": "When does it run?",
    "what_else": "What else broke then?",
    "what_changed": "What changed?",
}


def read_moment(text: str, now: float, zone: ZoneInfo | None = None, option: str = "--at") -> float:
    """Return a text such as `2026-11-28 14:00` or `14:00` as unix seconds; `now` is unix seconds.

    A time without a zone of its own is in `zone`, or in this machine's; one without a date is the last time that it was
    so late. A number is unix seconds already. Raises UsageError if the text is no time, or one of the future.
    """
    try:
        at = _moment_of(text, now, zone)
    except (ValueError, OverflowError, OSError) as error:
        raise click.UsageError(
            f"{option} {text!r} is no time: write 2026-11-28T14:00, 14:00 or unix seconds"
        ) from error
    if at > now + CLOCKS_APART:
        known = "explained" if option == "--at" else "shown"
        raise click.UsageError(f"{option} {text!r} is {words_of(at - now)} from now: only the past can be {known}")
    return at


def _moment_of(text: str, now: float, zone: ZoneInfo | None) -> float:
    with contextlib.suppress(ValueError):
        return float(text)
    if ":" in text and "-" not in text.partition(":")[0]:
        today = datetime.fromtimestamp(now, zone).replace(tzinfo=None)
        given = datetime.combine(today.date(), time_of_day.fromisoformat(text))
        given = given if given <= today else given - timedelta(days=1)
    else:
        given = datetime.fromisoformat(text)
    return (given.replace(tzinfo=zone) if given.tzinfo is None and zone is not None else given).astimezone().timestamp()


@click.command()
@click.argument("what", metavar="AGENT/CHECK")
@click.option("--at", metavar="TIME", help="Explain a time in the past: 03:00, 2026-11-28T14:00, or unix seconds.")
@click.option("--zone", type=ZoneOption(), help="Zone of the times, such as Europe/Berlin; default: this machine's.")
@output
@for_a_helen
def explain(client: Client, what: str, at: str | None, zone: ZoneInfo | None, as_json: bool) -> None:
    """Explain why a check is in its state and who was told, from the records of the decisions.

    Exit status 3: no such check is known.
    """
    agent, check = split(what)
    when = "" if at is None else f"?at={read_moment(at, time.time(), zone)}"
    found = client.get(f"/api/v1/explain/{quote(agent, safe='')}/{quote(check, safe='')}{when}")
    print_json(found) if as_json else show(found, zone)


def show(found: dict[str, Any], zone: ZoneInfo | None = None) -> None:
    """Print the answers, question by question, with times in `zone`, or in this machine's."""
    state = found["state"]
    now = "nothing is known" if state is None else f"{state['status'].upper()} {state['kind']}"
    echo(f"{plain(found['agent'])}/{plain(found['check'])} at {moment(found['at'], zone)}: {now}")
    for key in ("owner", "runbook", "notes"):
        for line in (found.get(key) or "").splitlines():  # an older Helen says nothing of them
            echo(f"  {key}: {plain(line)}")
    for key, question in QUESTIONS.items():
        if not found[key]:
            continue
        echo(f"\n{question}")
        for line in found[key]:
            echo(f"  {moment(line['at'], zone) if line['at'] else '':<24}  {plain(line['text'])}".rstrip())
