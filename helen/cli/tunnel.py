"""Implement `helen tunnel`, which joins standard input and output with a program at an agent."""

from __future__ import annotations

import sys
from urllib.parse import quote

import click

from helen.cli.base.carry import carry
from helen.cli.base.client import Client
from helen.cli.base.options import for_a_helen


@click.command()
@click.argument("agent")
@click.option("--kind", metavar="KIND", default="ssh", show_default=True, help="Which program at the agent.")
@for_a_helen
def tunnel(client: Client, agent: str, kind: str) -> None:
    """Join standard input and output with a program at AGENT, through the connection that it holds to Helen.

    For `ssh`, as its ProxyCommand. The host's own policy decides whether there is such a program (docs/shell.rst).

    Exit status 1: the tunnel was refused, with the reason on standard error; 3: no agent has that name.
    """
    path = f"/api/v1/agents/{quote(agent, safe='')}/tunnel"
    connection, early = client.upgrade(path, {"kind": kind}, "equus-tunnel")
    with connection:
        carry(connection, early, sys.stdin.fileno(), sys.stdout.fileno())
