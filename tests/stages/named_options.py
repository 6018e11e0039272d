"""Collects the options that refusals, notes and help texts name, with each command at which somebody can hear them.

A text like "give --state DIR" helps where the command takes that option at that place. So each option outside of
backticks is held against the parsers of all commands whose code can print the text; see `reached_code`.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache

import click
from attrs import frozen
from named_commands import NAME, PROGRAMS, SERVICES, handed_on, pipeline, texts_of
from reached_code import WHOLE, Part, modules, reached_from

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*(?![\w-])")
OF_SERVER = re.compile(r"\b[Ss]tart (it|Helen|broker and Helen)\b|\bHelen\b.* started\b")
PIECE = re.compile(r"\s*(--[a-z-]+([ =](?!-)\S+)?\s*)+")  # of a command line: options and their values alone
COMMANDS_OF = {"equus": "equus", "scale0": "twistd scale0", "zerotask": "twistd zerotask", "helen": "twistd helen"}


@frozen
class NamedOption:
    """Holds an option, the text and the part of the code that name it, and where it is heard."""

    option: str
    text: str
    part: Part
    places: tuple[str, ...]


@cache
def places() -> dict[str, frozenset[str]]:
    """Return the options of each command by how the command is typed."""
    found = {name: _options_of(command) for name, command in commands()}
    for name, options in SERVICES.items():
        found[f"twistd {name}"] = frozenset(f"--{option.rstrip('=')}" for option in options().longOpt)
    return found


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield all commands by how they are typed, groups before their commands."""
    for name, command in PROGRAMS.items():
        yield from _below(name, command)


def _below(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            if found is not None:
                yield from _below(f"{name} {each}", pipeline if found is handed_on else found)


def _options_of(command: click.Command) -> frozenset[str]:
    own = [param for param in command.params if isinstance(param, click.Option)]
    return frozenset({"--help"} | {name for option in own for name in (*option.opts, *option.secondary_opts)})


@cache
def _heard_at() -> dict[Part, list[str]]:
    """Return where each part of the code is run."""
    found = dict[Part, list[str]]()
    for name, command in commands():
        for part in reached_from(*_start_of(name, command)):
            found.setdefault(part, []).append(name)
    for name in SERVICES:
        for part in reached_from(*(Part(f"{name}.tap", each) for each in modules()[f"{name}.tap"].parts)):
            found.setdefault(part, []).append(f"twistd {name}")
    return found


def _start_of(name: str, command: click.Command) -> list[Part]:
    """Return the function of a command; of a group only if it does anything itself."""
    is_idle = isinstance(command, click.Group) and not command.invoke_without_command and name not in PROGRAMS
    if command.callback is None or is_idle:
        return []
    callback = inspect.unwrap(command.callback)
    return [Part(callback.__module__, callback.__qualname__.partition(".")[0])]


@cache
def named_options() -> list[NamedOption]:
    """Return each option that a text names outside of a command, in the order of files."""
    return [named for part, text in _texts() for named in _options_in(part, text)]


def _texts() -> Iterator[tuple[Part, str]]:
    for module in modules().values():
        for name, statements in module.parts.items():
            for statement in statements:
                for text in printed(statement, is_loose=name == WHOLE):
                    yield Part(module.name, name), text


def printed(statement: ast.stmt, is_loose: bool) -> list[str]:
    """Return the texts of a statement that can be printed: no docstrings and no words of a command line."""
    if is_loose and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return []
    bodies = [
        node.body
        for node in ast.walk(statement)
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)
    ]
    left_out = {id(body[0].value) for body in bodies if isinstance(body[0], ast.Expr)}
    left_out |= {id(part) for node in ast.walk(statement) if isinstance(node, ast.JoinedStr) for part in node.values}
    found = [text for node in ast.walk(statement) if id(node) not in left_out for text in texts_of(node)[:1]]
    return [text for text in found if " " in text and not text.startswith("#!") and not PIECE.fullmatch(text)]


def _options_in(part: Part, text: str) -> Iterator[NamedOption]:
    for sentence in re.split(r"(?<=[.;:]) ", re.sub(r"`[^`]*`", "``", text)):
        for match in OPTION.finditer(sentence):
            yield NamedOption(match[0], text, part, places_of(part, sentence[: match.start()]))


def places_of(part: Part, before: str) -> tuple[str, ...]:
    """Return where an option behind these words is typed: at a command that they name, at Helen's start, or here."""
    typed = list[str](re.findall(rf"(?<![\w/.-])({NAME}(?: -n)?(?: [a-z][a-z-]*)*) ", before))
    if typed:
        return (command_in(typed[-1].replace("twistd -n", "twistd")),)
    if OF_SERVER.search(before):
        return ("twistd helen",)
    return tuple(_heard_at().get(part, [])) or (COMMANDS_OF[part.module.partition(".")[0]],)


def command_in(words: str) -> str:
    """Return the longest command that these words begin with; the program, if there is none."""
    parts = words.split()
    tries = (" ".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((each for each in tries if each in places()), parts[0])
