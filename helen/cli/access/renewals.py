"""Implement `helen renewals`: certificates that end, the grace for expired ones, and tokens for many agents."""

from __future__ import annotations

import shlex
import time
from typing import Any
from urllib.parse import urlencode

import click

from groundwork.counts import count
from groundwork.durations import parse_duration
from groundwork.terminal import echo
from helen.cli.access.join_tokens import SAFER
from helen.cli.base.ages import ago
from helen.cli.base.client import Client
from helen.cli.base.options import for_a_helen, output, plain, print_json, table
from helen.cli.downtimes import moment

NEXT = {"good": "it renews it by itself", "grace": "renewed when it comes, until", "over": "it needs a token"}


@click.command()
@click.option("--grace", metavar="DURATION", help="Renew certificates for so long after their end: 90d; `off`: never.")
@click.option("--tokens", "patterns", multiple=True, metavar="AGENTS", help="Print for each the line to enrol again.")
@click.option("--ttl", metavar="DURATION", default="1h", show_default=True, help="Time for which the tokens are valid.")
@click.option("--all", "everyone", is_flag=True, help="All agents, and not only those that need help within a day.")
@click.option("--dry-run", is_flag=True, help="Check the grace, or list for which agents there would be tokens.")
@output
@for_a_helen
def renewals(
    client: Client, grace: str | None, patterns: tuple[str, ...], ttl: str, everyone: bool, dry_run: bool, as_json: bool
) -> None:  # fmt: skip
    """List agents whose certificate has expired or ends within a day, and what brings them back.

    An expired certificate is renewed for a grace, if the agent proves its key and isn't revoked. --tokens prints the
    command for each agent that fits (a name, a pattern or KEY=PATTERN) and is in the list. Exit status 3: none fits.
    """
    if grace is not None and patterns:
        raise click.UsageError("--grace and --tokens are two commands")
    if grace is not None:
        set_grace(client, grace, dry_run, as_json)
    elif patterns:
        body = {"on": list(patterns), "ttl": ttl, "all": everyone, "dry_run": dry_run}
        show_tokens(client.post("/api/v1/renewals/tokens", body), as_json)
    else:
        query = f"?{urlencode({'all': 'true'})}" if everyone else ""
        show(client.get(f"/api/v1/renewals{query}"), everyone, as_json)


def set_grace(client: Client, grace: str, dry_run: bool, as_json: bool) -> None:
    """Set the grace and print it. Raises UsageError if it is no duration."""
    try:
        seconds = 0.0 if grace == "off" else parse_duration(grace)
    except ValueError as error:
        raise click.UsageError(f"--grace: {error}, or off") from error
    done = client.post("/api/v1/renewals", {"grace": seconds, "dry_run": dry_run})
    print_json(done) if as_json else echo(in_words(done["grace"]))


def in_words(grace: float) -> str:
    """Return the sentence about a grace, in seconds."""
    if not grace:
        return "Expired certificates are not renewed: their agents need a token."
    return f"Expired certificates are renewed for {count(grace / 86_400, 'day')}; those of revoked agents never are."


def show(found: dict[str, Any], everyone: bool, as_json: bool) -> None:
    """Print the grace, and a row for each agent."""
    if as_json:
        print_json(found)
        return
    echo(in_words(found["grace"]))
    if not found["agents"]:
        echo("There are no agents." if everyone else "No certificate has expired or ends within a day.")
        return
    now = time.time()
    rows = [
        [
            each["agent"],
            "connected" if each["connected"] else f"seen {ago(now, each['last_seen'])} ago",
            "none is known here" if each["ends"] is None else moment(each["ends"]),
            f"{NEXT['grace']} {moment(each['renewed_until'])}" if each["state"] == "grace" else NEXT[each["state"]],
        ]
        for each in found["agents"]
    ]
    table(["AGENT", "LINK", "CERTIFICATE ENDS", "NEXT"], rows)


def show_tokens(made: dict[str, Any], as_json: bool) -> None:
    """Print the command of each agent, to be run on its machine."""
    if as_json:
        print_json(made)
        return
    if not made["tokens"]:
        echo("No certificate of these agents has expired or ends within a day: --all makes tokens all the same.")
    for each in made["tokens"]:
        name = plain(each["agent"])
        if each["token"] is None:
            echo(f"{name} would get a token")
            continue
        echo(f"# {name}")
        echo(f"equus --server {made['address']} --join {each['token']} --name {shlex.quote(each['agent'])}")
    if any(each["token"] for each in made["tokens"]):
        echo(SAFER, err=True)
