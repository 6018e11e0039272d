"""`helen drain`: let this Helen's agents go to others, before she is stopped."""

from __future__ import annotations

import time
from typing import Any

import click

from helen.cli.client import Client, Failed
from helen.cli.options import for_a_helen, output, print_json
from helen.durations import seconds

LOOK_SECONDS = 0.5
PATIENCE = 60.0  # seconds beyond --over in which the last agent has to be gone


@click.command()
@click.option("--over", default="30s", show_default=True, help="How long it may take: agents leave spread over it.")
@click.option("--undo", is_flag=True, help="Take agents again.")
@click.option("--force", is_flag=True, help="Also where no other Helen is known.")
@click.option("--no-wait", is_flag=True, help="Don't wait until all have gone.")
@click.option("--dry-run", is_flag=True, help="Show what would go, and where to.")
@output
@for_a_helen
def drain(client: Client, as_json: bool, over: str, undo: bool, force: bool, no_wait: bool, dry_run: bool) -> None:
    """Empty this Helen: her agents go to others, spread over a time, and no result is lost.

    She stays drained, over restarts too, until `helen drain --undo`. Exit status 0: nobody is left. 1: somebody is.
    """
    if undo:
        show(client.post("/api/v1/drain/undo", {"dry_run": dry_run}), as_json)
        return
    try:
        limit = seconds(over)
    except ValueError as error:
        raise click.UsageError(f"--over: {error}") from error
    found = client.post("/api/v1/drain", {"over": limit, "force": force, "dry_run": dry_run})
    if not (dry_run or no_wait):
        found = wait(client, found, limit, as_json)
    show(found, as_json)
    if found["agents"] and not (dry_run or no_wait):
        raise Failed(f"{found['agents']} agents are still here: GET /api/v1/drain tells how it goes on")


def wait(client: Client, found: dict[str, Any], limit: float, as_json: bool) -> dict[str, Any]:
    """Until nobody is left, with a line whenever some have gone."""
    until = time.monotonic() + limit + PATIENCE
    while found["phase"] == "draining" and time.monotonic() < until:
        time.sleep(LOOK_SECONDS)
        before, found = found["agents"], client.get("/api/v1/drain")
        if not as_json and found["agents"] != before:
            click.echo(f"{found['agents']} agents left")
    return found


def show(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    where = ", ".join(found["others"]) or "nobody that is known here"
    said = {"off": "takes agents", "draining": "is being drained", "drained": "is drained"}[found["phase"]]
    click.echo(f"This Helen {said}. Agents here: {found['agents']}; open questions: {found['questions']}.")
    click.echo(f"Other Helens: {where}")
