"""Implement `helen token` and `helen tokens`: the tokens by which machines become agents."""

from __future__ import annotations

import shlex
import time
from datetime import datetime
from typing import Any
from urllib.parse import quote

import click

from groundwork.counts import count
from groundwork.durations import words_of
from groundwork.terminal import echo
from helen.cli.base.client import Client
from helen.cli.base.labels import in_words, read_labels
from helen.cli.base.options import chosen_helen, for_a_helen, output, plain, print_json, table, which_helen

SAFER = (
    "Other users of that machine can see the token for a moment in its list of processes. To keep it out, put the"
    " token into a file and give `equus --join-file FILE`, or give `equus --join -` and paste it."
)


@click.command()
@click.argument("name", required=False)
@click.option("--agent", metavar="NAME", help="Only this agent may use the token: the same as NAME.")
@click.option("--names", metavar="PATTERN", help="Only agents with such a name may use it: 'asg-*'.")
@click.option("--uses", default=1, show_default=True, help="Number of agents that may use the token.")
@click.option("--labels", multiple=True, metavar="KEY=VALUE,...", help="Labels of the agents, which steer what runs.")
@click.option("--ephemeral", metavar="DURATION", help="Forget an agent that is away for longer, without an alarm.")
@click.option(
    "--ttl", "--expires", metavar="DURATION", default="1h", show_default=True, help="Time for which the token is valid."
)
@output
@for_a_helen
def token(
    client: Client, name: str | None, agent: str | None, names: str | None, uses: int, labels: tuple[str, ...],
    ephemeral: str | None, ttl: str, as_json: bool,
) -> None:  # fmt: skip
    """Print the command that makes a machine an agent. It holds a token that is good once, or for --uses agents.

    With NAME only that agent may use it. --labels are facts: rules about labels go by them, and not by what an agent
    says of itself. `helen label` changes them later, `helen tokens` lists tokens that are good still.
    """
    if name is not None and agent not in (None, name):
        raise click.UsageError(f"NAME is {name}, and --agent is {agent}: give one of them")
    agent = name or agent
    asked = {"agent": agent, "names": names, "uses": uses, "ttl": ttl, "ephemeral": ephemeral}
    made = client.post("/api/v1/tokens", {**asked, "labels": read_labels(labels)})
    join = f"equus --server {made['address']} --join {made['token']}"
    join += f" --name {shlex.quote(agent)}" if agent else ""
    if as_json:
        print_json(made | {"join": join})
    else:
        echo(join)
        echo(SAFER, err=True)


@click.group(invoke_without_command=True, subcommand_metavar="[revoke ID...]")
@output
@which_helen
@click.pass_context
def tokens(ctx: click.Context, /, as_json: bool, **which: Any) -> None:
    """List the tokens with which agents may join still, without their secrets; `helen tokens revoke ID` ends one."""
    ctx.obj = which
    if ctx.invoked_subcommand is not None:
        return
    found = Client(**which).get("/api/v1/tokens")
    if as_json:
        print_json(found)
        return
    table(["ID", "FOR", "USED", "ENDS", "LABELS", "EPHEMERAL", "MADE BY"], [_row(each) for each in found["tokens"]])
    if not found["tokens"]:
        echo("No token is good any more. `helen token` makes one.")


def _row(token: dict[str, Any]) -> list[str]:
    stay = token["ephemeral"]
    return [
        token["id"], token["agent"] or token["names"] or "any free name", f"{token['used']} of {token['uses']}",
        _ends(token["expires"]), in_words(token["labels"]), words_of(stay) if stay is not None else "",
        token["created_by"],
    ]  # fmt: skip


def _ends(expires: float) -> str:
    """Return local time, and how far away that is; `expires`: unix seconds."""
    return f"{datetime.fromtimestamp(expires).astimezone():%Y-%m-%d %H:%M} (in {words_of(expires - time.time())})"


@tokens.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@output
@which_helen
@click.pass_context
def revoke(ctx: click.Context, /, ids: tuple[str, ...], as_json: bool, **which: Any) -> None:
    """Let tokens make no agent any more. The agents that they made stay: `helen revoke NAME` shuts one out.

    Exit status 3: there is no token with that ID.
    """
    client = chosen_helen(ctx, which)
    done = [client.post(f"/api/v1/tokens/{quote(each, safe='')}/revoke") for each in ids]
    if as_json:
        print_json({"revoked": done})
        return
    for each in done:
        echo(f"{plain(each['id'])} lets no agent in any more; it was used {count(each['used'], 'time')}")
