"""Serve calls of tools by the SDK of the Model Context Protocol, which negotiates the version: the extra `mcp`."""

from __future__ import annotations

import importlib.metadata
import os
import signal
import sys
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage

from helen.cli.mcp.arguments import schema_of
from helen.cli.mcp.lines import Lines
from helen.cli.mcp.marked_data import WARNING
from helen.cli.mcp.tool_calls import Answer, Tool, ToolCalls

INSTRUCTIONS = (
    f"Helen monitors machines: agents on them run checks. Begin with `problems`, then `explain` one. {WARNING} Changes"
    " take two calls: `plan` shows what would be done, and `confirm` does it; ask the person whom you work for between."
)


def serve(calls: ToolCalls) -> None:
    """Serve on standard input and output until the input ends. Ctrl-C and SIGTERM end it at once."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # what else is printed must not get between the messages
    try:
        anyio.run(_serve, calls, Lines(source, sink))
    except* BrokenPipeError:  # the client is gone, and what was left for it can't be written at the end either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sink.fileno())


async def _serve(calls: ToolCalls, lines: Lines) -> None:
    server = server_of(calls)
    given, taken = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    answered, written = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lines.read_all, given)
        tasks.start_soon(lines.write_all, written)
        await server.run(taken, answered, server.create_initialization_options())
        tasks.cancel_scope.cancel()


def server_of(calls: ToolCalls) -> Server[Any]:
    """Return a server of the SDK's that has these tools; one call after the other is answered, in a thread."""
    one_by_one = anyio.Lock()

    async def list_tools(_: Any, params: Any) -> types.ListToolsResult:
        async with one_by_one:
            listed = await anyio.to_thread.run_sync(calls.listed)
        return types.ListToolsResult(tools=[_shown(tool) for tool in listed])

    async def call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        async with one_by_one:
            answer: Answer = await anyio.to_thread.run_sync(calls.call, params.name, params.arguments or {})
        return types.CallToolResult(content=[types.TextContent(text=answer.text)], is_error=answer.is_error)

    version = importlib.metadata.version("helen-equus")
    return Server("helen", version=version, instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool)


def _shown(tool: Tool) -> types.Tool:
    hints = types.ToolAnnotations(read_only_hint=not tool.changes, destructive_hint=tool.changes, open_world_hint=False)
    return types.Tool(name=tool.name, description=tool.help, input_schema=schema_of(tool.fields), annotations=hints)
