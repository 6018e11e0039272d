"""Implement `helen repl`: Lua, line by line, on one agent. helen/queries/repl_source.py turns a line into code."""

from __future__ import annotations

import contextlib
import os
import re
import readline
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
from attrs import define, field
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from groundwork.terminal import echo, styled
from helen.cli.base.client import Client, Failed
from helen.cli.base.metric_rows import HEADINGS, metric_rows
from helen.cli.base.one_off_source import body_of
from helen.cli.base.options import for_a_helen, plain, table
from helen.cli.base.private_key import read_key
from helen.cli.run import PATIENCE
from helen.queries import repl_source
from helen.queries.repl_source import Framed, Memory

LINE_SECONDS = 65.0  # that a line is waited for: its own 60 s, and the way
MOST_HISTORY = 1_000  # lines that are remembered
TRACE = re.compile(r"\n?^stack traceback:\n.*", re.M | re.S)  # of an error: its places are those of the frame
HELP = """\
Lua runs on {agent}, in its sandbox and under its policy; host.NAME(...) are the calls that checks have.
An expression shows its values. Global names keep plain values for the next line, and so do functions that a line
begins with; locals end with their line.
  host         lists the calls, each with a description
  :help        shows this
  :vars        lists the names that are kept, with their values
  :forget      forgets all of them
  :quit        ends, as Ctrl-D
No result is kept, neither on the agent nor in Helen's history; the audit has each line."""


@click.command()
@click.option("--agent", required=True, metavar="NAME", help="The agent that runs the lines.")
@click.option(
    "--key", "keys", type=click.Path(path_type=Path), multiple=True,
    help="Sign each line with this private key, which Helen doesn't hold; repeat it where two must sign.",
)  # fmt: skip
@for_a_helen
def repl(client: Client, agent: str, keys: tuple[Path, ...]) -> None:
    """Run Lua on one agent, a line at a time. No result is kept.

    Exit status 1: a line failed, and the input is no terminal. 3: there is no such agent.
    """
    prompt = Prompt(client, agent, [read_key(key) for key in keys])
    client.get(f"/api/v1/agents/{quote(agent, safe='')}")  # ends with 3 if no agent has the name
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        echo(f"Lua on {agent}. :help tells more, Ctrl-D ends.")
    with line_history() if is_terminal else contextlib.nullcontext():
        for text in statements(agent, is_terminal):
            good = prompt.take(text)
            if not good and not is_terminal:
                raise SystemExit(1)


def statements(agent: str, is_terminal: bool) -> Iterator[str]:
    """Yield the input as whole statements; an empty line ends one that Lua would continue."""
    text = ""
    while True:
        try:
            line = read_line(f"{agent}> " if not text else " " * len(agent) + "| ", is_terminal)
        except KeyboardInterrupt:
            echo()
            text = ""
            continue
        if line is None:
            if text:
                yield text
            return
        text += line if not text else f"\n{line}"
        if not line.strip() or not repl_source.is_open(text):
            if text.strip():
                yield text
            text = ""


def read_line(prompt: str, is_terminal: bool) -> str | None:
    """Return the next line of the input, None at its end."""
    if not is_terminal:
        line = sys.stdin.readline()
        return line.rstrip("\n") if line else None
    try:
        return input(prompt)
    except EOFError:
        echo()
        return None


@define
class Prompt:
    """Run lines on one agent, and keep names and functions from line to line."""

    client: Client
    agent: str
    keys: list[Ed25519PrivateKey]
    memory: Memory = field(factory=Memory)

    def take(self, text: str) -> bool:
        """Carry out a line, and return True if it succeeded."""
        if text.lstrip().startswith(":"):
            return self._command(text.strip())
        try:
            return self._run(text)
        except click.ClickException as error:
            echo(styled(error.format_message(), fg="red"), err=True)
            return False
        except KeyboardInterrupt:  # closing the connection ends the query: Helen tells the agent to give up
            echo("given up", err=True)
            return False

    def _command(self, command: str) -> bool:
        if command in (":quit", ":q", ":exit"):
            raise SystemExit(0)
        if command in (":help", ":h", ":?"):
            echo(HELP.format(agent=self.agent))
        elif command == ":vars":
            for name, value in {**self.memory.values, **self.memory.functions}.items():
                echo(plain(f"{name} = {value}"))
        elif command == ":forget":
            self.memory = Memory()
        else:
            echo(f"{plain(command)} is unknown: :help lists the commands", err=True)
            return False
        return True

    def _run(self, text: str) -> bool:
        is_statement = repl_source.is_statement(text)
        framed, result = self._ask(text, as_expression=not is_statement)
        if not is_statement and result.get("reason") == "load-error":
            framed, result = self._ask(text, as_expression=False)
        output = framed.place(TRACE.sub("", result.get("output") or ""))
        for line in output.splitlines():
            echo(plain(line.expandtabs()))
        show_metrics(result)
        if "output" in (result.get("truncated") or {}):
            echo("the rest of the output was cut", err=True)
        if result["status"] != "ok" or not result.get("summary", "").startswith("="):
            why = framed.place(result.get("summary") or result.get("reason") or "no answer")
            echo(styled(plain(why), fg="red"), err=True)
            return False
        self.memory, lost = repl_source.remember(self.memory, text, result["summary"])
        if lost:
            echo(f"not kept for the next line: {', '.join(lost)}", err=True)
        return True

    def _ask(self, text: str, as_expression: bool) -> tuple[Framed, dict[str, Any]]:
        """Have the agent run a line; raises Failed if the answer is no result."""
        framed = repl_source.frame(text, self.memory, as_expression)
        files = {repl_source.FILE: framed.source.encode("utf-8", "surrogateescape")}
        body = body_of(repl_source.CHECK, files, {}, [self.agent], self.keys) | {"timeout": LINE_SECONDS}
        for line in self.client.stream("/api/v1/once", body, LINE_SECONDS + PATIENCE):
            if "agent" in line:
                if line["outcome"] != "answered" or line["result"] is None:
                    raise Failed(f"{line['outcome']}: {plain(line.get('why') or 'no answer')}")
                return framed, line["result"]
        raise Failed("Helen closed the connection before the agent had answered")


def show_metrics(result: dict[str, Any]) -> None:
    """Print the metrics that a line has made."""
    rows = metric_rows(result.get("metrics") or ())
    if rows:
        table(HEADINGS, rows)


# ---------------------------------------------------------------------------------------------------- history


@contextlib.contextmanager
def line_history() -> Iterator[None]:
    """Let readline edit lines, and load and save the lines of earlier sessions."""
    path = history_path()
    if path is not None:
        with contextlib.suppress(OSError):
            readline.read_history_file(path)
    readline.set_history_length(MOST_HISTORY)
    try:
        yield
    finally:
        if path is not None:
            with contextlib.suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch(mode=0o600)  # a line may hold a secret
                readline.write_history_file(path)


def history_path() -> Path | None:
    """Return the file of earlier lines, None if HELEN_REPL_HISTORY is empty."""
    chosen = os.environ.get("HELEN_REPL_HISTORY")
    if chosen is not None:
        return Path(chosen) if chosen else None
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "helen-repl"
