"""Implement `helen mcp`. The SDK of the protocol is an extra, and is imported only when the command runs."""

from __future__ import annotations

import importlib
import importlib.util

import click

from helen.cli.base.client import Client
from helen.cli.base.failures import Failed
from helen.cli.base.options import for_a_helen
from helen.cli.mcp.looking import LOOKING
from helen.cli.mcp.plans import Plans, writing
from helen.cli.mcp.tool_calls import MOST_BYTES, ToolCalls


@click.command()
@click.option("--read-only", is_flag=True, help="Offer nothing that changes anything, whatever the token may.")
@for_a_helen
def mcp(client: Client, read_only: bool) -> None:
    """Serve this Helen to a program that speaks the Model Context Protocol on standard input and output.

    It can do what the token may, and changes nothing before it is confirmed: docs/mcp.rst.
    """
    if importlib.util.find_spec("mcp") is None:
        raise Failed("`helen mcp` needs the SDK of the protocol: pip install 'helen-equus[mcp]'")
    calls = calls_for(client, read_only)
    calls.look()  # a failure at the start is printed, and is the exit status
    importlib.import_module("helen.cli.mcp.serving").serve(calls)


def calls_for(client: Client, read_only: bool = False) -> ToolCalls:
    """Return what answers the calls of one program, with eight tools."""
    client.most_bytes = MOST_BYTES
    tools = (*LOOKING, *writing(Plans()))
    return ToolCalls(client, {tool.name: tool for tool in tools}, read_only)
