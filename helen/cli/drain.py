"""Implement `helen drain`, which sends this Helen's agents to other Helens before it is stopped."""

from __future__ import annotations

import time
from typing import Any

import click

from groundwork.counts import count
from groundwork.durations import parse_duration
from groundwork.terminal import echo
from helen.cli.base.client import Client, Failed
from helen.cli.base.options import for_a_helen, output, print_json

LOOK_SECONDS = 0.5
PATIENCE = 60.0  # seconds beyond --over in which the last agent has to be gone


@click.command()
@click.option(
    "--over", metavar="DURATION", default="30s", show_default=True, help="Time over which the departures are spread."
)
@click.option("--undo", is_flag=True, help="Accept agents again.")
@click.option("--force", is_flag=True, help="Go on even if no other Helen is known.")
@click.option("--no-wait", is_flag=True, help="Return at once, while agents still leave.")
@click.option("--dry-run", is_flag=True, help="Show how many agents would leave, and where to.")
@output
@for_a_helen
def drain(client: Client, as_json: bool, over: str, undo: bool, force: bool, no_wait: bool, dry_run: bool) -> None:
    """Send this Helen's agents to other Helens, spread over a time, without losing a result.

    Helen stays drained, over restarts too, until `helen drain --undo`. Exit status 0: no agent is left. 1: some are.
    """
    if undo:
        show(client.post("/api/v1/drain/undo", {"dry_run": dry_run}), as_json)
        return
    try:
        limit = parse_duration(over)
    except ValueError as error:
        raise click.UsageError(f"--over: {error}") from error
    found = client.post("/api/v1/drain", {"over": limit, "force": force, "dry_run": dry_run})
    if not (dry_run or no_wait):
        found = wait(client, found, limit, as_json)
    show(found, as_json)
    if found["agents"] and not (dry_run or no_wait):
        raise Failed(
            f"{count(found['agents'], 'agent is', 'agents are')} still connected: GET /api/v1/drain shows the progress"
        )


def wait(client: Client, found: dict[str, Any], limit: float, as_json: bool) -> dict[str, Any]:
    """Poll until no agent is left, or for `limit` seconds and PATIENCE; print a line whenever some have left."""
    until = time.monotonic() + limit + PATIENCE
    while found["phase"] == "draining" and time.monotonic() < until:
        time.sleep(LOOK_SECONDS)
        before, found = found["agents"], client.get("/api/v1/drain")
        if not as_json and found["agents"] != before:
            echo(f"{count(found['agents'], 'agent')} left")
    return found


def show(found: dict[str, Any], as_json: bool) -> None:
    """Print the phase of the drain, the numbers of agents and open queries, and the other Helens."""
    if as_json:
        print_json(found)
        return
    where = ", ".join(found["others"]) or "none is known here"
    phase = {"off": "accepts agents", "draining": "is being drained", "drained": "is drained"}[found["phase"]]
    echo(f"This Helen {phase}. Agents here: {found['agents']}; open queries: {found['questions']}.")
    echo(f"Other Helens: {where}")
