"""Answer calls of tools: the one place between the protocol and Helen's HTTP API. Blocks, and is used by one thread.

A tool that only looks has a function of the arguments; those that write are in plans.py. Every failure is an answer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import click
from attrs import define, field, frozen

from helen.cli.base.client import Client
from helen.cli.base.failures import Failed
from helen.cli.mcp.arguments import Fields, read
from helen.cli.mcp.marked_data import marked

MOST_BYTES = 16 * 1024 * 1024  # of one answer of Helen's
PATIENCE = 30.0  # seconds that Helen has for one answer
WRITING = ("operate", "admin")  # scopes that change something


@frozen
class Tool:
    """Describes a tool. `act` gets ToolCalls and the arguments, and returns a sentence of ours and a document."""

    name: str
    help: str
    fields: Fields
    act: Callable[[ToolCalls, dict[str, Any]], tuple[str, Any]]
    writes: bool = False
    changes: bool = False


class Uncertain(Failed):
    """Says of a write that it may have been done. `said` is the sentence outside the marks, with the next step."""

    def __init__(self, said: str, error: click.ClickException) -> None:
        super().__init__(error.message)
        self.said = said


@frozen
class Answer:
    """Holds the text of an answer, and whether it tells of a failure."""

    text: str
    is_error: bool = False


@define
class ToolCalls:
    """Answers with what one Helen says to one token; `scopes` are what the token had when Helen was last asked."""

    client: Client
    tools: Mapping[str, Tool]
    read_only: bool = False
    scopes: frozenset[str] = field(factory=frozenset)

    def look(self) -> None:
        """Ask what the token may do. Raises Failed if Helen can't be asked."""
        self.scopes = frozenset(self.client.get("/api/v1/me", PATIENCE)["scopes"])

    @property
    def may_write(self) -> bool:
        return not self.read_only and not self.scopes.isdisjoint(WRITING)

    def listed(self) -> list[Tool]:
        """Return the tools that the token may use; while Helen is away, by what it said last."""
        with contextlib.suppress(click.ClickException, KeyError, TypeError):
            self.look()
        return [tool for tool in self.tools.values() if self.may_write or not tool.writes]

    def call(self, name: str, given: Mapping[str, Any]) -> Answer:
        """Call a tool by its name."""
        tool = self.tools.get(name)
        try:
            if tool is None:
                raise click.UsageError(f"there is no tool of this name: {', '.join(self.tools)}")
            if tool.writes and not self.may_write:
                raise click.UsageError(self._why_not())
            said, document = tool.act(self, read(tool.fields, given))
        except click.ClickException as error:
            why = error.said if isinstance(error, Uncertain) else "Nothing was done, for the reason in the data."
            return Answer(marked(why, {"error": error.format_message()}), True)
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            said = "Nothing is shown: what answers has not the form of this version of Helen."
            return Answer(marked(said, {"error": f"{type(error).__name__}: {error}"}), True)
        return Answer(marked(said, document))

    def _why_not(self) -> str:
        if self.read_only:
            return "this was started with --read-only: it changes nothing"
        return "the token may only look: one with the scope operate is needed, `helen web-token add` makes one"
