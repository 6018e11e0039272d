"""Implement `helen agents`, which lists agents, shows one, and forgets those that are gone for good."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from groundwork.terminal import echo
from helen.cli.base.client import Client, Missing
from helen.cli.base.options import chosen_helen, output, plain, print_json, which_helen
from helen.cli.shown.agent_lines import show_agent, show_agents


class AgentsGroup(click.Group):
    """Take the name of an agent where a subcommand may stand: `helen agents web-1` shows it."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a subcommand, or one that shows the agent of this name."""
        return super().get_command(ctx, cmd_name) or one_agent(cmd_name)


@click.group(cls=AgentsGroup, invoke_without_command=True, subcommand_metavar="[NAME | forget NAME...]")
@click.option(
    "--on",
    metavar="AGENTS",
    multiple=True,
    help="Only agents that fit: a name, a pattern (web*), or a label (role=web).",
)
@output
@which_helen
@click.pass_context
def agents(
    ctx: click.Context, on: tuple[str, ...], state: Path | None, url: str | None, token: str | None, as_json: bool
) -> None:
    """List the agents, connected or not; NAME shows one, `helen agents forget NAME` removes it from the list.

    Exit status 3: no agent fits --on, or has that name.
    """
    ctx.obj = {"state": state, "url": url, "token": token}
    if ctx.invoked_subcommand is not None:
        return
    client = Client(state, url, token)
    found = client.get("/api/v1/agents" + "".join(f"{'&' if at else '?'}on={quote(p)}" for at, p in enumerate(on)))
    if as_json:
        print_json(found)
    elif found["agents"] or not on:
        show_agents(found["agents"], time.time())
    if on and not found["agents"]:
        raise Missing(f"no agent fits {', '.join(on)}: `helen agents` lists them")


def one_agent(name: str) -> click.Command:
    """Return a command that shows the agent of this name."""

    @click.command(name, help=f"Show the agent {name}: its labels, its link, and the states of its checks.")
    @output
    @which_helen
    @click.pass_context
    def show(ctx: click.Context, /, as_json: bool, **which: Any) -> None:
        agent = chosen_helen(ctx, which).get(f"/api/v1/agents/{quote(name, safe='')}")
        print_json(agent) if as_json else show_agent(agent)

    return show


@agents.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@output
@which_helen
@click.pass_context
def forget(ctx: click.Context, /, names: tuple[str, ...], as_json: bool, **which: Any) -> None:
    """Shut agents out and remove them from all lists. Use it for machines that are gone for good. Their history stays.

    Exit status 1: an agent is connected. 3: no agent has that name.
    """
    client = chosen_helen(ctx, which)
    done = [client.post(f"/api/v1/agents/{quote(name, safe='')}/forget")["agent"] for name in names]
    if as_json:
        print_json({"forgotten": done})
    else:
        echo(f"forgotten: {', '.join(map(plain, done))}")
